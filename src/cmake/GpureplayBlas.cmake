# SPDX-License-Identifier: MIT
# Finds OpenBLAS, and sets GPUREPLAY_HAS_BLAS to ON where it computes the CPU's matrix products, else to OFF. With AUTO
# oneDNN computes them on x86-64, if it is there: its products are as fast, and faster where OpenBLAS does not know the
# processor. On other processors it has no fast code. The OpenMP build of OpenBLAS is preferred: there the thread count
# belongs to the calling thread, in the pthread build to the whole process.
set(GPUREPLAY_HAS_BLAS OFF)
# ThreadSanitizer does not see the memory accesses of a library that was built without it. It sees those of this
# library's own matrix product.
if(GPUREPLAY_SANITIZE MATCHES "thread" AND GPUREPLAY_BLAS STREQUAL "AUTO")
    message(STATUS "OpenBLAS: left out, so that ThreadSanitizer sees matrix products")
elseif(GPUREPLAY_BLAS STREQUAL "AUTO" AND GPUREPLAY_HAS_DNNL AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    message(STATUS "OpenBLAS: left out, since oneDNN has fast matrix products here")
elseif(NOT GPUREPLAY_BLAS STREQUAL "OFF")
    find_library(OPENBLAS_LIBRARY NAMES openblas
        PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
    find_path(OPENBLAS_INCLUDE_DIR NAMES openblas_config.h
        PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
        PATH_SUFFIXES openblas openblas-openmp openblas-pthread openblas-serial)
    if(OPENBLAS_LIBRARY AND OPENBLAS_INCLUDE_DIR)
        set(GPUREPLAY_HAS_BLAS ON)
    elseif(GPUREPLAY_BLAS STREQUAL "ON")
        message(FATAL_ERROR "GPUREPLAY_BLAS=ON, but OpenBLAS was not found. Debian: apt install libopenblas-openmp-dev")
    else()
        message(STATUS "OpenBLAS was not found: matrix products on the CPU go by oneDNN, or slowly without it. "
                       "Debian: apt install libopenblas-openmp-dev")
    endif()
endif()
if(GPUREPLAY_HAS_BLAS)
    add_library(gpureplay_blas INTERFACE)
    target_include_directories(gpureplay_blas SYSTEM INTERFACE ${OPENBLAS_INCLUDE_DIR})
    target_link_libraries(gpureplay_blas INTERFACE ${OPENBLAS_LIBRARY})
    message(STATUS "OpenBLAS: ${OPENBLAS_LIBRARY}")
endif()
