/* SPDX-License-Identifier: MIT */
/*
 * A fake of the CUDA driver for machines without one: just enough for cuDNN to compile kernels for a described GPU. It
 * accepts every program and finds every kernel in it; nothing runs. It does not include cuda.h, which renames some of
 * the functions that cuDNN looks up by these names.
 */
int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuGetErrorString(int error, const char **text);
int cuLibraryLoadData(void **library, const void *code, void *options, void **values, unsigned count, void *more,
                      void **more_values, unsigned more_count);
int cuLibraryGetKernel(void **kernel, void *library, const char *name);

static char something;

/* These are looked up, too. 801 is CUDA_ERROR_NOT_SUPPORTED. */
#define REFUSED(name) \
    int name(void);   \
    int name(void)    \
    {                 \
        return 801;   \
    }
REFUSED(cuCtxGetCurrent)
REFUSED(cuCtxGetLimit)
REFUSED(cuCtxPopCurrent)
REFUSED(cuCtxPushCurrent)
REFUSED(cuDeviceGet)
REFUSED(cuDriverGetVersion)
REFUSED(cuGetErrorName)
REFUSED(cuGetExportTable)
REFUSED(cuKernelGetAttribute)
REFUSED(cuKernelSetAttribute)
REFUSED(cuLaunchCooperativeKernel)
REFUSED(cuLaunchKernel)
REFUSED(cuLaunchKernelEx)
REFUSED(cuLibraryLoadFromFile)
REFUSED(cuLibraryUnload)
REFUSED(cuLinkAddData)
REFUSED(cuLinkComplete)
REFUSED(cuLinkCreate)
REFUSED(cuLinkDestroy)
REFUSED(cuOccupancyMaxPotentialClusterSize)
REFUSED(cuStreamGetCtx)

int cuInit(unsigned flags)
{
    (void)flags;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}

int cuGetErrorString(int error, const char **text)
{
    (void)error;
    *text = "none";
    return 0;
}

int cuLibraryLoadData(void **library, const void *code, void *options, void **values, unsigned count, void *more,
                      void **more_values, unsigned more_count)
{
    (void)code, (void)options, (void)values, (void)count, (void)more, (void)more_values, (void)more_count;
    *library = &something;
    return 0;
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    (void)library, (void)name;
    *kernel = &something;
    return 0;
}
