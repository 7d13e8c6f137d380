# SPDX-License-Identifier: MIT
# cmake -DSOURCE=folder -P sources.cmake
# With every combination of what a build has, it has one file of each pair that stand for each other, and conv_dnnl.c
# only with oneDNN; of the files for matrix products, OpenBLAS's, else oneDNN's, each with the one that cuts products,
# else the plain one.
cmake_minimum_required(VERSION 3.22)
set(PROJECT_SOURCE_DIR ${SOURCE})
set(switches GPUREPLAY_HAS_CUDA GPUREPLAY_HAS_BLAS GPUREPLAY_HAS_FILES GPUREPLAY_HAS_DNNL GPUREPLAY_RACE_CHECK
    GPUREPLAY_HAS_ZSTD APPLE)
set(pairs device/none|device/cuda/device |device/cpu/gemm_openblas
    file/safetensors_none|file/safetensors_json |device/cpu/conv_dnnl
    device/cpu/launch|device/cpu/launch_race file/compression_none|file/compression_zstd
    base/platform_linux|base/platform_macos)

foreach(combination RANGE 127)
    foreach(i RANGE 6)
        list(GET switches ${i} switch)
        math(EXPR ${switch} "${combination} >> ${i} & 1")
    endforeach()
    include(${SOURCE}/src/cmake/GpureplaySources.cmake)
    set(products gemm_plain)
    if(GPUREPLAY_HAS_BLAS)
        set(products gemm_openblas gemm_tiles)
    elseif(GPUREPLAY_HAS_DNNL)
        set(products gemm_dnnl gemm_tiles)
    endif()
    list(TRANSFORM products REPLACE "(.+)" "${SOURCE}/src/device/cpu/\\1.c")
    set(there ${gpureplay_sources})
    list(FILTER there INCLUDE REGEX "/gemm_[a-z]+\\.c$")
    list(SORT there)
    if(NOT there STREQUAL "${products}")
        message(SEND_ERROR "combination ${combination}: wanted ${products}\ngot \"${there}\"")
    endif()
    foreach(i RANGE 6)
        list(GET switches ${i} switch)
        list(GET pairs ${i} pair)
        string(REPLACE "|" ";" files "${pair}")
        list(GET files ${${switch}} wanted)
        if(wanted)
            set(wanted ${SOURCE}/src/${wanted}.c)
        endif()
        set(there ${gpureplay_sources})
        list(FILTER there INCLUDE REGEX "/src/(${pair})\\.c$")
        if(NOT there STREQUAL "${wanted}")
            message(SEND_ERROR "${switch}=${${switch}}, combination ${combination}: wanted ${wanted}\n"
                "got \"${there}\"")
        endif()
    endforeach()
endforeach()
