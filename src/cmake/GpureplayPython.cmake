# SPDX-License-Identifier: MIT
# Files that `pip install .` puts beside the Python package's modules: the shared library under one plain name, the
# CUDA modules that it loads from its own folder, if the headers of Python and NumPy are found the extension module
# _fast, and if JAX's are found the library behind gpureplay.jax. The tests of the package need these two as well; in a
# build they are in the library's folder.
option(GPUREPLAY_PYTHON "Make the rules that pip installs by" OFF)
gpureplay_check_switch(GPUREPLAY_PYTHON "ON or OFF")
if(NOT GPUREPLAY_PYTHON AND NOT GPUREPLAY_TESTS)
    return()
endif()

# Builds _fast for the interpreter that runs the tests, if one is named, and by the stable ABI for all later ones; the
# stable ABI has what the module needs from Python 3.10 on. The interpreter cannot load a module that is built with a
# sanitizer. In one without the lock that threads share, the package does without the module.
if(Python3_EXECUTABLE AND NOT Python_EXECUTABLE)
    set(Python_EXECUTABLE ${Python3_EXECUTABLE})
endif()
if(NOT GPUREPLAY_SANITIZE)
    find_package(Python 3.9 QUIET COMPONENTS Interpreter Development.Module NumPy)
endif()
if(Python_NumPy_FOUND AND Python_NumPy_VERSION AND Python_NumPy_VERSION VERSION_LESS 2)
    message(STATUS "NumPy is ${Python_NumPy_VERSION}; the package's extension module is built with NumPy 2: left out")
elseif(Python_Development.Module_FOUND AND Python_NumPy_FOUND AND NOT Python_SOABI MATCHES "^cpython-[0-9]+t")
    python_add_library(gpureplay_fast MODULE WITH_SOABI ${PROJECT_SOURCE_DIR}/src/python/fast.c)
    if(NOT Python_VERSION VERSION_LESS 3.10)
        target_compile_definitions(gpureplay_fast PRIVATE Py_LIMITED_API=0x030A0000)
        set_target_properties(gpureplay_fast PROPERTIES SUFFIX .abi3.so)
    endif()
    # NumPy's headers come before Python's: Debian's python3-numpy puts older ones into Python's folder.
    target_include_directories(gpureplay_fast SYSTEM BEFORE PRIVATE ${Python_NumPy_INCLUDE_DIRS})
    target_include_directories(gpureplay_fast PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(gpureplay_fast PRIVATE gpureplay_options Python::NumPy)
    set_target_properties(gpureplay_fast PROPERTIES OUTPUT_NAME _fast C_VISIBILITY_PRESET hidden
        LIBRARY_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:gpureplay>)
endif()

# libgpureplay_jax.so is compiled with the header of the jaxlib that this interpreter has, and linked with nothing.
# While pip builds a package, it hides what is installed by these variables of the environment.
set(jaxlib_include "")
if(Python_Interpreter_FOUND)
    execute_process(OUTPUT_VARIABLE jaxlib_include ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE
        COMMAND ${CMAKE_COMMAND} -E env --unset=PYTHONPATH --unset=PYTHONNOUSERSITE ${Python_EXECUTABLE} -c
        "import importlib.util, pathlib; found = importlib.util.find_spec('jaxlib'); \
print(pathlib.Path(found.origin).parent / 'include' if found else '')")
endif()
set(jaxlib_header "${jaxlib_include}/xla/ffi/api/c_api.h")
set(jaxlib_metadata "")
if(jaxlib_include AND EXISTS ${jaxlib_header})
    file(STRINGS ${jaxlib_header} jaxlib_metadata REGEX "^struct XLA_FFI_Metadata_Extension" LIMIT_COUNT 1)
endif()
if(jaxlib_metadata)
    message(STATUS "jaxlib: ${jaxlib_include}")
    add_library(gpureplay_jax MODULE ${PROJECT_SOURCE_DIR}/src/python/jax.c)
    target_include_directories(gpureplay_jax PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_include_directories(gpureplay_jax SYSTEM PRIVATE ${jaxlib_include})
    target_link_libraries(gpureplay_jax PRIVATE gpureplay_options Threads::Threads)
    set_target_properties(gpureplay_jax PROPERTIES C_VISIBILITY_PRESET hidden
        LIBRARY_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:gpureplay>)
elseif(NOT GPUREPLAY_SANITIZE)
    message(STATUS "jaxlib 0.5 or later was not found: the Python package will have no gpureplay.jax. pip install jax")
endif()

if(GPUREPLAY_PYTHON)
    install(FILES $<TARGET_FILE:gpureplay> DESTINATION gpureplay RENAME libgpureplay.so COMPONENT python)
    foreach(module IN LISTS gpureplay_modules)
        install(FILES $<TARGET_FILE:${module}> DESTINATION gpureplay COMPONENT python)
    endforeach()
    foreach(target IN ITEMS gpureplay_fast gpureplay_jax)
        if(TARGET ${target})
            install(TARGETS ${target} DESTINATION gpureplay COMPONENT python)
        endif()
    endforeach()
endif()
