# SPDX-License-Identifier: MIT
# Tests of what a user gets: headers, symbols, version, ctypes, an installed copy, the documents, the scripts.
add_executable(test_version package/test_version.c)
target_link_libraries(test_version PRIVATE gpureplay)
target_compile_options(test_version PRIVATE -Wall -Wextra -Wpedantic -Werror)
set_target_properties(test_version PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
register(test_version package test_version ${PROJECT_VERSION})
add_python_test(test_headers_alone package/test_headers_alone.py)
add_python_test(test_header_examples package/test_header_examples.py ${CMAKE_C_COMPILER})
add_python_test(test_prefetch package/test_prefetch.py ${CMAKE_C_COMPILER})
add_python_test(test_symbols package/test_symbols.py $<TARGET_FILE:gpureplay>)
add_python_test(test_docs package/test_docs.py $<TARGET_FILE_DIR:gpureplay>)
add_python_test(test_layers package/test_layers.py)
add_python_test(test_reference package/test_reference.py $<TARGET_FILE:gpureplay>)
if(GPUREPLAY_BENCH)
    set(benchmark_files "")
    foreach(name ablation append cache checkpoint compare conv device feed ga3c pixels priority sample train training)
        if(TARGET bench_${name})
            list(APPEND benchmark_files $<TARGET_FILE:bench_${name}>)
        endif()
    endforeach()
    add_python_test(test_bench package/test_bench.py ${benchmark_files})
endif()
if(TARGET gpureplay_examples_env)
    add_python_test(test_scripts package/test_scripts.py $<TARGET_FILE:cartpole_dqn>)
    foreach(device IN LISTS GPUREPLAY_TEST_DEVICES)
        add_python_test(test_train.${device} examples/test_train.py ${device} $<TARGET_FILE:gpureplay-train>)
        add_python_test(test_play.${device} examples/test_play.py ${device} $<TARGET_FILE:gpureplay-train>)
        add_python_test(test_play_in_python.${device} examples/test_play.py ${device} ${Python3_EXECUTABLE} -m
            gpureplay)
        set_property(TEST test_play.${device} test_play_in_python.${device} APPEND PROPERTY LABELS "${device}")
        add_python_test(test_stops.${device} examples/test_stops.py ${device} 3 $<TARGET_FILE:gpureplay-train>)
        add_python_test(test_stops_in_python.${device} examples/test_stops.py ${device} 2 ${Python3_EXECUTABLE} -m
            gpureplay.train)
        set_property(TEST test_stops.${device} test_stops_in_python.${device} APPEND PROPERTY LABELS "${device}")
        set_tests_properties(test_stops_in_python.${device} PROPERTIES COST 500)
        add_python_test(test_train_apex.${device} examples/test_train_apex.py ${device} $<TARGET_FILE:gpureplay-train>)
        set_property(TEST test_train_apex.${device} APPEND PROPERTY LABELS "${device}")
        add_python_test(test_train_apex_in_python.${device} examples/test_train_apex.py ${device} ${Python3_EXECUTABLE}
            -m gpureplay.train)
        set_property(TEST test_train_apex_in_python.${device} APPEND PROPERTY LABELS "${device}")
        add_python_test(test_train_ga3c.${device} examples/test_train_ga3c.py ${device} $<TARGET_FILE:gpureplay-train>)
        add_python_test(test_train_ga3c_in_python.${device} examples/test_train_ga3c.py ${device} ${Python3_EXECUTABLE}
            -m gpureplay.train)
        set_property(TEST test_train_ga3c.${device} test_train_ga3c_in_python.${device} APPEND PROPERTY LABELS
            "${device}")
        add_python_test(test_train_offline.${device} examples/test_train_offline.py ${device}
            $<TARGET_FILE:gpureplay-train>)
        add_python_test(test_train_offline_in_python.${device} examples/test_train_offline.py ${device}
            ${Python3_EXECUTABLE} -m gpureplay.train)
        set_property(TEST test_train_offline.${device} test_train_offline_in_python.${device} APPEND PROPERTY LABELS
            "${device}")
        add_python_test(test_train_in_python.${device} examples/test_train.py ${device} ${Python3_EXECUTABLE} -m
            gpureplay.train)
        set_property(TEST test_train.${device} test_train_in_python.${device} APPEND PROPERTY LABELS "${device}")
        set_property(TEST test_train_in_python.${device} test_train_apex_in_python.${device}
            test_train_ga3c_in_python.${device} test_stops_in_python.${device} test_play_in_python.${device}
            test_train_offline_in_python.${device} APPEND PROPERTY ENVIRONMENT
            PYTHONPATH=${PROJECT_SOURCE_DIR}/src/python GPUREPLAY_LIBRARY=$<TARGET_FILE:gpureplay>)
        foreach(name IN ITEMS actor_critic actor_learner batches minimal own_batches own_learner pendulum_dpg sequences
                ship_sac)
            register(example_${name}.${device} "${device}" ${name} ${device} ${name}.${device}.safetensors)
            set_tests_properties(example_${name}.${device} PROPERTIES SKIP_REGULAR_EXPRESSION GPUR_UNAVAILABLE)
        endforeach()
        foreach(command IN ITEMS "fast-dqn-small 15000" "apex-dqn-small 30000" "a2c-small 100000")
            string(REGEX REPLACE " .*" ".${device}" folder ${command})
            register(example_runs.${folder} "${device}" sh -c "rm -rf ${folder} && \"$<TARGET_FILE:runs>\" ${device} \
${command} ${folder} && \"$<TARGET_FILE:runs>\" ${device} ${command} ${folder}")
            set_tests_properties(example_runs.${folder} PROPERTIES SKIP_REGULAR_EXPRESSION GPUR_UNAVAILABLE)
        endforeach()
        if(device STREQUAL "cpu") # where its games are; a random player's return is 22
            register(test_lanes_cartpole cpu lanes_cartpole 1 600)
            set_tests_properties(test_lanes_cartpole PROPERTIES PASS_REGULAR_EXPRESSION "return [1-9][0-9][0-9]")
        endif()
        add_python_test(test_cartpole_dqn.${device} examples/test_cartpole_dqn.py $<TARGET_FILE:cartpole_dqn> ${device})
        set_property(TEST test_cartpole_dqn.${device} APPEND PROPERTY LABELS "${device}")
    endforeach()
endif()

add_python_test(test_ctypes package/test_ctypes.py $<TARGET_FILE:gpureplay>)
add_python_test(test_abi package/test_abi.py $<TARGET_FILE:gpureplay>)
add_python_test(test_files files/test_files.py $<TARGET_FILE:gpureplay>)

# The library's environments against those of others, and plug-ins that are built outside the tree.
add_python_test(test_cartpole_gymnasium env/test_cartpole.py $<TARGET_FILE:gpureplay>)
add_python_test(test_minatar env/test_minatar.py $<TARGET_FILE:gpureplay>)
add_python_test(test_pendulum_gymnasium env/test_pendulum.py $<TARGET_FILE:gpureplay>)
add_python_test(test_plugin env/test_plugin.py $<TARGET_FILE:gpureplay>)

# The Python package, and a program whose losses it must repeat.
add_executable(print_losses python/print_losses.c)
target_link_libraries(print_losses PRIVATE gpureplay)
add_python_test(test_python python/run_tests.py $<TARGET_FILE:gpureplay> $<TARGET_FILE:print_losses> fast)
add_python_test(test_python_without_fast python/run_tests.py $<TARGET_FILE:gpureplay> $<TARGET_FILE:print_losses> off)
add_python_test(test_ray python/run_tests.py $<TARGET_FILE:gpureplay> $<TARGET_FILE:print_losses> ray)
add_python_test(test_wheel python/run_tests.py $<TARGET_FILE:gpureplay> $<TARGET_FILE:print_losses> wheel)
# The longest, many tests in one, which begin first.
set_tests_properties(test_python test_python_without_fast PROPERTIES TIMEOUT 7200 COST 1000)
# Then those of minutes, lest one of them is left alone at the end.
set_tests_properties(test_ray test_reference test_wheel PROPERTIES COST 500)
if(TARGET gpureplay-train)
    set_property(TEST test_python APPEND PROPERTY ENVIRONMENT GPUREPLAY_TRAIN=$<TARGET_FILE:gpureplay-train>)
endif()
string(REPLACE ";" "," devices "${GPUREPLAY_TEST_DEVICES}")
set_property(TEST test_python test_python_without_fast APPEND PROPERTY ENVIRONMENT GPUR_TEST_DEVICES=${devices})
add_python_test(test_atari examples/test_atari.py $<TARGET_FILE:gpureplay>)
add_python_test(test_atari_plugin plugins/test_atari_plugin.py)

# An installed copy, and what finds it. Installing needs every target, so these come in builds of everything.
if(is_top_level)
    set(methods find_package pkg_config fetch_content)
    if(TARGET gpureplay-train)
        list(APPEND methods debian conan)
        if(GPUREPLAY_HAS_BLAS AND GPUREPLAY_HAS_FILES AND GPUREPLAY_HAS_ZSTD) # which the recipe demands
            list(APPEND methods conda)
        endif()
    endif()
    foreach(method IN LISTS methods)
        register(test_install_${method} package bash ${CMAKE_CURRENT_SOURCE_DIR}/install/run.sh ${method}
            ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
    endforeach()
    if(TEST test_install_conan AND Python3_EXECUTABLE) # which tests/run.sh gives Conan
        get_filename_component(folder ${Python3_EXECUTABLE} DIRECTORY)
        set_property(TEST test_install_conan PROPERTY ENVIRONMENT_MODIFICATION PATH=path_list_append:${folder})
    endif()
endif()

# Which files each build consists of, and its switches, by configuring with good and bad values of them.
register(test_sources package ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
    -P ${CMAKE_CURRENT_SOURCE_DIR}/package/sources.cmake)
set(module_python "")
if(TARGET gpureplay_fast)
    set(module_python -DPYTHON=${Python_EXECUTABLE})
endif()
register(test_switches package ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DCC=${CMAKE_C_COMPILER}
    -DGENERATOR=${CMAKE_GENERATOR} -DSCRATCH=${CMAKE_CURRENT_BINARY_DIR}/switches ${module_python}
    -P ${CMAKE_CURRENT_SOURCE_DIR}/package/switches.cmake)

find_program(SHELLCHECK shellcheck)
if(SHELLCHECK)
    file(GLOB_RECURSE scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*.sh ${PROJECT_SOURCE_DIR}/bench/*.sh
        ${PROJECT_SOURCE_DIR}/docs/*.sh ${PROJECT_SOURCE_DIR}/examples/*.sh ${PROJECT_SOURCE_DIR}/src/*.sh)
    register(shellcheck package ${SHELLCHECK} -x --severity=warning ${scripts} ${PROJECT_SOURCE_DIR}/.ci/run)
else()
    register_skipped(shellcheck "no shellcheck was found (Debian: apt install shellcheck)")
endif()

# What no compiler changes, or costs minutes: tests/run.sh has it in its first configuration only.
foreach(name IN ITEMS shellcheck test_atari test_atari_plugin test_bench test_cartpole_gymnasium test_docs test_layers
        test_headers_alone test_header_examples test_install_fetch_content test_install_conan test_install_conda
        test_install_debian test_minatar test_pendulum_gymnasium
        test_plugin test_python test_python_without_fast test_ray test_reference test_wheel test_scripts test_sources
        test_switches
        test_play.cpu test_play_in_python.cpu test_train.cpu test_train_apex.cpu test_train_apex_in_python.cpu
        test_train_ga3c.cpu test_stops_in_python.cpu test_train_ga3c_in_python.cpu test_train_in_python.cpu
        test_train_offline.cpu test_train_offline_in_python.cpu)
    if(TEST ${name})
        set_property(TEST ${name} APPEND PROPERTY LABELS once)
    endif()
endforeach()
