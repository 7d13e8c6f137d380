# SPDX-License-Identifier: MIT
# Files that `pip install .` puts beside the Python package's modules: the shared library under one plain name, the
# CUDA modules that it loads from its own folder, and, if the headers of Python and NumPy are found, the extension
# module _fast. The tests of the package need _fast, too; in a build it is in the library's folder.
option(GPUREPLAY_PYTHON "Make the rules that pip installs by" OFF)
gpureplay_check_switch(GPUREPLAY_PYTHON "ON or OFF")
if(NOT GPUREPLAY_PYTHON AND NOT GPUREPLAY_TESTS)
    return()
endif()

# Builds _fast for the interpreter that runs the tests, if one is named. That interpreter cannot load a module that is
# built with a sanitizer.
if(Python3_EXECUTABLE AND NOT Python_EXECUTABLE)
    set(Python_EXECUTABLE ${Python3_EXECUTABLE})
endif()
if(NOT GPUREPLAY_SANITIZE)
    find_package(Python 3.9 QUIET COMPONENTS Interpreter Development.Module NumPy)
endif()
if(Python_Development.Module_FOUND AND Python_NumPy_FOUND)
    python_add_library(gpureplay_fast MODULE WITH_SOABI ${PROJECT_SOURCE_DIR}/src/python/fast.c)
    target_include_directories(gpureplay_fast PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(gpureplay_fast PRIVATE gpureplay_options Python::NumPy)
    set_target_properties(gpureplay_fast PROPERTIES OUTPUT_NAME _fast C_VISIBILITY_PRESET hidden
        LIBRARY_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:gpureplay>)
endif()

if(GPUREPLAY_PYTHON)
    install(FILES $<TARGET_FILE:gpureplay> DESTINATION gpureplay RENAME libgpureplay.so COMPONENT python)
    foreach(module IN LISTS gpureplay_modules)
        install(FILES $<TARGET_FILE:${module}> DESTINATION gpureplay COMPONENT python)
    endforeach()
    if(TARGET gpureplay_fast)
        install(TARGETS gpureplay_fast DESTINATION gpureplay COMPONENT python)
    endif()
endif()
