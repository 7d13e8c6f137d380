/* SPDX-License-Identifier: MIT */
#include "times.h"

#include <stdio.h>

const char *time_text(double seconds, char text[TIME_TEXT])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double value = seconds * 1e9;
    int unit = 0;
    for (; value >= 999.5 && unit < 3; unit++)
        value /= 1000;
    snprintf(text, TIME_TEXT, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[unit]);
    return text;
}
