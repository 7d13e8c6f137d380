# SPDX-License-Identifier: MIT
# Tests of a build with CUDA that need no GPU: what ptxas said of the kernels, what the libraries link, what CMake finds
# and builds for. Label "cuda-build".
set(here ${CMAKE_CURRENT_SOURCE_DIR})
register(test_ptxas cuda-build ${CMAKE_COMMAND} -DREPORT=${GPUREPLAY_PTXAS_REPORT}
    -DKERNELS=${PROJECT_SOURCE_DIR}/kernels -P ${here}/device/cuda/ptxas.cmake)
set(modules ${gpureplay_modules})
list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_FILE:\\1>")
register(test_linkage cuda-build bash ${here}/package/test_linkage.sh $<TARGET_FILE:gpureplay> ${modules})

if(Python3_Interpreter_FOUND)
    register(test_cuda_ptx cuda-build ${Python3_EXECUTABLE} ${here}/device/cuda/test_cuda_ptx.py
        ${PROJECT_SOURCE_DIR}/kernels ${CMAKE_CURRENT_BINARY_DIR}/cuda.ptx ${GPUREPLAY_CURAND_INCLUDE_DIR}
        ${nvcc_command})
else()
    register_skipped(test_cuda_ptx "no Python 3 was found (Debian: apt install python3)")
endif()

foreach(part toolkit architectures)
    register(test_cuda_${part} cuda-build ${CMAKE_COMMAND} -DMODULES=${PROJECT_SOURCE_DIR}/src/cmake
        -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/cuda_${part} -P ${here}/device/cuda/cuda_${part}.cmake)
endforeach()

set_property(SOURCE device/cuda/test_cuda_libraries.c APPEND PROPERTY COMPILE_DEFINITIONS
    GPUR_INSTALLED_MODULE="${CMAKE_INSTALL_FULL_LIBDIR}/libgpureplay_cudamath.so.${GPUREPLAY_SOVERSION}")
target_link_libraries(test_programs PRIVATE gpureplay_cuda) # tests make errors of CUDA's, and capture graphs

# It takes all memory of the GPU; and what follows a fault there is nobody else's concern, but takes the GPU's time.
foreach(device IN LISTS GPUREPLAY_TEST_DEVICES)
    if(device MATCHES "^cuda")
        set_tests_properties(test_cuda_limits.${device} test_cuda_trap.${device} PROPERTIES RUN_SERIAL ON)
    endif()
endforeach()

# Functions of the library, or of the CUDA runtime, that a test stands before: the linker gives their callers
# __wrap_NAME in their place, and the test the function itself as __real_NAME.
function(wrap target)
    list(TRANSFORM ARGN PREPEND -Wl,--wrap= OUTPUT_VARIABLE wrapped)
    target_link_options(${target} PRIVATE ${wrapped})
endfunction()

# The CUDA runtime with faults, or only fake: the names are those of support/cuda/fake_cuda.h.
file(READ support/cuda/fake_cuda.h runtime_list)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS support/cuda/fake_cuda.h)
string(REGEX MATCHALL "X\\(cuda[A-Za-z]+" runtime_calls "${runtime_list}")
list(TRANSFORM runtime_calls REPLACE "X\\(" "")
if(GPUREPLAY_CUDA_VERSION VERSION_LESS 13.0)
    list(TRANSFORM runtime_calls REPLACE "^cudaGetDeviceProperties$" "cudaGetDeviceProperties_v2")
endif()
list(APPEND runtime_calls cudaStreamEndCapture cudaGetLastError cudaPeekAtLastError)
list(APPEND runtime_calls gpur_math_library_open gpur_dnn_library_open)
add_library(fake_cuda OBJECT support/cuda/fake_cuda.c)
target_link_libraries(fake_cuda PUBLIC gpureplay_tested gpureplay_cuda)
foreach(name test_cuda_faults test_cuda_launches)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:fake_cuda>)
    target_link_libraries(${name} PRIVATE gpureplay_cuda)
    wrap(${name} ${runtime_calls})
