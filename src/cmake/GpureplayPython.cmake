# SPDX-License-Identifier: MIT
# What `pip install .` puts beside the Python package's modules: the shared library under one plain name, and the module
# that it loads from its own folder.
option(GPUREPLAY_PYTHON "Make the rules that pip installs by" OFF)
gpureplay_check_switch(GPUREPLAY_PYTHON "ON or OFF")
if(NOT GPUREPLAY_PYTHON)
    return()
endif()
install(FILES $<TARGET_FILE:gpureplay> DESTINATION gpureplay RENAME libgpureplay.so COMPONENT python)
if(TARGET gpureplay_cudamath)
    install(FILES $<TARGET_FILE:gpureplay_cudamath> DESTINATION gpureplay COMPONENT python)
endif()
