# SPDX-License-Identifier: MIT
# Finds nvcc and what it needs: the toolkit's own folder (CUDAToolkit_ROOT, CUDA_HOME, PATH, /usr/local/cuda), Debian's
# packages, or the layout of pip's nvidia-* wheels (site-packages/nvidia/cu13), which may also hold only the libraries
# beside a toolkit that has nvcc alone. FindCUDAToolkit knows only the first.
# Leaves GPUREPLAY_CUDA_MISSING empty when kernels can be built, or saying what is missing.
file(GLOB wheel_roots LIST_DIRECTORIES true $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cu1[0-9]
    $ENV{CONDA_PREFIX}/lib/python3*/site-packages/nvidia/cu1[0-9])
find_program(GPUREPLAY_NVCC nvcc DOC "CUDA compiler"
    HINTS ${CUDAToolkit_ROOT} ENV CUDAToolkit_ROOT ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda ${wheel_roots} PATH_SUFFIXES bin)
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
get_filename_component(site_packages ${cuda_root}/.. ABSOLUTE) # .../nvidia, when this is a wheel
set(cuda_target targets/${CMAKE_SYSTEM_PROCESSOR}-linux)
set(include_suffixes include ${cuda_target}/include)
set(library_suffixes lib64 lib ${cuda_target}/lib)
find_path(GPUREPLAY_CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS ${cuda_root} PATH_SUFFIXES ${include_suffixes})
find_path(GPUREPLAY_CURAND_INCLUDE_DIR curand_philox4x32_x.h HINTS ${cuda_root} ${site_packages}/curand
    PATHS ${wheel_roots} PATH_SUFFIXES ${include_suffixes})
find_library(GPUREPLAY_CUDART NAMES libcudart_static.a HINTS ${cuda_root} PATH_SUFFIXES ${library_suffixes})
find_path(GPUREPLAY_CUBLASLT_INCLUDE_DIR cublasLt.h HINTS ${cuda_root} ${site_packages}/cublas
    PATHS ${wheel_roots} PATH_SUFFIXES ${include_suffixes})
find_library(GPUREPLAY_CUBLASLT NAMES cublasLt libcublasLt.so.${cuda_major} HINTS ${cuda_root} ${site_packages}/cublas
    PATHS ${wheel_roots} PATH_SUFFIXES ${library_suffixes})
mark_as_advanced(GPUREPLAY_NVCC GPUREPLAY_CUDA_INCLUDE_DIR GPUREPLAY_CURAND_INCLUDE_DIR GPUREPLAY_CUDART
    GPUREPLAY_CUBLASLT_INCLUDE_DIR GPUREPLAY_CUBLASLT)

set(GPUREPLAY_CUDA_MISSING "")
set(cuda_found "nvcc is ${GPUREPLAY_NVCC}, but")
if(NOT GPUREPLAY_CUDA_INCLUDE_DIR)
    set(GPUREPLAY_CUDA_MISSING "${cuda_found} cuda_runtime_api.h was not found (pip: nvidia-cuda-runtime)")
elseif(NOT GPUREPLAY_CURAND_INCLUDE_DIR)
    set(GPUREPLAY_CUDA_MISSING "${cuda_found} curand_philox4x32_x.h was not found (pip: nvidia-curand)")
elseif(NOT GPUREPLAY_CUDART)
    set(GPUREPLAY_CUDA_MISSING "${cuda_found} libcudart_static.a was not found (pip: nvidia-cuda-runtime)")
endif()
