/* SPDX-License-Identifier: MIT */
/* How times are printed. */
#ifndef BENCH_TIMES_H
#define BENCH_TIMES_H

enum { TIME_TEXT = 16 };

/* Three digits and a unit: "6.56 ms". Returns `text`. */
const char *time_text(double seconds, char text[TIME_TEXT]);

#endif
