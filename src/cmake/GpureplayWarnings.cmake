# SPDX-License-Identifier: MIT
# gpureplay_options: compile options of every file of this project. Users of the library do not inherit them.
add_library(gpureplay_options INTERFACE)
target_compile_features(gpureplay_options INTERFACE c_std_11)
target_compile_definitions(gpureplay_options INTERFACE _GNU_SOURCE
    $<$<BOOL:${GPUREPLAY_SEPARATE_DRAWS}>:GPUR_SEPARATE_DRAWS>)
# Tables leave out the last fields, which are zero then; clang warns of each such entry. It also warns where a constant
# of an enum is a factor of a float.
target_compile_options(gpureplay_options INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-missing-field-initializers
        -Wno-enum-float-conversion>
    $<$<AND:$<COMPILE_LANGUAGE:C>,$<BOOL:${GPUREPLAY_WERROR}>>:-Werror>)
# In a project of somebody else's that names no build type, nothing would be optimized.
if(NOT is_top_level AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    target_compile_options(gpureplay_options INTERFACE $<$<COMPILE_LANGUAGE:C>:-O3 -DNDEBUG>)
endif()
if(GPUREPLAY_SANITIZE)
    target_compile_options(gpureplay_options INTERFACE
        $<$<COMPILE_LANGUAGE:C>:-fsanitize=${GPUREPLAY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1>)
    target_link_options(gpureplay_options INTERFACE -fsanitize=${GPUREPLAY_SANITIZE})
endif()
if(GPUREPLAY_FUZZ) # instruments the code for the fuzzer, which counts what an input reaches
    target_compile_options(gpureplay_options INTERFACE $<$<COMPILE_LANGUAGE:C>:-fsanitize=fuzzer-no-link>)
    target_link_options(gpureplay_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
