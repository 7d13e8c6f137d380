# SPDX-License-Identifier: MIT
# A toolchain file: builds for aarch64 Linux with Debian's cross compiler, on any machine, and runs what is built by
# qemu-user. tests/run.sh --only aarch64 makes build/aarch64, with libraries and Python for aarch64.
set(folder ${CMAKE_CURRENT_LIST_DIR}/../../build/aarch64)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_SYSROOT ${folder}/root)
set(CMAKE_FIND_ROOT_PATH ${folder}/root)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind IN ITEMS LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;${folder}/root)
set(Python3_EXECUTABLE ${folder}/python)
file(GLOB Python_INCLUDE_DIR ${folder}/root/usr/include/python3.[0-9]*)
set(Python_NumPy_INCLUDE_DIR ${folder}/site/numpy/_core/include)
