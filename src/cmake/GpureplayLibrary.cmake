# SPDX-License-Identifier: MIT
# gpureplay (shared) and gpureplay_static, from the same objects.
file(GLOB gpureplay_sources CONFIGURE_DEPENDS src/base/*.c src/device/*.c src/replay/*.c src/learn/*.c)
if(GPUREPLAY_HAS_CUDA)
    list(FILTER gpureplay_sources EXCLUDE REGEX "_none\\.c$")
else()
    list(FILTER gpureplay_sources EXCLUDE REGEX "_cuda\\.c$")
endif()
list(FILTER gpureplay_sources EXCLUDE REGEX "/module_[a-z]+_cuda\\.c$") # not in the core: see GpureplayCuda
if(GPUREPLAY_HAS_BLAS)
    list(FILTER gpureplay_sources EXCLUDE REGEX "/gemm_plain_cpu\\.c$")
else()
    list(FILTER gpureplay_sources EXCLUDE REGEX "/gemm_blas_cpu\\.c$")
endif()
if(GPUREPLAY_RACE_CHECK)
    list(FILTER gpureplay_sources EXCLUDE REGEX "/blocks_cpu\\.c$")
else()
    list(FILTER gpureplay_sources EXCLUDE REGEX "/blocks_race_cpu\\.c$")
endif()

add_library(gpureplay_objects OBJECT ${gpureplay_sources})
target_include_directories(gpureplay_objects PRIVATE include src ${PROJECT_SOURCE_DIR})
target_link_libraries(gpureplay_objects PRIVATE gpureplay_options Threads::Threads)
target_compile_definitions(gpureplay_objects PRIVATE
    $<$<BOOL:${GPUREPLAY_RACE_CHECK}>:GPUR_RACE_CHECK>
    $<$<BOOL:${GPUREPLAY_HAS_BLAS}>:GPUR_HAS_BLAS>
    $<$<BOOL:${GPUREPLAY_HAS_CUDA}>:GPUR_HAS_CUDA>
    $<$<IN_LIST:v4,${gpureplay_cpu_variants}>:GPUR_HAS_CPU_VARIANTS>)
if(GPUREPLAY_HAS_BLAS)
    target_link_libraries(gpureplay_objects PRIVATE gpureplay_blas)
endif()
if(OpenMP_C_FOUND AND GPUREPLAY_OPENMP)
    target_link_libraries(gpureplay_objects PRIVATE OpenMP::OpenMP_C)
endif()
set_target_properties(gpureplay_objects PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
list(APPEND gpureplay_objects $<TARGET_OBJECTS:gpureplay_objects>)

function(gpureplay_add_library name type)
    add_library(${name} ${type} ${gpureplay_objects})
    target_include_directories(${name} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:gpureplay_options> Threads::Threads m ${CMAKE_DL_LIBS})
    if(GPUREPLAY_HAS_BLAS)
        target_link_libraries(${name} PRIVATE ${OPENBLAS_LIBRARY})
    endif()
    if(OpenMP_C_FOUND AND GPUREPLAY_OPENMP)
        target_link_libraries(${name} PRIVATE OpenMP::OpenMP_C)
    endif()
    set_target_properties(${name} PROPERTIES OUTPUT_NAME gpureplay LINKER_LANGUAGE C
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endfunction()
gpureplay_add_library(gpureplay SHARED)
gpureplay_add_library(gpureplay_static STATIC)
add_library(gpureplay::gpureplay ALIAS gpureplay)
add_library(gpureplay::gpureplay_static ALIAS gpureplay_static)
