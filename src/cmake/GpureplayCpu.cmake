# SPDX-License-Identifier: MIT
# Compiles the kernels of the CPU as gpureplay_cpu_*, once for each instruction set that the compiler knows. Opening a
# device chooses one of them.
include(CheckCCompilerFlag)
find_package(Threads REQUIRED)
set(kernel_flags -O3 -fno-math-errno -fno-trapping-math)
set(gpureplay_cpu_variants v1)
if(NOT GPUREPLAY_RACE_CHECK AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    check_c_compiler_flag(-march=x86-64-v3 GPUREPLAY_HAS_X86_64_V3)
    check_c_compiler_flag(-march=x86-64-v4 GPUREPLAY_HAS_X86_64_V4)
    if(GPUREPLAY_HAS_X86_64_V3 AND GPUREPLAY_HAS_X86_64_V4)
        list(APPEND gpureplay_cpu_variants v3 v4)
    endif()
endif()

set(gpureplay_objects)
foreach(variant IN LISTS gpureplay_cpu_variants)
    add_library(gpureplay_cpu_${variant} OBJECT kernels/cpu.c kernels/fused/cpu_fused_steps.c)
    target_link_libraries(gpureplay_cpu_${variant} PRIVATE gpureplay_options)
    target_include_directories(gpureplay_cpu_${variant} PRIVATE include ${PROJECT_SOURCE_DIR})
    target_compile_definitions(gpureplay_cpu_${variant} PRIVATE GPUR_VARIANT=${variant}
        $<$<BOOL:${GPUREPLAY_RACE_CHECK}>:GPUR_RACE_CHECK>)
    target_compile_options(gpureplay_cpu_${variant} PRIVATE ${kernel_flags} -Wc++-compat
        $<$<NOT:$<STREQUAL:${variant},v1>>:-march=x86-64-${variant}>)
    set_target_properties(gpureplay_cpu_${variant} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
    list(APPEND gpureplay_objects $<TARGET_OBJECTS:gpureplay_cpu_${variant}>)
endforeach()
