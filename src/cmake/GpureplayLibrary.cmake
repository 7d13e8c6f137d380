# SPDX-License-Identifier: MIT
# Builds gpureplay (shared) and gpureplay_static from the same objects.
set(gpureplay_depends CONFIGURE_DEPENDS)
include(GpureplaySources)

add_library(gpureplay_objects OBJECT ${gpureplay_sources})
target_include_directories(gpureplay_objects PRIVATE include src ${PROJECT_SOURCE_DIR})
target_link_libraries(gpureplay_objects PRIVATE gpureplay_options Threads::Threads)
target_compile_definitions(gpureplay_objects PRIVATE
    $<$<BOOL:${GPUREPLAY_RACE_CHECK}>:GPUR_RACE_CHECK>
    $<$<BOOL:${GPUREPLAY_HAS_BLAS}>:GPUR_HAS_BLAS>
    $<$<BOOL:${GPUREPLAY_HAS_FILES}>:GPUR_HAS_FILES>
    $<$<BOOL:${GPUREPLAY_HAS_ZSTD}>:GPUR_HAS_ZSTD>
    $<$<BOOL:${GPUREPLAY_HAS_DNNL}>:GPUR_HAS_DNNL>
    $<$<BOOL:${GPUREPLAY_HAS_CUDA}>:GPUR_HAS_CUDA>
    $<$<IN_LIST:v4,${gpureplay_cpu_variants}>:GPUR_HAS_CPU_VARIANTS>)
if(GPUREPLAY_HAS_CUDA)
    target_link_libraries(gpureplay_objects PRIVATE gpureplay_cuda)
    set_source_files_properties(src/base/build_info.c PROPERTIES COMPILE_DEFINITIONS
        "GPUR_BUILD_CUDA=\"${GPUREPLAY_CUDA_VERSION}, architectures ${GPUREPLAY_CUDA_BUILT_FOR}\"")
endif()
if(GPUREPLAY_HAS_BLAS)
    target_link_libraries(gpureplay_objects PRIVATE gpureplay_blas)
endif()
if(GPUREPLAY_HAS_FILES)
    target_link_libraries(gpureplay_objects PRIVATE gpureplay_files)
endif()
if(GPUREPLAY_HAS_ZSTD)
    target_include_directories(gpureplay_objects SYSTEM PRIVATE ${ZSTD_INCLUDE_DIR})
endif()
if(GPUREPLAY_HAS_DNNL)
    target_include_directories(gpureplay_objects SYSTEM PRIVATE ${DNNL_INCLUDE_DIR})
endif()
# The results of CartPole and Pendulum are Gymnasium's, to the last bit: no fused multiply-add where the compiler would
# contract.
set_source_files_properties(src/env/cartpole.c src/env/pendulum.c PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
set_target_properties(gpureplay_objects PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
list(APPEND gpureplay_objects $<TARGET_OBJECTS:gpureplay_objects>)

# Libraries that the objects need when they are linked: by path in this build, by name (GPUREPLAY_STATIC_NEEDS) for
# the installed static library.
set(gpureplay_link_libraries Threads::Threads m ${CMAKE_DL_LIBS})
set(GPUREPLAY_STATIC_NEEDS pthread m ${CMAKE_DL_LIBS})
if(GPUREPLAY_HAS_BLAS)
    list(APPEND gpureplay_link_libraries ${OPENBLAS_LIBRARY})
endif()
if(GPUREPLAY_HAS_FILES)
    list(APPEND gpureplay_link_libraries ${CJSON_LIBRARY})
    list(APPEND GPUREPLAY_STATIC_NEEDS cjson)
endif()
if(GPUREPLAY_HAS_ZSTD)
    list(APPEND gpureplay_link_libraries ${ZSTD_LIBRARY})
    list(APPEND GPUREPLAY_STATIC_NEEDS zstd)
endif()
if(GPUREPLAY_HAS_DNNL)
    list(APPEND gpureplay_link_libraries ${DNNL_LIBRARY})
    list(APPEND GPUREPLAY_STATIC_NEEDS ${DNNL_LIBRARY})
endif()
if(GPUREPLAY_HAS_CUDA)
    list(APPEND gpureplay_link_libraries ${GPUREPLAY_CUDART} rt)
    list(APPEND GPUREPLAY_STATIC_NEEDS ${GPUREPLAY_CUDART} rt)
endif()

function(gpureplay_add_library name type)
    add_library(${name} ${type} ${gpureplay_objects})
    target_include_directories(${name} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:gpureplay_options>
        "$<BUILD_INTERFACE:${gpureplay_link_libraries}>")
    set_target_properties(${name} PROPERTIES OUTPUT_NAME gpureplay LINKER_LANGUAGE C
        VERSION ${PROJECT_VERSION} SOVERSION ${GPUREPLAY_SOVERSION})
    if(GPUREPLAY_HAS_CUDA)
        add_dependencies(${name} gpureplay_cuda_kernels)
    endif()
endfunction()
gpureplay_add_library(gpureplay SHARED)
if(NOT GPUREPLAY_SANITIZE) # the program brings the sanitizer's runtime
    target_link_options(gpureplay PRIVATE LINKER:--no-undefined)
endif()
gpureplay_add_library(gpureplay_static STATIC)
foreach(need IN LISTS GPUREPLAY_STATIC_NEEDS)
    target_link_libraries(gpureplay_static PRIVATE $<INSTALL_INTERFACE:${need}>)
endforeach()
if(GPUREPLAY_HAS_BLAS)
    target_link_libraries(gpureplay_static PRIVATE $<INSTALL_INTERFACE:gpureplay::openblas>) # of the config file
endif()
add_library(gpureplay::gpureplay ALIAS gpureplay)
add_library(gpureplay::gpureplay_static ALIAS gpureplay_static)
