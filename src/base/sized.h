/* SPDX-License-Identifier: MIT */
/* Config and info structs that begin with their own size: an older caller's shorter struct is read and filled as far as
 * it goes, and a newer caller's longer one is refused only where it asks for something unknown. */
#ifndef GPUR_BASE_SIZED_H
#define GPUR_BASE_SIZED_H

#include "base/status.h"

/* Copies the caller's struct over `defaults` (known bytes long). Refuses sizes no version ever had. */
gpur_status gpur_sized_read(void *defaults, uint64_t known, const void *given, const char *type);

/* Refuses NULL and a size that no version ever had: for a call that would change something before it writes. */
gpur_status gpur_sized_check(const void *given, const char *type);

/* Copies `source` (known bytes long) into the caller's struct, as far as its size says; keeps that size. */
gpur_status gpur_sized_write(void *given, const void *source, uint64_t known, const char *type);

/* Refuses words that are kept for the settings of later versions where they are not 0: (count) of a member `reserved`
 * of this owner, as "gpur_replay_config.beta". */
gpur_status gpur_reserved_check(const int64_t *reserved, int32_t count, const char *owner);

#endif
