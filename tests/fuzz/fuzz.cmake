# SPDX-License-Identifier: MIT
# GPUREPLAY_FUZZ: only the fuzz targets, by clang's libFuzzer, which share GPUREPLAY_FUZZ_SECONDS: an input of a block
# or of frames takes a tenth of the time of one that is a file.
set(GPUREPLAY_FUZZ_SECONDS 20 CACHE STRING "Seconds that the fuzz targets run in the tests, together")
math(EXPR block_seconds "${GPUREPLAY_FUZZ_SECONDS} / 4")
math(EXPR checkpoint_seconds "${GPUREPLAY_FUZZ_SECONDS} - 2 * ${block_seconds}")

# add_fuzz_target(NAME SECONDS SUPPORT...)
function(add_fuzz_target name seconds)
    add_executable(${name} fuzz/${name}.c support/file_utils.c support/replay_fixture.c ${ARGN})
    target_link_libraries(${name} PRIVATE gpureplay_tested)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    math(EXPR patience "${seconds} + ${GPUREPLAY_TEST_TIMEOUT}")
    register(${name} cpu bash ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/run.sh $<TARGET_FILE:${name}> ${seconds})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${patience})
endfunction()
add_fuzz_target(fuzz_checkpoint ${checkpoint_seconds} support/checkpoint_fixture.c)
add_fuzz_target(fuzz_frames ${block_seconds})
add_fuzz_target(fuzz_block ${block_seconds} support/block_damage.c support/actor_fixture.c support/episode_fixture.c
    reference/reference_history.c)
