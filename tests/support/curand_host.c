/* SPDX-License-Identifier: MIT */
#include "support/curand_host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { PHILOX4_32_10 = 161 }; /* CURAND_RNG_PSEUDO_PHILOX4_32_10 in curand.h */

/* As declared in curand.h. */
typedef struct curand_functions {
    int (*create)(void **generator, int kind);
    int (*seed)(void *generator, unsigned long long seed);
    int (*generate)(void *generator, unsigned *words, size_t count);
    int (*destroy)(void *generator);
} curand_functions;

/* ISO C does not turn a pointer to an object into one to a function, but POSIX says the bits are good. */
static int find(void *library, const char *name, void *function)
{
    void *const address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

/* The first name that the library lacks; NULL: it has them all. */
static const char *find_all(void *library, curand_functions *f)
{
    static const char *const names[] = {"curandCreateGeneratorHost", "curandSetPseudoRandomGeneratorSeed",
                                        "curandGenerate", "curandDestroyGenerator"};
    void *const places[] = {&f->create, &f->seed, &f->generate, &f->destroy};
    for (int i = 0; i < 4; i++)
        if (!find(library, names[i], places[i]))
            return names[i];
    return NULL;
}

/* The name of the first call that failed, and its answer; NULL: none did. */
static const char *generate(const curand_functions *f, uint64_t seed, uint32_t *words, size_t count, int *answer)
{
    void *generator = NULL;
    if ((*answer = f->create(&generator, PHILOX4_32_10)) != 0)
        return "curandCreateGeneratorHost";
    const char *failed = NULL;
    if ((*answer = f->seed(generator, seed)) != 0)
        failed = "curandSetPseudoRandomGeneratorSeed";
    else if ((*answer = f->generate(generator, words, count)) != 0)
        failed = "curandGenerate";
    f->destroy(generator);
    return failed;
}

/* The loader's own, or the one of the toolkit that this was built with: pip keeps that where no loader looks. */
static void *open_library(void)
{
    void *const library = dlopen("libcurand.so.10", RTLD_NOW);
#ifdef CURAND_HOST_LIBRARY
    return library ? library : dlopen(CURAND_HOST_LIBRARY, RTLD_NOW);
#else
    return library;
#endif
}

int curand_host_philox(uint64_t seed, uint32_t *words, size_t count, char *why, size_t size)
{
    curand_functions f;
    int answer = 0;
    void *const library = open_library();
    if (!library) {
        snprintf(why, size, "no cuRAND: %s", dlerror());
        return CURAND_HOST_NOT_HERE;
    }
    const char *failed = find_all(library, &f);
    if (failed)
        snprintf(why, size, "libcurand.so.10 has no %s", failed);
    else if ((failed = generate(&f, seed, words, count, &answer)))
        snprintf(why, size, "%s answered %d; wanted 0", failed, answer);
    return failed ? CURAND_HOST_FAILED : CURAND_HOST_GOOD;
}
