/* SPDX-License-Identifier: MIT */
/* Entry file of the CPU kernels. It is compiled once for each instruction set (GPUR_VARIANT), or once for the race
 * check. */
#include "kernels/all.h"
#include "kernels/entries.h"

#ifdef GPUR_RACE_CHECK
#define ENTRY(name) gpur_##name##_race_entry,
const gpur_race_entry gpur_race_entries[GPUR_KERNEL_COUNT] = {GPUR_KERNEL_LIST(ENTRY)};
#else
#define ENTRY(name) GPUR_CPU_ENTRY(name),
const gpur_cpu_entry GPUR_GLUE3(gpur_cpu_entries_, GPUR_VARIANT, )[GPUR_KERNEL_COUNT] = {GPUR_KERNEL_LIST(ENTRY)};
#endif
