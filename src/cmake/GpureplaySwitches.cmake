# SPDX-License-Identifier: MIT
# Checks that each switch has one of its words, in upper or lower case, and stops configuring if not: a misspelled
# word would otherwise count as another. Sets each switch to the form that the rest of the build compares: ON, OFF or
# AUTO; sanitizers in lower case, "" for none.

# gpureplay_check_switch(NAME "AUTO, ON or OFF") or (NAME "ON or OFF"). ON and OFF may be any of CMake's booleans.
function(gpureplay_check_switch name wanted)
    string(TOUPPER "${${name}}" word)
    if(word MATCHES "^(ON|YES|TRUE|Y|1)$")
        set(word ON)
    elseif(word MATCHES "^(OFF|NO|FALSE|N|0)$")
        set(word OFF)
    elseif(NOT (word STREQUAL "AUTO" AND wanted MATCHES "AUTO"))
        message(FATAL_ERROR "${name} is \"${${name}}\"; it must be ${wanted} (or yes, true, 1, no, false, 0)")
    endif()
    set(${name} ${word} PARENT_SCOPE)
endfunction()

# Address and thread sanitizer exclude each other; undefined goes with either.
function(gpureplay_check_sanitizers name)
    string(TOLOWER "${${name}}" words)
    if(words MATCHES "^(off|no|false|n|0)$")
        set(words "")
    endif()
    string(REPLACE "," ";" each "${words}")
    list(REMOVE_ITEM each address thread undefined)
    if(each OR words MATCHES ";" OR (words MATCHES "address" AND words MATCHES "thread"))
        message(FATAL_ERROR "${name} is \"${${name}}\"; it must be empty, address, undefined, thread, or undefined and "
                            "one of the others with a comma between")
    endif()
    set(${name} "${words}" PARENT_SCOPE)
endfunction()

function(gpureplay_check_architectures name)
    string(TOLOWER "${${name}}" words)
    if(words STREQUAL "auto")
        set(words AUTO)
    elseif(NOT words MATCHES "^(native|release|[0-9]+[af]?(-real|-virtual)?(;[0-9]+[af]?(-real|-virtual)?)*)$")
        message(FATAL_ERROR "${name} is \"${${name}}\"; it must be AUTO, native, release, or a list of architectures "
                            "such as \"80-real;90\"")
    endif()
    set(${name} "${words}" PARENT_SCOPE)
endfunction()

foreach(switch GPUREPLAY_CUDA GPUREPLAY_BLAS GPUREPLAY_FILES GPUREPLAY_ZSTD GPUREPLAY_DNNL)
    gpureplay_check_switch(${switch} "AUTO, ON or OFF")
    set_property(CACHE ${switch} PROPERTY STRINGS AUTO ON OFF) # the values that cmake-gui and ccmake offer
endforeach()
foreach(switch RACE_CHECK SEPARATE_DRAWS FUZZ WERROR TESTS EXAMPLES BENCH INSTALL)
    gpureplay_check_switch(GPUREPLAY_${switch} "ON or OFF")
endforeach()
gpureplay_check_sanitizers(GPUREPLAY_SANITIZE)
set_property(CACHE GPUREPLAY_SANITIZE PROPERTY STRINGS "" address undefined "address,undefined" thread)
gpureplay_check_architectures(GPUREPLAY_CUDA_ARCHITECTURES)
