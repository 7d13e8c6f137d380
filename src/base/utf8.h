/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns the length in bytes of the UTF-8 character [RFC 3629] at `at`, of which `left` bytes can be read; 0 if it is
 * invalid, or a control character. */
static inline size_t gpur_utf8_length(const char *at, size_t left)
{
    static const uint32_t smallest[] = {0, 0x20, 0x80, 0x800, 0x10000};
    const unsigned char *const byte = (const unsigned char *)at;
    const size_t length = byte[0] < 0x80 ? 1 : byte[0] < 0xC0 ? 0 : byte[0] < 0xE0 ? 2 : byte[0] < 0xF0 ? 3 : 4;
    if (length == 0 || length > left || byte[0] > 0xF4)
        return 0;
    uint32_t code = length == 1 ? byte[0] : byte[0] & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((byte[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (byte[i] & 0x3F);
    }
    return code < smallest[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0 : length;
}
