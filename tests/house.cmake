# SPDX-License-Identifier: MIT
# Tests of what a user gets: headers, symbols, version, ctypes, an installed copy, the documents, the scripts.
set(no_cxx "no C++ compiler was found (Debian: apt install g++)")
foreach(name test_header test_version)
    add_executable(${name} package/${name}.c)
    target_link_libraries(${name} PRIVATE gpureplay)
    target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Werror)
    set_target_properties(${name} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
    register(${name} house ${name} ${PROJECT_VERSION})
endforeach()
if(CMAKE_CXX_COMPILER)
    add_executable(test_header_cxx package/test_header.cc)
    target_link_libraries(test_header_cxx PRIVATE gpureplay)
    target_compile_options(test_header_cxx PRIVATE -Wall -Wextra -Wpedantic -Werror)
    set_target_properties(test_header_cxx PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
    register(test_header_cxx house test_header_cxx)
else()
    register_skipped(test_header_cxx "${no_cxx}")
endif()

add_python_test(test_headers_alone package/test_headers_alone.py)
add_python_test(test_headers_say package/test_headers_say.py)
add_python_test(test_prefetch package/test_prefetch.py ${CMAKE_C_COMPILER})
add_python_test(test_symbols package/test_symbols.py $<TARGET_FILE:gpureplay>)
add_python_test(test_papers_md package/test_papers_md.py)
add_python_test(test_docs package/test_docs.py $<TARGET_FILE_DIR:gpureplay>)
add_python_test(test_floors package/test_floors.py)
if(GPUREPLAY_BENCH)
    set(benchmark_files "")
    foreach(name append busy checkpoint compare conv device pixels priority sample train training)
        if(TARGET bench_${name})
            list(APPEND benchmark_files $<TARGET_FILE:bench_${name}>)
        endif()
    endforeach()
    add_python_test(test_bench package/test_bench.py ${benchmark_files})
endif()
if(TARGET gpureplay_examples_env)
    add_python_test(test_cartpole_gymnasium examples/test_cartpole.py)
    add_python_test(test_scripts package/test_scripts.py $<TARGET_FILE:cartpole_dqn>)
    foreach(device IN LISTS GPUREPLAY_TEST_DEVICES)
        register(test_minimal.${device} "${device}" minimal ${device})
        set_tests_properties(test_minimal.${device} PROPERTIES SKIP_REGULAR_EXPRESSION GPUR_UNAVAILABLE)
        register(test_own_learner.${device} "${device}" own_learner ${device} own_learner.${device}.safetensors)
        set_tests_properties(test_own_learner.${device} PROPERTIES SKIP_REGULAR_EXPRESSION GPUR_UNAVAILABLE)
        add_python_test(test_cartpole_dqn.${device} examples/test_cartpole_dqn.py $<TARGET_FILE:cartpole_dqn> ${device})
        set_property(TEST test_cartpole_dqn.${device} APPEND PROPERTY LABELS "${device}")
    endforeach()
endif()

# The C compiler's layout of every public struct, as a program made from the list that the ctypes test mirrors.
set(print_layout "")
if(Python3_Interpreter_FOUND)
    set(layout ${CMAKE_CURRENT_BINARY_DIR}/layout.c)
    set(mirror ${PROJECT_SOURCE_DIR}/src/python/gpureplay)
    add_custom_command(OUTPUT ${layout} DEPENDS package/ctypes_mirror.py ${mirror}/_c_api.py
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/package/ctypes_mirror.py ${layout})
    add_executable(print_layout ${layout})
    target_include_directories(print_layout PRIVATE ${PROJECT_SOURCE_DIR}/include)
    set(print_layout $<TARGET_FILE:print_layout>)
endif()
add_python_test(test_ctypes package/test_ctypes.py $<TARGET_FILE:gpureplay> ${print_layout})

# The Python package, and a program whose losses it must repeat.
add_executable(print_losses python/print_losses.c)
target_link_libraries(print_losses PRIVATE gpureplay)
add_python_test(test_python python/run_tests.py $<TARGET_FILE:gpureplay> $<TARGET_FILE:print_losses> fast)
add_python_test(test_python_without_fast python/run_tests.py $<TARGET_FILE:gpureplay> $<TARGET_FILE:print_losses> off)
set_tests_properties(test_python test_python_without_fast PROPERTIES TIMEOUT 7200) # the longest, many tests in one
string(REPLACE ";" "," devices "${GPUREPLAY_TEST_DEVICES}")
set_property(TEST test_python test_python_without_fast APPEND PROPERTY ENVIRONMENT GPUR_TEST_DEVICES=${devices})
add_python_test(test_atari examples/test_atari.py $<TARGET_FILE:gpureplay>)

# An installed copy, and what finds it, in both languages. Installing needs every target, so these come in builds of
# everything.
function(add_install_test way language)
    set(name test_install_${way}_${language})
    if(NOT CMAKE_${language}_COMPILER)
        register_skipped(${name} "${no_cxx}")
        return()
    endif()
    register(${name} house bash ${CMAKE_CURRENT_SOURCE_DIR}/install/run.sh ${way} ${language} ${PROJECT_BINARY_DIR}
        ${CMAKE_C_COMPILER} ${CMAKE_${language}_COMPILER})
endfunction()
if(is_top_level)
    foreach(way IN ITEMS find_package pkg_config)
        add_install_test(${way} C)
        add_install_test(${way} CXX)
    endforeach()
    add_install_test(add_subdirectory CXX) # builds the library: once, in a project of another language than its own
endif()

# Which files a build is made of, whatever it has.
register(test_sources house ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
    -P ${CMAKE_CURRENT_SOURCE_DIR}/package/sources.cmake)

# The switches of the build, by configuring with good and bad values of them.
register(test_switches house ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DCC=${CMAKE_C_COMPILER}
    -DGENERATOR=${CMAKE_GENERATOR} -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/switches
    -P ${CMAKE_CURRENT_SOURCE_DIR}/package/switches.cmake)

# The reference, made from the public headers: every declaration has its comment.
register(doxygen house bash ${CMAKE_CURRENT_SOURCE_DIR}/doxygen/run.sh ${PROJECT_SOURCE_DIR}
    ${CMAKE_CURRENT_BINARY_DIR}/doxygen)

find_program(SHELLCHECK shellcheck)
if(SHELLCHECK)
    file(GLOB_RECURSE scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*.sh ${PROJECT_SOURCE_DIR}/bench/*.sh
        ${PROJECT_SOURCE_DIR}/examples/*.sh)
    register(shellcheck house ${SHELLCHECK} -x --severity=warning ${scripts} ${PROJECT_SOURCE_DIR}/.ci/run)
else()
    register_skipped(shellcheck "no shellcheck was found (Debian: apt install shellcheck)")
endif()

# What no compiler changes, or costs minutes: tests/run.sh has it in its first configuration only.
foreach(name IN ITEMS doxygen shellcheck test_atari test_bench test_cartpole_gymnasium test_docs test_floors
        test_headers_alone test_headers_say test_install_add_subdirectory_CXX test_papers_md test_python
        test_python_without_fast test_scripts test_sources test_switches)
    if(TEST ${name})
        set_property(TEST ${name} APPEND PROPERTY LABELS once)
    endif()
endforeach()

# The long ones first: what begins last ends last.
set(cost 0)
foreach(name IN ITEMS test_install_add_subdirectory_CXX test_bench test_atari test_python_without_fast test_python)
    math(EXPR cost "${cost} + 1000")
    if(TEST ${name})
        set_tests_properties(${name} PROPERTIES COST ${cost})
    endif()
endforeach()
