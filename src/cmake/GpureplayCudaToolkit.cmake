# SPDX-License-Identifier: MIT
# Finds nvcc and its headers and libraries in the folder of a toolkit (CUDAToolkit_ROOT, CUDA_HOME, PATH,
# /usr/local/cuda), in Debian's packages, or in pip's nvidia-* wheels, which may hold all of it or only what a toolkit
# lacks. FindCUDAToolkit searches only the first.
# Sets GPUREPLAY_CUDA_MISSING to what is missing; it is empty if CUDA can be built.

# Folders of wheels: those of the active environments, and those of the packages of each Python on PATH.
set(site_packages)
string(REPLACE ":" ";" program_folders "$ENV{PATH}")
foreach(folder IN LISTS program_folders)
    if(EXISTS ${folder}/python3)
        execute_process(COMMAND ${folder}/python3 -c "import site; print(';'.join(site.getsitepackages()))"
            OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
        list(APPEND site_packages ${found})
    endif()
endforeach()
list(TRANSFORM site_packages APPEND /nvidia OUTPUT_VARIABLE wheels_of_pythons)
file(GLOB wheels LIST_DIRECTORIES true $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia
    $ENV{CONDA_PREFIX}/lib/python3*/site-packages/nvidia)
list(APPEND wheels ${wheels_of_pythons})

list(TRANSFORM wheels APPEND "/cu1[0-9]" OUTPUT_VARIABLE nvcc_patterns) # of CUDA 13; CUDA 12 has cuda_nvcc
file(GLOB wheel_roots LIST_DIRECTORIES true ${nvcc_patterns})
list(TRANSFORM wheels APPEND /cuda_nvcc OUTPUT_VARIABLE wheel_nvccs)
find_program(GPUREPLAY_NVCC nvcc DOC "CUDA compiler"
    HINTS ${CUDAToolkit_ROOT} ENV CUDAToolkit_ROOT ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda ${wheel_roots} ${wheel_nvccs} PATH_SUFFIXES bin)
if(NOT GPUREPLAY_NVCC)
    set(GPUREPLAY_CUDA_MISSING "nvcc was not found: install the CUDA toolkit, or name its folder in CUDAToolkit_ROOT")
    return()
endif()

execute_process(COMMAND ${GPUREPLAY_NVCC} --version OUTPUT_VARIABLE nvcc_words ERROR_QUIET)
string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" ignored "${nvcc_words}")
set(GPUREPLAY_CUDA_VERSION ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
set(cuda_major ${CMAKE_MATCH_1})
if(GPUREPLAY_CUDA_VERSION VERSION_LESS 12.0)
    set(GPUREPLAY_CUDA_MISSING "${GPUREPLAY_NVCC} is of CUDA ${GPUREPLAY_CUDA_VERSION}; 12.0 or later is needed")
    return()
endif()

get_filename_component(cuda_root ${GPUREPLAY_NVCC} REALPATH)
get_filename_component(cuda_root ${cuda_root} DIRECTORY)
get_filename_component(cuda_root ${cuda_root} DIRECTORY)
set(roots ${cuda_root})
foreach(wheel IN LISTS wheels ITEMS ${cuda_root}/..) # the last one, if nvcc itself is in a wheel
    list(APPEND roots ${wheel}/cu${cuda_major} ${wheel}/cuda_runtime ${wheel}/curand ${wheel}/cublas
        ${wheel}/cudnn)
endforeach()
set(cuda_target targets/${CMAKE_SYSTEM_PROCESSOR}-linux)
set(include_suffixes include ${cuda_target}/include)
set(library_suffixes lib64 lib ${cuda_target}/lib)
find_path(GPUREPLAY_CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS ${roots} PATH_SUFFIXES ${include_suffixes})
find_path(GPUREPLAY_CURAND_INCLUDE_DIR curand_philox4x32_x.h HINTS ${roots} PATH_SUFFIXES ${include_suffixes})
find_library(GPUREPLAY_CUDART NAMES libcudart_static.a HINTS ${roots} PATH_SUFFIXES ${library_suffixes})
find_library(GPUREPLAY_CUBLASLT NAMES cublasLt libcublasLt.so.${cuda_major} NAMES_PER_DIR HINTS ${roots}
    PATH_SUFFIXES ${library_suffixes})
get_filename_component(cublaslt_folder "${GPUREPLAY_CUBLASLT}" DIRECTORY)
find_path(GPUREPLAY_CUBLASLT_INCLUDE_DIR cublasLt.h HINTS ${cublaslt_folder}/.. ${roots}
    PATH_SUFFIXES ${include_suffixes})
find_library(GPUREPLAY_CUDNN NAMES cudnn libcudnn.so.9 NAMES_PER_DIR HINTS ${roots} PATH_SUFFIXES ${library_suffixes})
get_filename_component(cudnn_folder "${GPUREPLAY_CUDNN}" DIRECTORY)
find_path(GPUREPLAY_CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${cudnn_folder}/.. ${roots} PATH_SUFFIXES ${include_suffixes})
mark_as_advanced(GPUREPLAY_CUDNN GPUREPLAY_CUDNN_INCLUDE_DIR)
if(GPUREPLAY_CUDNN_INCLUDE_DIR)
    file(STRINGS ${GPUREPLAY_CUDNN_INCLUDE_DIR}/cudnn_graph.h since_9_8 REGEX CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
    if(NOT since_9_8)
        message(STATUS "cuDNN: ${GPUREPLAY_CUDNN_INCLUDE_DIR} is older than 9.8; left out")
        set(GPUREPLAY_CUDNN GPUREPLAY_CUDNN-NOTFOUND)
    endif()
endif()
mark_as_advanced(GPUREPLAY_NVCC GPUREPLAY_CUDA_INCLUDE_DIR GPUREPLAY_CURAND_INCLUDE_DIR GPUREPLAY_CUDART
    GPUREPLAY_CUBLASLT_INCLUDE_DIR GPUREPLAY_CUBLASLT)

set(GPUREPLAY_CUDA_MISSING "")
set(for_nvcc "for ${GPUREPLAY_NVCC}")
if(NOT GPUREPLAY_CUDA_INCLUDE_DIR)
    set(GPUREPLAY_CUDA_MISSING "${for_nvcc} cuda_runtime_api.h was not found (pip: nvidia-cuda-runtime)")
elseif(NOT GPUREPLAY_CURAND_INCLUDE_DIR)
    set(GPUREPLAY_CUDA_MISSING "${for_nvcc} curand_philox4x32_x.h was not found (pip: nvidia-curand)")
elseif(NOT GPUREPLAY_CUDART)
    set(GPUREPLAY_CUDA_MISSING "${for_nvcc} libcudart_static.a was not found (pip: nvidia-cuda-runtime)")
elseif(GPUREPLAY_CUDA STREQUAL "ON" AND NOT (GPUREPLAY_CUBLASLT AND GPUREPLAY_CUBLASLT_INCLUDE_DIR))
    set(GPUREPLAY_CUDA_MISSING "${for_nvcc} cuBLASLt, which the learner needs, was not found (pip: nvidia-cublas)")
endif()
