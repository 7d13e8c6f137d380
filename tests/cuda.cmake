# SPDX-License-Identifier: MIT
# Tests of a build with CUDA that need no GPU: what ptxas said of the kernels, what the libraries link, what CMake finds
# and builds for, the GPU suite's dry run. Label "cuda-build".
register(test_ptxas cuda-build ${CMAKE_COMMAND} -DREPORT=${GPUREPLAY_PTXAS_REPORT}
    -DKERNELS=${PROJECT_SOURCE_DIR}/kernels -P ${CMAKE_CURRENT_SOURCE_DIR}/ptxas.cmake)
set(modules ${gpureplay_modules})
list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_FILE:\\1>")
register(test_linkage cuda-build bash ${CMAKE_CURRENT_SOURCE_DIR}/test_linkage.sh $<TARGET_FILE:gpureplay> ${modules})

foreach(part toolkit architectures)
    register(test_cuda_${part} cuda-build ${CMAKE_COMMAND} -DMODULES=${PROJECT_SOURCE_DIR}/src/cmake
        -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/cuda_${part} -P ${CMAKE_CURRENT_SOURCE_DIR}/cuda_${part}.cmake)
endforeach()

target_compile_definitions(test_cuda_search PRIVATE
    GPUR_INSTALLED_MODULE="${CMAKE_INSTALL_FULL_LIBDIR}/libgpureplay_cudamath.so")
target_link_libraries(test_cuda_errors PRIVATE gpureplay_cuda) # it makes errors of CUDA's

# The module's own code, with cuBLASLt linked and its two calls that need a GPU answered by the test.
if(TARGET gpureplay_cudamath)
    add_executable(test_plan module/test_plan.c)
    target_include_directories(test_plan SYSTEM PRIVATE ${GPUREPLAY_CUBLASLT_INCLUDE_DIR})
    target_link_libraries(test_plan PRIVATE gpureplay_tested gpureplay_cuda ${GPUREPLAY_CUBLASLT})
    register(test_plan cuda-build test_plan)
endif()

# The core's side of that module, with the library's opening answered by the test.
add_executable(test_dnn_missing module/test_dnn_missing.c)
target_link_libraries(test_dnn_missing PRIVATE gpureplay_tested gpureplay_cuda)
register(test_dnn_missing cuda-build test_dnn_missing)

# The module's own code with cuDNN linked: graphs need no GPU, nor do engines for one that is described.
if(TARGET gpureplay_cudadnn)
    add_executable(test_conv_plan module/test_conv_plan.c)
    target_include_directories(test_conv_plan SYSTEM PRIVATE ${GPUREPLAY_CUDNN_INCLUDE_DIR})
    target_link_libraries(test_conv_plan PRIVATE gpureplay_tested gpureplay_cuda ${GPUREPLAY_CUDNN})
    register(test_conv_plan cuda-build test_conv_plan ${CMAKE_CURRENT_SOURCE_DIR}/module/h200.json)

    # What describes a GPU: the suite that has one prints it.
    add_executable(print_device module/print_device.c)
    target_include_directories(print_device SYSTEM PRIVATE ${GPUREPLAY_CUDNN_INCLUDE_DIR})
    target_link_libraries(print_device PRIVATE gpureplay_tested gpureplay_cuda ${GPUREPLAY_CUDNN})
    register(test_device_json cuda-build ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:print_device>
        -DGIVEN=${CMAKE_CURRENT_SOURCE_DIR}/module/h200.json -P ${CMAKE_CURRENT_SOURCE_DIR}/module/device_json.cmake)

    # The engines of products are compiled when they are chosen, which wants a driver: one that runs nothing will do.
    add_library(pretended_driver SHARED module/driver.c)
    set_target_properties(pretended_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/module)
    add_executable(test_product_plan module/test_product_plan.c)
    target_include_directories(test_product_plan SYSTEM PRIVATE ${GPUREPLAY_CUDNN_INCLUDE_DIR})
    target_link_libraries(test_product_plan PRIVATE gpureplay_tested gpureplay_cuda ${GPUREPLAY_CUDNN}
        ${CMAKE_DL_LIBS})
    add_dependencies(test_product_plan pretended_driver)
    register(test_product_plan cuda-build test_product_plan ${CMAKE_CURRENT_SOURCE_DIR}/module/h200.json
        $<TARGET_FILE:pretended_driver>)
endif()

# The suite that needs a GPU, as far as it goes without one.
register(gpu_dry_run cuda-build bash ${PROJECT_SOURCE_DIR}/bench/gpu_suite.sh --dry-run --built ${PROJECT_BINARY_DIR}
    --out ${CMAKE_CURRENT_BINARY_DIR}/gpu-dry-run)
