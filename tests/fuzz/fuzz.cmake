# SPDX-License-Identifier: MIT
# GPUREPLAY_FUZZ: only the fuzz targets, by clang's libFuzzer, each for GPUREPLAY_FUZZ_SECONDS.
set(GPUREPLAY_FUZZ_SECONDS 20 CACHE STRING "Seconds that each fuzz target runs in the tests")
add_executable(fuzz_checkpoint fuzz/fuzz_checkpoint.c support/file_utils.c support/checkpoint_fixture.c
    support/replay_fixture.c)
target_link_libraries(fuzz_checkpoint PRIVATE gpureplay_tested)
target_link_options(fuzz_checkpoint PRIVATE -fsanitize=fuzzer)
math(EXPR patience "${GPUREPLAY_FUZZ_SECONDS} + ${GPUREPLAY_TEST_TIMEOUT}")
register(fuzz_checkpoint cpu bash ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/run.sh $<TARGET_FILE:fuzz_checkpoint>
    ${GPUREPLAY_FUZZ_SECONDS})
set_tests_properties(fuzz_checkpoint PROPERTIES TIMEOUT ${patience})
