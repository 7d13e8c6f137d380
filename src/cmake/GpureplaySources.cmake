# SPDX-License-Identifier: MIT
# Sets gpureplay_sources, the source files of this build: all files of these folders, except that of two alternatives
# only one is used. A test includes this file, too, with every combination of switches.
set(folders base env env/minatar file device device/cpu replay replay/priority replay/hindsight replay/storage
    replay/lanes replay/writer replay/sampler replay/checkpoint replay/block learn "learn/*" run run/fast_dqn run/ga3c
    run/apex run/offline run/apex/transport train)
if(GPUREPLAY_HAS_CUDA)
    list(APPEND folders device/cuda)
endif()
list(TRANSFORM folders REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/\\1/*.c" OUTPUT_VARIABLE globs)
file(GLOB gpureplay_sources ${gpureplay_depends} ${globs})

# gpureplay_choose(SWITCH WITH WITHOUT) uses the file WITH if the switch is on, WITHOUT if it is off.
function(gpureplay_choose switch with without)
    if(${switch})
        set(with ${without})
    endif()
    list(REMOVE_ITEM gpureplay_sources ${PROJECT_SOURCE_DIR}/src/${with})
    set(gpureplay_sources ${gpureplay_sources} PARENT_SCOPE)
endfunction()
gpureplay_choose(APPLE base/platform_macos.c base/platform_linux.c)
gpureplay_choose(GPUREPLAY_HAS_CUDA device/cuda/device.c device/none.c)
set(unused_products gemm_dnnl gemm_plain) # of OpenBLAS, oneDNN and neither, one computes matrix products
if(NOT GPUREPLAY_HAS_BLAS AND GPUREPLAY_HAS_DNNL)
    set(unused_products gemm_openblas gemm_plain)
elseif(NOT GPUREPLAY_HAS_BLAS)
    set(unused_products gemm_openblas gemm_dnnl gemm_tiles)
endif()
list(TRANSFORM unused_products REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/device/cpu/\\1.c")
list(REMOVE_ITEM gpureplay_sources ${unused_products})
if(NOT GPUREPLAY_HAS_DNNL)
    list(REMOVE_ITEM gpureplay_sources ${PROJECT_SOURCE_DIR}/src/device/cpu/conv_dnnl.c)
endif()
gpureplay_choose(GPUREPLAY_HAS_FILES file/safetensors_json.c file/safetensors_none.c)
gpureplay_choose(GPUREPLAY_HAS_ZSTD file/compression_zstd.c file/compression_none.c)
gpureplay_choose(GPUREPLAY_RACE_CHECK device/cpu/launch_race.c device/cpu/launch.c)
