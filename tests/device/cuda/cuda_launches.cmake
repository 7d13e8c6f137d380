# SPDX-License-Identifier: MIT
# What launches request from CUDA on GPUs of several kinds, which pretend/answers.c fakes. cuda.cmake defines `wrap`.
add_executable(test_launches device/cuda/pretend/test_launches.c device/cuda/pretend/answers.c)
target_link_libraries(test_launches PRIVATE ${test_libraries} gpureplay_cuda)
wrap(test_launches cudaGetDeviceCount cudaGetDevice cudaDriverGetVersion cudaGetDeviceProperties
    cudaGetDeviceProperties_v2 cudaDeviceGetAttribute cudaFuncGetAttributes cudaFuncSetAttribute
    cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxActiveClusters cudaLaunchKernelExC
    cudaStreamCreateWithFlags cudaStreamDestroy cudaStreamSynchronize cudaStreamWaitEvent cudaEventCreateWithFlags
    cudaEventDestroy cudaEventRecord cudaMemcpyAsync cudaMemsetAsync)
register(test_launches cuda-build test_launches)
