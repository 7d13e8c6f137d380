# SPDX-License-Identifier: MIT
# cmake -DSOURCE=folder -DSCRATCH=folder -DGENERATOR=... -DCC=... -P switches.cmake
# Configures with values of the switches that are good, and that are not: each good one is understood, each bad one
# refused with the value that was given and those that are wanted. Without any, the library and the examples are made.
cmake_minimum_required(VERSION 3.22)
set(booleans RACE_CHECK WERROR TESTS EXAMPLES BENCH INSTALL)
list(TRANSFORM booleans REPLACE "(.+)" "-DGPUREPLAY_\\1=OFF" OUTPUT_VARIABLE plain)
list(APPEND plain -DGPUREPLAY_CUDA=OFF -DGPUREPLAY_BLAS=OFF -DGPUREPLAY_DNNL=OFF
    -DGPUREPLAY_SANITIZE= -DGPUREPLAY_CUDA_ARCHITECTURES=AUTO)
file(REMOVE_RECURSE ${SCRATCH})

# With everything off but what is given. One folder, so that the compiler is looked at once.
function(configure settings)
    list(TRANSFORM settings PREPEND -D)
    execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH} -G ${GENERATOR} -DCMAKE_C_COMPILER=${CC}
        ${plain} ${settings} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
    string(REGEX REPLACE "[ \n]+" " " err "${err}") # CMake breaks lines where it likes
    set(result ${result} PARENT_SCOPE)
    set(said "${out}${err}" PARENT_SCOPE)
endfunction()

# What is asked for and not here ends configuring too, in words of its own.
function(says settings pattern)
    configure("${settings}")
    if(NOT said MATCHES "${pattern}")
        message(SEND_ERROR "${settings}: wanted ${pattern} to be said:\n${said}")
    endif()
endfunction()

function(does_not_say settings pattern)
    configure("${settings}")
    if(NOT result EQUAL 0 OR said MATCHES "${pattern}")
        message(SEND_ERROR "${settings}: exit ${result}; wanted 0, and nothing of ${pattern}:\n${said}")
    endif()
endfunction()

function(refuses name value wanted)
    configure("${name}=${value}")
    string(FIND "${said}" "${name} is \"${value}\"; it must be ${wanted}" at)
    if(result EQUAL 0 OR at LESS 0)
        message(SEND_ERROR "${name}=${value}: exit ${result}; wanted a refusal with \"${wanted}\":\n${said}")
    endif()
endfunction()

foreach(on ON Yes 1)
    says(GPUREPLAY_CUDA=${on} "CUDA: [0-9]|GPUREPLAY_CUDA=ON, but ")
    says(GPUREPLAY_BLAS=${on} "OpenBLAS: /|GPUREPLAY_BLAS=ON, but ")
    says(GPUREPLAY_DNNL=${on} "GPUREPLAY_DNNL=ON, but oneDNN was not found|oneDNN: /")
endforeach()
foreach(off off No 0)
    does_not_say(GPUREPLAY_CUDA=${off} "CUDA: ")
    does_not_say(GPUREPLAY_BLAS=${off} "OpenBLAS")
    does_not_say(GPUREPLAY_DNNL=${off} "oneDNN")
    does_not_say("GPUREPLAY_SANITIZE=${off};GPUREPLAY_CUDA=auto" "sanitizer")
endforeach()
says(GPUREPLAY_CUDA=auto "CUDA: ")
says(GPUREPLAY_BLAS=Auto "OpenBLAS")
says("GPUREPLAY_SANITIZE=undefined,Thread;GPUREPLAY_BLAS=AUTO" "so that ThreadSanitizer sees matrix products")
says("GPUREPLAY_SANITIZE=address;GPUREPLAY_CUDA=AUTO" "CUDA: left out, since sanitizers")
says("GPUREPLAY_RACE_CHECK=y;GPUREPLAY_CUDA=AUTO" "CUDA: left out, since sanitizers and the race check")

foreach(switch GPUREPLAY_CUDA GPUREPLAY_BLAS GPUREPLAY_DNNL)
    foreach(bad atuo "" 2)
        refuses(${switch} "${bad}" "AUTO, ON or OFF")
    endforeach()
endforeach()
foreach(switch IN LISTS booleans)
    refuses(GPUREPLAY_${switch} auto "ON or OFF")
endforeach()
foreach(bad adress address,thread on)
    refuses(GPUREPLAY_SANITIZE "${bad}" "empty, address, undefined, thread")
endforeach()
foreach(bad sm_90 90-rael "")
    refuses(GPUREPLAY_CUDA_ARCHITECTURES "${bad}" "AUTO, native, release, or a list")
endforeach()

# What most people want, and no more: no tests, no benchmarks.
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH}/default -G ${GENERATOR} -DCMAKE_C_COMPILER=${CC}
    RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(NOT result EQUAL 0 OR NOT EXISTS ${SCRATCH}/default/examples)
    message(SEND_ERROR "without switches: exit ${result}; wanted 0 and the examples:\n${out}${err}")
endif()
foreach(part tests bench)
    if(EXISTS ${SCRATCH}/default/${part})
        message(SEND_ERROR "without switches ${part}/ is built too; wanted the library and the examples")
    endif()
endforeach()
