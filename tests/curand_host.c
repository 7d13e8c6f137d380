/* SPDX-License-Identifier: MIT */
#include "curand_host.h"

#include <dlfcn.h>
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

static int find_all(void *library, curand_functions *f)
{
    return find(library, "curandCreateGeneratorHost", &f->create) &&
           find(library, "curandSetPseudoRandomGeneratorSeed", &f->seed) &&
           find(library, "curandGenerate", &f->generate) && find(library, "curandDestroyGenerator", &f->destroy);
}

int curand_host_philox(uint64_t seed, uint32_t *words, size_t count)
{
    curand_functions f;
    void *generator = NULL;
    void *const library = dlopen("libcurand.so.10", RTLD_NOW);
    if (!library || !find_all(library, &f) || f.create(&generator, PHILOX4_32_10) != 0)
        return 0;
    const int good = f.seed(generator, seed) == 0 && f.generate(generator, words, count) == 0;
    f.destroy(generator);
    return good;
}
