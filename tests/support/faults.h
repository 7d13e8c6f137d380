/* SPDX-License-Identifier: MIT */
/*
 * Makes the n-th call that can fail, fail. It counts what the library calls: memory (malloc and its like, the caller's
 * allocator, cJSON's memory), locks, threads, system calls on files, and oneDNN's objects.
 *
 * The linker puts the counting functions in the place of the real ones (--wrap), in those test programs that
 * tests/CMakeLists.txt names. Calls from within a shared library are not seen.
 */
#pragma once

#include "support/counting_alloc.h"

enum {
    FAULT_MEMORY = 1,
    FAULT_LOCK = 2,       /* pthread_mutex_init, pthread_cond_init */
    FAULT_THREAD = 4,     /* pthread_create */
    FAULT_DNNL = 8,       /* making oneDNN's objects */
    FAULT_FILE = 32,      /* open, write, sync, rename and the like: EIO */
    FAULT_FSYNC = 64,     /* fsync alone: EIO */
    FAULT_HOOK = 256,     /* memory, but of the caller's allocator alone */
    FAULT_EXCHANGE = 128, /* renameat2: EINVAL, as on a file system that cannot exchange two names */
};
enum { FAULT_ONCE = 0, FAULT_ALWAYS = 1 };

/* The n-th call of these kinds fails from here on; with FAULT_ALWAYS all later ones, too. n = 0: none, only count. */
void faults_begin(int kinds, int64_t nth, int always);

/* Ends that; how many calls of these kinds there were. */
int64_t faults_end(void);

/* The function that failed first since faults_begin; "" for none. */
const char *faults_name(void);

/* A caller's allocator that can fail: `user` is a counting_alloc, and counting_alloc_give takes the memory back. */
void *faults_take(void *user, size_t bytes);

/* Blocks of malloc and its like that this program holds, those of cJSON included. */
int64_t faults_live(void);

/* Makes cJSON allocate by the functions that count. */
void faults_watch_json(void);
