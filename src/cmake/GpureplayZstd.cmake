# SPDX-License-Identifier: MIT
# Finds Zstandard, which compresses blocks of transitions, and sets GPUREPLAY_HAS_ZSTD to ON if it is found, else to
# OFF.
set(GPUREPLAY_HAS_ZSTD OFF)
if(NOT GPUREPLAY_ZSTD STREQUAL "OFF")
    find_library(ZSTD_LIBRARY NAMES zstd)
    find_path(ZSTD_INCLUDE_DIR NAMES zstd.h)
    if(ZSTD_LIBRARY AND ZSTD_INCLUDE_DIR)
        set(GPUREPLAY_HAS_ZSTD ON)
        message(STATUS "Zstandard: ${ZSTD_LIBRARY}")
    elseif(GPUREPLAY_ZSTD STREQUAL "ON")
        message(FATAL_ERROR "GPUREPLAY_ZSTD=ON, but Zstandard was not found. Debian: apt install libzstd-dev")
    else()
        message(STATUS "Zstandard was not found: blocks are not compressed. Debian: apt install libzstd-dev")
    endif()
endif()
