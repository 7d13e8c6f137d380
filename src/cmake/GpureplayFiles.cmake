# SPDX-License-Identifier: MIT
# Finds cJSON and xxHash, for checkpoints, and sets GPUREPLAY_HAS_FILES to ON if both are found, else to OFF. Of
# xxHash only the header is needed: its functions are compiled into this library.
set(GPUREPLAY_HAS_FILES OFF)
if(NOT GPUREPLAY_FILES STREQUAL "OFF")
    find_library(CJSON_LIBRARY NAMES cjson)
    find_path(CJSON_INCLUDE_DIR NAMES cjson/cJSON.h)
    find_path(XXHASH_INCLUDE_DIR NAMES xxhash.h)
    if(CJSON_LIBRARY AND CJSON_INCLUDE_DIR AND XXHASH_INCLUDE_DIR)
        set(GPUREPLAY_HAS_FILES ON)
    elseif(GPUREPLAY_FILES STREQUAL "ON")
        message(FATAL_ERROR "GPUREPLAY_FILES=ON, but cJSON or xxHash was not found. "
                            "Debian: apt install libcjson-dev libxxhash-dev")
    else()
        message(STATUS "cJSON or xxHash was not found: there will be no saving and loading. "
                       "Debian: apt install libcjson-dev libxxhash-dev")
    endif()
endif()
if(GPUREPLAY_HAS_FILES)
    add_library(gpureplay_files INTERFACE)
    target_include_directories(gpureplay_files SYSTEM INTERFACE ${CJSON_INCLUDE_DIR} ${XXHASH_INCLUDE_DIR})
    target_link_libraries(gpureplay_files INTERFACE ${CJSON_LIBRARY})
    message(STATUS "cJSON: ${CJSON_LIBRARY}")
endif()
