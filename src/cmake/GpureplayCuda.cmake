# SPDX-License-Identifier: MIT
# Builds the CUDA device and sets GPUREPLAY_HAS_CUDA to ON or OFF. Without it, src/device/none.c takes its place, and
# its error says how to get it.
#
# nvcc compiles a single file, kernels/cuda.cu, and is called directly. If CUDA were a CMake language here, every
# program that links the static library would become a CUDA program, linked by a C++ compiler. All other files are C.
set(GPUREPLAY_HAS_CUDA OFF)
if(GPUREPLAY_CUDA STREQUAL "OFF")
    return()
endif()
if(GPUREPLAY_SANITIZE OR GPUREPLAY_RACE_CHECK)
    message(STATUS "CUDA: left out, since sanitizers and the race check are for the CPU (a GPU has compute-sanitizer)")
    return()
endif()

function(gpureplay_no_cuda why)
    if(GPUREPLAY_CUDA STREQUAL "ON")
        message(FATAL_ERROR "GPUREPLAY_CUDA=ON, but ${why}")
    endif()
    message(STATUS "CUDA: left out: ${why}")
endfunction()

include(GpureplayCudaToolkit)
if(GPUREPLAY_CUDA_MISSING)
    gpureplay_no_cuda("${GPUREPLAY_CUDA_MISSING}")
    return()
endif()

include(GpureplayCudaArchitectures)
if(NOT GPUREPLAY_CUDA_BUILT_FOR)
    gpureplay_no_cuda("GPUREPLAY_CUDA_ARCHITECTURES is ${GPUREPLAY_CUDA_ARCHITECTURES}, and nvcc \
${GPUREPLAY_CUDA_VERSION} builds for none of it (nvidia-smi shows \"${native_architectures}\")")
    return()
endif()

# The -fno flags keep libstdc++ out of the library. -lineinfo costs nothing and gives profilers source lines.
set(nvcc_command ${GPUREPLAY_NVCC} -O3 -std=c++17 -lineinfo ${architecture_flags} -I${GPUREPLAY_CUDA_INCLUDE_DIR}
    -I${GPUREPLAY_CURAND_INCLUDE_DIR} -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include
    -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics)
if(GPUREPLAY_SEPARATE_DRAWS)
    list(APPEND nvcc_command -DGPUR_SEPARATE_DRAWS)
endif()
if(DEFINED ENV{CUDAHOSTCXX})
    list(APPEND nvcc_command -ccbin $ENV{CUDAHOSTCXX})
endif()

# Compiles a trial file now, since a host compiler that is missing or too new for this nvcc would otherwise fail in
# the middle of a build.
if(NOT GPUREPLAY_NVCC_TRIED STREQUAL "${nvcc_command}")
    set(trial ${PROJECT_BINARY_DIR}/nvcc_trial.cu)
    file(WRITE ${trial} "#include <curand_philox4x32_x.h>\n__global__ void trial(void) {}\n")
    execute_process(COMMAND ${nvcc_command} -c ${trial} -o ${trial}.o RESULT_VARIABLE result ERROR_VARIABLE words)
    if(NOT result EQUAL 0)
        gpureplay_no_cuda("${GPUREPLAY_NVCC} cannot compile here (CUDAHOSTCXX names its host compiler):\n${words}")
        return()
    endif()
    set(GPUREPLAY_NVCC_TRIED "${nvcc_command}" CACHE INTERNAL "The nvcc command that was seen to work")
endif()

set(GPUREPLAY_HAS_CUDA ON)
message(STATUS "CUDA: ${GPUREPLAY_CUDA_VERSION} (${GPUREPLAY_NVCC}), for ${GPUREPLAY_CUDA_BUILT_FOR}: "
    "${cuda_built_because}")