endforeach()

# Programs that test a GPU, on a fake one: what the library's CUDA files do, and what the tests expect of them, is
# then known to fit before a GPU is there. Those whose subject is on the host: kernels are the CPU's here, and run
# without warps; nor are the edges of graphs fake.
set(fake_parts act batch checkpoint copies cuda_device cuda_lanes cuda_limits cuda_streams demonstrations device
    gather learner learner_[a-z0-9]+ frames_layout lanes_api locks grid_sync priorities replay_config replay_model
    replay_order returns_lanes rows sampler stress stream writer writer_[a-z_]+)
list(JOIN fake_parts "|" fake_pattern)
add_executable(all_tests.fake $<TARGET_OBJECTS:test_programs> $<TARGET_OBJECTS:fake_cuda>
    support/cuda/fake_always.c)
target_link_libraries(all_tests.fake PRIVATE ${test_libraries} gpureplay_cuda)
wrap(all_tests.fake ${runtime_calls})
foreach(program IN LISTS programs_together)
    get_filename_component(name ${program} NAME_WE)
    if(name MATCHES "^test_(${fake_pattern})$")
        register(${name}.fake fake all_tests.fake ${name} cuda:0)
    endif()
endforeach()

# The library on a fake GPU, for Python's arrays in the memory of one. Its memory is the host's.
if(NOT GPUREPLAY_SANITIZE)
    add_library(gpureplay_fake SHARED ${gpureplay_objects} $<TARGET_OBJECTS:fake_cuda> support/cuda/fake_always.c
        reference/reference_gemm.c)
    set_target_properties(fake_cuda gpureplay_fake PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_definitions(gpureplay_fake PRIVATE GPUR_FAKE_LIBRARY)
    target_include_directories(gpureplay_fake PRIVATE
        $<TARGET_PROPERTY:gpureplay_tested,INTERFACE_INCLUDE_DIRECTORIES> ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(gpureplay_fake PRIVATE gpureplay_options gpureplay_cuda ${gpureplay_link_libraries})
    add_dependencies(gpureplay_fake gpureplay_cuda_kernels)
    wrap(gpureplay_fake ${runtime_calls})
    add_python_test(test_python_cuda.fake python/run_tests.py $<TARGET_FILE:gpureplay_fake>
        $<TARGET_FILE:print_losses> cuda)
endif()

# The module's own code, with cuBLASLt linked and its two calls that need a GPU answered by the test.
if(TARGET gpureplay_cudamath)
    add_executable(test_plan device/cuda/modules/test_plan.c)
    target_include_directories(test_plan SYSTEM PRIVATE ${GPUREPLAY_CUBLASLT_INCLUDE_DIR})
    target_link_libraries(test_plan PRIVATE gpureplay_tested gpureplay_cuda ${GPUREPLAY_CUBLASLT})
    register(test_plan cuda-build test_plan)
endif()

# The core's side of that module, with the library's opening answered by the test.
add_executable(test_dnn_plans device/cuda/modules/test_dnn_plans.c)
target_link_libraries(test_dnn_plans PRIVATE gpureplay_tested gpureplay_cuda)
register(test_dnn_plans cuda-build test_dnn_plans)

# The module's own code with cuDNN linked: graphs need no GPU, nor do engines for one that is described.
if(TARGET gpureplay_cudadnn)
    add_executable(test_conv_plan device/cuda/modules/test_conv_plan.c)
    target_include_directories(test_conv_plan SYSTEM PRIVATE ${GPUREPLAY_CUDNN_INCLUDE_DIR})
    target_link_libraries(test_conv_plan PRIVATE gpureplay_tested gpureplay_cuda ${GPUREPLAY_CUDNN})

    file(GLOB descriptions CONFIGURE_DEPENDS device/cuda/modules/*.json) # GPUs that engines are chosen for
    foreach(description IN LISTS descriptions)
        get_filename_component(name ${description} NAME_WE)
        register(test_conv_plan.${name} cuda-build test_conv_plan ${description})
    endforeach()
endif()
