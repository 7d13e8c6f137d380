# SPDX-License-Identifier: MIT
# Tests of a build with CUDA that need no GPU: what ptxas said of the kernels, what the libraries link, the GPU suite's
# dry run. Label "cuda-build".
register(test_ptxas cuda-build ${CMAKE_COMMAND} -DREPORT=${GPUREPLAY_PTXAS_REPORT}
    -DKERNELS=${PROJECT_SOURCE_DIR}/kernels -P ${CMAKE_CURRENT_SOURCE_DIR}/ptxas.cmake)
register(test_linkage cuda-build bash ${CMAKE_CURRENT_SOURCE_DIR}/test_linkage.sh $<TARGET_FILE:gpureplay>
    $<$<TARGET_EXISTS:gpureplay_cudamath>:$<TARGET_FILE:gpureplay_cudamath>>)

target_compile_definitions(test_cuda_module PRIVATE
    GPUR_INSTALLED_MODULE="${CMAKE_INSTALL_FULL_LIBDIR}/libgpureplay_cudamath.so")

# The suite that needs a GPU, as far as it goes without one.
register(gpu_dry_run cuda-build bash ${PROJECT_SOURCE_DIR}/bench/gpu_suite.sh --dry-run --built ${PROJECT_BINARY_DIR}
    --out ${CMAKE_CURRENT_BINARY_DIR}/gpu-dry-run)
