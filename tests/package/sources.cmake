# SPDX-License-Identifier: MIT
# cmake -DSOURCE=folder -P sources.cmake
# With every combination of what a build has, it has one file of each pair that stand for each other, and conv_dnnl.c
# only with oneDNN.
cmake_minimum_required(VERSION 3.22)
set(PROJECT_SOURCE_DIR ${SOURCE})
set(switches GPUREPLAY_HAS_CUDA GPUREPLAY_HAS_BLAS GPUREPLAY_HAS_FILES GPUREPLAY_HAS_DNNL GPUREPLAY_RACE_CHECK
    GPUREPLAY_HAS_ZSTD)
set(pairs device/none|device/cuda/device device/cpu/gemm_plain|device/cpu/gemm_openblas
    file/safetensors_none|file/safetensors_json |device/cpu/conv_dnnl
    device/cpu/launch|device/cpu/launch_race file/compression_none|file/compression_zstd)

foreach(combination RANGE 63)
    foreach(i RANGE 5)
        list(GET switches ${i} switch)
        math(EXPR ${switch} "${combination} >> ${i} & 1")
    endforeach()
    include(${SOURCE}/src/cmake/GpureplaySources.cmake)
    foreach(i RANGE 5)
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
