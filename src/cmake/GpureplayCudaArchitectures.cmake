# SPDX-License-Identifier: MIT
# Turns GPUREPLAY_CUDA_ARCHITECTURES into options of nvcc. Sets architecture_flags, GPUREPLAY_CUDA_BUILT_FOR (the
# architectures as text) and cuda_built_because (the reason). The first two are empty if nvcc knows none of the
# architectures. Values:
#   90        machine code and PTX; 90-real: machine code alone; 90-virtual: PTX alone
#   native    machine code for the GPUs of this machine
#   AUTO      native, if nvcc knows every GPU of this machine; else 90 and 75-virtual: machine code for one, and PTX
#             for all others from Turing on, which the driver compiles when it first loads it
#   release   machine code for all architectures of a release, and PTX for the newest of them that this nvcc knows
execute_process(COMMAND ${GPUREPLAY_NVCC} --list-gpu-arch OUTPUT_VARIABLE known_architectures ERROR_QUIET)

# The GPUs of this machine, each kind once, with "9.0" as "90-real". Empty without a driver, or if it is too old to
# tell.
find_program(GPUREPLAY_NVIDIA_SMI nvidia-smi PATHS /usr/lib/wsl/lib DOC "Tells which GPUs are here")
mark_as_advanced(GPUREPLAY_NVIDIA_SMI)
set(native_architectures)
if(GPUREPLAY_NVIDIA_SMI)
    execute_process(COMMAND ${GPUREPLAY_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
        OUTPUT_VARIABLE capabilities RESULT_VARIABLE result ERROR_QUIET)
    if(result EQUAL 0)
        string(REGEX MATCHALL "[0-9]+\\.[0-9]+" native_architectures "${capabilities}")
        list(TRANSFORM native_architectures REPLACE "([0-9]+)\\.([0-9]+)" "\\1\\2-real")
        list(REMOVE_DUPLICATES native_architectures)
    endif()
endif()

function(is_known architecture out)
    string(REGEX REPLACE "-(real|virtual)$" "" number ${architecture})
    string(FIND "${known_architectures}" "compute_${number}\n" at)
    if(at LESS 0)
        set(${out} OFF PARENT_SCOPE)
    else()
        set(${out} ON PARENT_SCOPE)
    endif()
endfunction()

set(architectures ${GPUREPLAY_CUDA_ARCHITECTURES})
set(cuda_built_because "as GPUREPLAY_CUDA_ARCHITECTURES=${GPUREPLAY_CUDA_ARCHITECTURES} asks for")
if(architectures STREQUAL "AUTO")
    set(elsewhere 90 75-virtual)
    set(architectures ${native_architectures})
    set(cuda_built_because "the GPU that is here; other machines want GPUREPLAY_CUDA_ARCHITECTURES=release")
    foreach(architecture IN LISTS native_architectures)
        is_known(${architecture} known)
        if(NOT known)
            set(architectures ${elsewhere})
            set(cuda_built_because "and PTX for all others, as this nvcc does not know the GPU that is here")
        endif()
    endforeach()
    if(NOT architectures)
        set(architectures ${elsewhere})
        string(CONCAT cuda_built_because "and PTX for all others, as no GPU is here; "
            "GPUREPLAY_CUDA_ARCHITECTURES=release builds for all, GPUREPLAY_CUDA=OFF for none")
    endif()
elseif(architectures STREQUAL "native")
    set(architectures ${native_architectures})
endif()
set(with_newest_ptx OFF)
if(architectures STREQUAL "release")
    set(architectures 75-real 80-real 86-real 89-real 90-real 100-real 120-real)
    set(with_newest_ptx ON)
endif()

set(chosen)
foreach(architecture IN LISTS architectures)
    is_known(${architecture} known)
    if(known)
        list(APPEND chosen ${architecture})
    else()
        message(STATUS "CUDA: architecture ${architecture} is not known to nvcc ${GPUREPLAY_CUDA_VERSION}: left out")
    endif()
endforeach()
if(with_newest_ptx AND chosen)
    list(GET chosen -1 newest)
    string(REPLACE "-real" "-virtual" newest ${newest})
    list(APPEND chosen ${newest})
endif()

set(architecture_flags)
foreach(architecture IN LISTS chosen)
    string(REGEX REPLACE "-(real|virtual)$" "" number ${architecture})
    if(NOT architecture MATCHES "-virtual$")
        list(APPEND architecture_flags -gencode arch=compute_${number},code=sm_${number})
    endif()
    if(NOT architecture MATCHES "-real$")
        list(APPEND architecture_flags -gencode arch=compute_${number},code=compute_${number})
    endif()
endforeach()
list(JOIN chosen " " GPUREPLAY_CUDA_BUILT_FOR)
