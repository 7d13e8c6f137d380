# SPDX-License-Identifier: MIT
# Do the checkers bite? Each mistake must be reported by ThreadSanitizer, and the same program without it must be clean.
function(add_teeth name file)
    add_executable(${name} ${CMAKE_CURRENT_SOURCE_DIR}/teeth/${file})
    target_link_libraries(${name} PRIVATE ${test_libraries})
    foreach(case IN LISTS ARGN)
        if(case MATCHES "^right_")
            register(${name}.${case} teeth ${name} ${case})
            continue()
        endif()
        register(${name}.${case} teeth bash ${CMAKE_CURRENT_SOURCE_DIR}/teeth/bite.sh $<TARGET_FILE:${name}> ${case})
        set_tests_properties(${name}.${case} PROPERTIES PASS_REGULAR_EXPRESSION "ThreadSanitizer: data race")
    endforeach()
endfunction()

add_teeth(teeth_stream stream.c right_order right_slowly no_written no_written_slowly no_written_at_last
    no_written_at_last_slowly no_read no_read_slowly no_read_at_last no_read_at_last_slowly)
if(GPUREPLAY_RACE_CHECK)
    add_teeth(teeth_block block.c right_kernel right_refusal right_meeting right_meeting_refusal no_barrier
        one_slot_for_all_blocks no_meeting)
endif()
