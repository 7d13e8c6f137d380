# SPDX-License-Identifier: MIT
# gpureplay-train, which is installed with the library, and finds it from there.
add_executable(gpureplay-train src/program/main.c src/program/play.c src/program/seeds.c src/program/system.c)
target_include_directories(gpureplay-train PRIVATE src)
target_link_libraries(gpureplay-train PRIVATE gpureplay::gpureplay gpureplay_options Threads::Threads m)
set_target_properties(gpureplay-train PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
if(GPUREPLAY_INSTALL)
    file(RELATIVE_PATH library_folder /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
    set_target_properties(gpureplay-train PROPERTIES INSTALL_RPATH "$ORIGIN/${library_folder}")
    install(TARGETS gpureplay-train RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/.git/logs/HEAD) # the commit, for a run's config.json
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/.git/logs/HEAD)
    execute_process(COMMAND git rev-parse HEAD WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
        OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    set_source_files_properties(src/train/config_document.c PROPERTIES
        COMPILE_DEFINITIONS "GPUREPLAY_COMMIT=\"${commit}\"")
endif()