set(cuda_object ${PROJECT_BINARY_DIR}/kernels_cuda${CMAKE_C_OUTPUT_EXTENSION})
set(GPUREPLAY_PTXAS_REPORT ${PROJECT_BINARY_DIR}/kernels.ptxas.txt)
file(GLOB_RECURSE kernel_headers CONFIGURE_DEPENDS kernels/*.h)
add_custom_command(OUTPUT ${cuda_object} BYPRODUCTS ${GPUREPLAY_PTXAS_REPORT}
    COMMAND ${CMAKE_COMMAND} -DREPORT=${GPUREPLAY_PTXAS_REPORT} -P ${CMAKE_CURRENT_LIST_DIR}/GpureplayNvcc.cmake --
        ${nvcc_command} -Xptxas -v -c ${PROJECT_SOURCE_DIR}/kernels/cuda.cu -o ${cuda_object}
    DEPENDS kernels/cuda.cu ${kernel_headers} ${CMAKE_CURRENT_LIST_DIR}/GpureplayNvcc.cmake
    COMMENT "nvcc kernels/cuda.cu" VERBATIM)
add_custom_target(gpureplay_cuda_kernels DEPENDS ${cuda_object}) # one for both libraries: make then runs nvcc once
list(APPEND gpureplay_objects ${cuda_object})

# The module that links cuBLASLt, for matrix products: see src/device/cuda/modules/cublaslt.h.
set(cublaslt_folder "")
if(GPUREPLAY_CUBLASLT AND GPUREPLAY_CUBLASLT_INCLUDE_DIR)
    get_filename_component(cublaslt_folder ${GPUREPLAY_CUBLASLT} DIRECTORY)
    message(STATUS "cuBLASLt: ${GPUREPLAY_CUBLASLT}")
else()
    message(STATUS "cuBLASLt was not found: the CUDA device will have a replay and no learner (pip: nvidia-cublas)")
endif()

# The module that links cuDNN, for convolutions: see src/device/cuda/modules/cudnn.h.
set(cudnn_folder "")
if(GPUREPLAY_CUDNN AND GPUREPLAY_CUDNN_INCLUDE_DIR)
    get_filename_component(cudnn_folder ${GPUREPLAY_CUDNN} DIRECTORY)
    message(STATUS "cuDNN: ${GPUREPLAY_CUDNN}")
else()
    message(STATUS "cuDNN 9 was not found: convolutions on CUDA will go by patches and matrix products "
                   "(pip: nvidia-cudnn)")
endif()

# Options of the C files that use CUDA. libcuda is never linked, so a machine without a driver can load the library.
# The last folders in which src/device/cuda/loader.c searches for cuBLASLt and cuDNN are those where they were found
# now. An empty path tells it that the module was not built.
add_library(gpureplay_cuda INTERFACE)
target_include_directories(gpureplay_cuda SYSTEM INTERFACE ${GPUREPLAY_CUDA_INCLUDE_DIR})
target_compile_definitions(gpureplay_cuda INTERFACE GPUR_CUDA_ARCHITECTURES="${GPUREPLAY_CUDA_BUILT_FOR}"
    GPUR_MODULE_DIR="${CMAKE_INSTALL_FULL_LIBDIR}" GPUR_CUBLASLT_DIR="${cublaslt_folder}"
    GPUR_CUDNN_DIR="${cudnn_folder}" GPUR_SOVERSION="${GPUREPLAY_SOVERSION}")

set(gpureplay_modules)
function(gpureplay_add_module name source headers library)
    add_library(${name} MODULE ${source})
    target_include_directories(${name} PRIVATE include src ${PROJECT_SOURCE_DIR})
    target_include_directories(${name} SYSTEM PRIVATE ${headers})
    target_link_libraries(${name} PRIVATE gpureplay_options gpureplay_cuda ${library})
    set_target_properties(${name} PROPERTIES C_VISIBILITY_PRESET hidden SKIP_BUILD_RPATH ON
        SUFFIX .so.${GPUREPLAY_SOVERSION}) # so that those of several versions can lie in one folder
    set(gpureplay_modules ${gpureplay_modules} ${name} PARENT_SCOPE)
endfunction()
if(cublaslt_folder)
    gpureplay_add_module(gpureplay_cudamath src/device/cuda/modules/cublaslt.c ${GPUREPLAY_CUBLASLT_INCLUDE_DIR}
        ${GPUREPLAY_CUBLASLT})
endif()
if(cudnn_folder)
    gpureplay_add_module(gpureplay_cudadnn src/device/cuda/modules/cudnn.c ${GPUREPLAY_CUDNN_INCLUDE_DIR}
        ${GPUREPLAY_CUDNN})
endif()
