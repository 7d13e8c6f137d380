# SPDX-License-Identifier: MIT
# Self-tests of the sanitizers: each deliberate mistake must be reported, and the same program without it must be clean.
# add_teeth(NAME FILE REPORT CASE...)
function(add_teeth name file report)
    add_executable(${name} ${CMAKE_CURRENT_SOURCE_DIR}/teeth/${file})
    target_link_libraries(${name} PRIVATE ${test_libraries})
    foreach(case IN LISTS ARGN)
        if(case MATCHES "^right_")
            register(${name}.${case} teeth ${name} ${case})
            continue()
        endif()
        register(${name}.${case} teeth bash ${CMAKE_CURRENT_SOURCE_DIR}/teeth/bite.sh $<TARGET_FILE:${name}> ${case})
        set_tests_properties(${name}.${case} PROPERTIES PASS_REGULAR_EXPRESSION "${report}")
    endforeach()
endfunction()

if(GPUREPLAY_SANITIZE MATCHES "address")
    add_teeth(teeth_bounds bounds.c "AddressSanitizer: (use-after-poison|heap-buffer-overflow)" right_bounds past_array
        past_allocation)
endif()
set(race "ThreadSanitizer: data race")
if(GPUREPLAY_SANITIZE MATCHES "thread")
    add_teeth(teeth_stream stream.c "${race}" right_order right_slowly no_written no_written_slowly no_written_at_last
        no_written_at_last_slowly no_read no_read_slowly no_read_at_last no_read_at_last_slowly)
endif()
if(GPUREPLAY_SANITIZE MATCHES "thread" AND GPUREPLAY_RACE_CHECK)
    add_teeth(teeth_block block.c "${race}" right_kernel right_refusal right_meeting right_meeting_refusal no_barrier
        one_slot_for_all_blocks no_meeting)
endif()
