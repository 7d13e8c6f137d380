/* SPDX-License-Identifier: MIT */
/* Ctrl-C as a question that a loop asks, so that it can end with everything in order. */
#ifndef EXAMPLES_INTERRUPT_H
#define EXAMPLES_INTERRUPT_H

/* From here on the first SIGINT or SIGTERM only sets a flag; the second ends the program as it always did. */
void interrupt_watch(void);
int interrupt_came(void);

#endif
