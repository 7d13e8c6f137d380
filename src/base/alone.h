/* SPDX-License-Identifier: MIT */
/* glibc tells when the process has no second thread, and spares its own mutexes the atomic instructions then, too: some
 * 7 ns a lock, of which the draw of a batch takes four. */
#ifndef GPUR_BASE_ALONE_H
#define GPUR_BASE_ALONE_H

#include <limits.h> /* or any other of libc, for its version */

#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 32)
#include <sys/single_threaded.h>
#define GPUR_IS_ALONE __libc_single_threaded
#else
#define GPUR_IS_ALONE 0
#endif

#endif
