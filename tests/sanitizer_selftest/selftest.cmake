# SPDX-License-Identifier: MIT
# Self-tests of the sanitizers: each deliberate mistake must be reported, and the same program without it must be clean.
# add_selftest(NAME FILE REPORT CASE...)
function(add_selftest name file report)
    add_executable(${name} ${CMAKE_CURRENT_SOURCE_DIR}/sanitizer_selftest/${file})
    target_link_libraries(${name} PRIVATE ${test_libraries})
    foreach(case IN LISTS ARGN)
        if(case MATCHES "^right_")
            register(${name}.${case} selftest ${name} ${case})
            continue()
        endif()
        register(${name}.${case} selftest bash ${CMAKE_CURRENT_SOURCE_DIR}/sanitizer_selftest/run_until_reported.sh
            $<TARGET_FILE:${name}> ${case})
        set_tests_properties(${name}.${case} PROPERTIES PASS_REGULAR_EXPRESSION "${report}")
    endforeach()
endfunction()

if(GPUREPLAY_SANITIZE MATCHES "address")
    add_selftest(selftest_bounds bounds.c "AddressSanitizer: (use-after-poison|heap-buffer-overflow)" right_bounds
        past_array
        past_allocation)
endif()
set(race "ThreadSanitizer: data race")
if(GPUREPLAY_SANITIZE MATCHES "thread")
    add_selftest(selftest_stream stream.c "${race}" right_order right_slowly no_written no_written_slowly
        no_written_at_last_slowly no_read no_read_slowly no_read_at_last_slowly)
endif()
if(GPUREPLAY_SANITIZE MATCHES "thread" AND GPUREPLAY_RACE_CHECK)
    add_selftest(selftest_block block.c "${race}" right_kernel right_refusal right_grid_sync right_grid_sync_refusal
        no_barrier
        one_slot_for_all_blocks no_grid_sync)
endif()
