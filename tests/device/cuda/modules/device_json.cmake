# SPDX-License-Identifier: MIT
# usage: cmake -DPROGRAM=print_device -DGIVEN=GPU.json -P device_json.cmake
# Checks that cuDNN reads a GPU's description correctly, and reads the file that print_device writes from it as the same
# GPU; and that print_device fails on an incomplete or missing file and on an output that cannot be written.
function(print_device from expected out)
    execute_process(COMMAND ${PROGRAM} ${from} ${ARGN}
        RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE said)
    if(NOT status EQUAL ${expected})
        message(FATAL_ERROR "print_device ${from} ended with ${status}; wanted ${expected}: ${said}")
    endif()
    string(STRIP "${printed}" printed)
    set(${out} "${printed}" PARENT_SCOPE)
endfunction()

get_filename_component(name ${GIVEN} NAME_WE)
set(again ${CMAKE_CURRENT_BINARY_DIR}/device_again_${name}.json)
print_device(${GIVEN} 0 first ${again})
file(READ ${GIVEN} given)
foreach(name deviceName deviceVer multiProcessorCount l2CacheSize sharedMemoryPerSM)
    string(JSON wanted GET "${given}" ${name})
    string(JSON got GET "${first}" ${name})
    if(NOT got STREQUAL wanted)
        message(FATAL_ERROR "${name} is ${got}; wanted ${wanted}")
    endif()
endforeach()
print_device(${again} 0 second)
if(NOT second STREQUAL first)
    message(FATAL_ERROR "what was printed is understood as\n${second}\nwanted\n${first}")
endif()
file(WRITE ${again} "{\"deviceVer\":900}")
print_device(${again} 1 nothing)
print_device(${CMAKE_CURRENT_BINARY_DIR}/nowhere.json 1 nothing)
print_device(${GIVEN} 1 nothing ${CMAKE_CURRENT_BINARY_DIR}/no/folder/out.json)
file(REMOVE ${again})
