# SPDX-License-Identifier: MIT
# cmake -DSOURCE=folder -DSCRATCH=folder -DGENERATOR=... -DCC=... [-DPYTHON=...] -P switches.cmake
# Configures with good and bad values of the switches: each good one is understood, each bad one refused with the value
# given and those that are wanted. Without any, the library and the examples are made.
cmake_minimum_required(VERSION 3.22)
set(booleans RACE_CHECK WERROR TESTS EXAMPLES BENCH INSTALL)
list(TRANSFORM booleans REPLACE "(.+)" "-DGPUREPLAY_\\1=OFF" OUTPUT_VARIABLE plain)
list(APPEND plain -DGPUREPLAY_CUDA=OFF -DGPUREPLAY_BLAS=OFF -DGPUREPLAY_DNNL=OFF -DGPUREPLAY_ZSTD=OFF
    -DGPUREPLAY_SANITIZE= -DGPUREPLAY_CUDA_ARCHITECTURES=AUTO)
file(REMOVE_RECURSE ${SCRATCH})

# With everything off except `settings`: the output must match `pattern`. One folder, so that the compiler is tested
# once. A library that is asked for and not installed ends configuring, with a message that the pattern allows.
function(prints settings pattern)
    list(TRANSFORM settings PREPEND -D OUTPUT_VARIABLE options)
    execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH} -G ${GENERATOR} -DCMAKE_C_COMPILER=${CC}
        ${plain} ${options} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
    string(REGEX REPLACE "[ \n]+" " " output "exit ${result}; ${out}${err}") # CMake breaks lines where it likes
    if(NOT output MATCHES "${pattern}")
        message(SEND_ERROR "${settings}: wanted ${pattern} in the output:\n${output}")
    endif()
    if(ARGC GREATER 2 AND output MATCHES "${ARGV2}")
        message(SEND_ERROR "${settings}: wanted no ${ARGV2} in the output:\n${output}")
    endif()
endfunction()

function(refuses name value wanted)
    prints("${name}=${value}" "exit [1-9].*${name} is \"${value}\"; it must be ${wanted}")
endfunction()

prints(GPUREPLAY_CUDA=Yes "CUDA: [0-9]|GPUREPLAY_CUDA=ON, but ")
prints("GPUREPLAY_BLAS=ON" "OpenBLAS: /|GPUREPLAY_BLAS=ON, but ")
prints("GPUREPLAY_DNNL=ON" "GPUREPLAY_DNNL=ON, but oneDNN was not found|oneDNN: /")
prints("GPUREPLAY_ZSTD=ON" "GPUREPLAY_ZSTD=ON, but Zstandard was not found|Zstandard: /")
prints("GPUREPLAY_CUDA=off;GPUREPLAY_BLAS=No;GPUREPLAY_DNNL=0;GPUREPLAY_ZSTD=OFF" "exit 0"
    "CUDA: |OpenBLAS|oneDNN|Zstandard")
prints("GPUREPLAY_SANITIZE=off;GPUREPLAY_CUDA=auto" "exit 0.*CUDA: " "sanitizer")
prints(GPUREPLAY_BLAS=Auto "OpenBLAS")
prints("GPUREPLAY_SANITIZE=undefined,Thread;GPUREPLAY_BLAS=AUTO" "so that ThreadSanitizer sees matrix products")
prints("GPUREPLAY_RACE_CHECK=y;GPUREPLAY_CUDA=AUTO" "CUDA: left out, since sanitizers and the race check")

refuses(GPUREPLAY_ZSTD atuo "AUTO, ON or OFF")
refuses(GPUREPLAY_CUDA "" "AUTO, ON or OFF")
refuses(GPUREPLAY_TESTS auto "ON or OFF")
foreach(bad adress address,thread on)
    refuses(GPUREPLAY_SANITIZE "${bad}" "empty, address, undefined, thread")
endforeach()
foreach(bad sm_90 90-rael "")
    refuses(GPUREPLAY_CUDA_ARCHITECTURES "${bad}" "AUTO, native, release, or a list")
endforeach()

# Without switches: the library and the examples, no tests, no benchmarks.
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH}/default -G ${GENERATOR} -DCMAKE_C_COMPILER=${CC}
    RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(NOT result EQUAL 0 OR NOT EXISTS ${SCRATCH}/default/examples OR EXISTS ${SCRATCH}/default/tests
        OR EXISTS ${SCRATCH}/default/bench)
    message(SEND_ERROR "without switches: exit ${result}; wanted 0, examples, and no tests or bench:\n${out}${err}")
endif()

# The extension module takes NumPy's headers from NumPy, not older ones that lie among Python's.
if(PYTHON)
    execute_process(COMMAND ${PYTHON} -c "import sysconfig; print(sysconfig.get_path('include'))"
        OUTPUT_VARIABLE include OUTPUT_STRIP_TRAILING_WHITESPACE)
    file(GLOB headers RELATIVE ${include} ${include}/*)
    list(REMOVE_ITEM headers numpy)
    file(MAKE_DIRECTORY ${SCRATCH}/include/numpy)
    foreach(header IN LISTS headers)
        file(CREATE_LINK ${include}/${header} ${SCRATCH}/include/${header} SYMBOLIC)
    endforeach()
    foreach(header IN ITEMS arrayobject arrayscalars ndarraytypes npy_common)
        file(WRITE ${SCRATCH}/include/numpy/${header}.h "#error \"an older NumPy's header\"\n")
    endforeach()
    execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH}/module -G ${GENERATOR}
        -DCMAKE_C_COMPILER=${CC} ${plain} -DGPUREPLAY_PYTHON=ON -DPython_EXECUTABLE=${PYTHON}
        -DPython_INCLUDE_DIR=${SCRATCH}/include OUTPUT_VARIABLE out ERROR_VARIABLE err)
    execute_process(COMMAND ${CMAKE_COMMAND} --build ${SCRATCH}/module --target gpureplay_fast
        RESULT_VARIABLE result OUTPUT_VARIABLE built ERROR_VARIABLE built)
    if(NOT result EQUAL 0)
        message(SEND_ERROR "NumPy's headers beside others of Python's: exit ${result}:\n${out}${err}${built}")
    endif()
endif()
