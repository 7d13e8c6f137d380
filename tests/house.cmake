# SPDX-License-Identifier: MIT
# Tests of what a user gets: headers, symbols, version, ctypes, an installed copy, the documents, the scripts.
foreach(name test_header test_version)
    add_executable(${name} ${name}.c)
    target_link_libraries(${name} PRIVATE gpureplay)
    target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Werror)
    set_target_properties(${name} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
    register(${name} house ${name} ${PROJECT_VERSION})
endforeach()
if(CMAKE_CXX_COMPILER)
    add_executable(test_header_cxx test_header.cc)
    target_link_libraries(test_header_cxx PRIVATE gpureplay)
    target_compile_options(test_header_cxx PRIVATE -Wall -Wextra -Wpedantic -Werror)
    set_target_properties(test_header_cxx PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
    register(test_header_cxx house test_header_cxx)
endif()

add_python_test(test_headers_alone test_headers_alone.py)
add_python_test(test_symbols test_symbols.py $<TARGET_FILE:gpureplay>)
add_python_test(test_papers_md test_papers_md.py)
add_python_test(test_docs test_docs.py $<TARGET_FILE_DIR:gpureplay>)
add_python_test(test_floors test_floors.py)
if(TARGET gpureplay_examples_env)
    add_python_test(test_cartpole_gymnasium test_cartpole.py)
    add_python_test(test_quickstart test_quickstart.py)
    add_python_test(test_learning test_learning.py)
    foreach(device IN LISTS GPUREPLAY_TEST_DEVICES)
        register(test_minimal.${device} "${device}" minimal ${device})
        set_tests_properties(test_minimal.${device} PROPERTIES SKIP_REGULAR_EXPRESSION GPUR_UNAVAILABLE)
        add_python_test(test_cartpole_dqn.${device} test_cartpole_dqn.py $<TARGET_FILE:cartpole_dqn> ${device})
    endforeach()
endif()

# The C compiler's layout of every public struct, as a program made from the list that the ctypes test mirrors.
if(Python3_Interpreter_FOUND)
    set(layout ${CMAKE_CURRENT_BINARY_DIR}/layout.c)
    add_custom_command(OUTPUT ${layout} DEPENDS ctypes_mirror.py
        COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/ctypes_mirror.py ${layout})
    add_executable(print_layout ${layout})
    target_include_directories(print_layout PRIVATE ${PROJECT_SOURCE_DIR}/include)
    add_python_test(test_ctypes test_ctypes.py $<TARGET_FILE:gpureplay> $<TARGET_FILE:print_layout>)
endif()

# An installed copy, and what finds it. Installing needs every target, so these come in builds of everything.
if(is_top_level)
    foreach(way IN ITEMS find_package pkg_config add_subdirectory)
        register(test_install_${way} house bash ${CMAKE_CURRENT_SOURCE_DIR}/install/run.sh ${way} ${PROJECT_BINARY_DIR}
            ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
        set_tests_properties(test_install_${way} PROPERTIES TIMEOUT 600)
    endforeach()
endif()

# The reference, made from the public headers: every declaration has its comment.
register(doxygen house bash ${CMAKE_CURRENT_SOURCE_DIR}/doxygen/run.sh ${PROJECT_SOURCE_DIR}
    ${CMAKE_CURRENT_BINARY_DIR}/doxygen)

find_program(SHELLCHECK shellcheck)
if(SHELLCHECK)
    file(GLOB_RECURSE scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*.sh ${PROJECT_SOURCE_DIR}/bench/*.sh
        ${PROJECT_SOURCE_DIR}/examples/*.sh)
    register(shellcheck house ${SHELLCHECK} -x --severity=warning ${scripts} ${PROJECT_SOURCE_DIR}/.ci/run)
endif()
