/* SPDX-License-Identifier: MIT */
/* Config and info structs begin with their own size. An older caller's shorter struct is read and filled as far as it
 * goes; a newer caller's longer struct is refused only if it sets something that this version does not know. */
#pragma once

#include "base/status.h"

/* Fills the caller's struct of `size` bytes with `defaults`, which is `known` bytes long. Refuses sizes that no version
 * ever had, and changes nothing then. */
gpur_status gpur_sized_init(void *given, uint64_t size, const void *defaults, uint64_t known, const char *type);

/* Copies the caller's struct over `defaults`, which is `known` bytes long, and gets that size. Refuses sizes that no
 * version ever had. */
gpur_status gpur_sized_read(void *defaults, uint64_t known, const void *given, const char *type);

/* Refuses NULL and sizes that no version ever had. For calls that change something before they write the struct. */
gpur_status gpur_sized_check(const void *given, const char *type);

/* Copies `source` (`known` bytes long) into the caller's struct as far as the caller's size allows; leaves that size
 * unchanged, and zeroes the bytes that this version does not know. */
gpur_status gpur_sized_write(void *given, const void *source, uint64_t known, const char *type);

/* Refuses nonzero words in a member `reserved` (count), which is for settings of later versions. `owner` names the
 * struct in the message, as in "gpur_replay_config.beta". */
gpur_status gpur_reserved_check(const int64_t *reserved, int32_t count, const char *owner);
