# SPDX-License-Identifier: MIT
# cmake -DREPORT=FILE -P GpureplayNvcc.cmake -- nvcc ARGUMENT...
# Runs nvcc and writes to FILE what ptxas reports of each kernel: registers, stack, spills. One compilation gives both
# the object and the report.
set(command)
foreach(i RANGE ${CMAKE_ARGC})
    if(seen AND DEFINED CMAKE_ARGV${i})
        list(APPEND command "${CMAKE_ARGV${i}}")
    elseif("${CMAKE_ARGV${i}}" STREQUAL "--")
        set(seen ON)
    endif()
endforeach()
execute_process(COMMAND ${command} RESULT_VARIABLE result ERROR_VARIABLE words OUTPUT_VARIABLE said)
file(WRITE ${REPORT} "${words}")
if(NOT result EQUAL 0)
    message(FATAL_ERROR "${said}${words}")
endif()
string(REGEX MATCHALL "[^\n]*(warning|Warning)[^\n]*" warnings "${words}")
foreach(warning IN LISTS warnings)
    message(WARNING "${warning}")
endforeach()
