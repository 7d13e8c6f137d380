#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: run.sh find_package|pkg_config|add_subdirectory C|CXX BUILD_DIR CC COMPILER_OF_THE_LANGUAGE
# Installs the build into an empty folder, moves it, and builds and runs the consumer against it, shared and static.
set -euo pipefail

method=$1 language=$2 build=$(realpath "$3") cc=$4 compiler=$5
source=consumer.c
[ "$language" = C ] || source=consumer.cc
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

install_moved() {
    cmake --install "$build" --prefix "$work/elsewhere" >"$work/install.log"
    mv "$work/elsewhere" "$work/prefix"
    "$work/prefix/bin/gpureplay-train" --list >/dev/null
}

# cmake_consumer [cache entries]
cmake_consumer() {
    cmake -S "$here" -B "$work/build" -DCONSUMER_LANGUAGE="$language" \
        -DCMAKE_"$language"_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=None "$@"
    cmake --build "$work/build" --parallel 2 --target with_gpureplay with_gpureplay_static
    (cd "$work/build" && ctest --output-on-failure)
}

compile_consumer() {
    local flags libs
    flags=$(pkg-config --cflags gpureplay)
    libs=$(pkg-config --libs gpureplay)
    # shellcheck disable=SC2086 # flags are words
    "$compiler" "$here/$source" $flags $libs -Wl,-rpath,"$(pkg-config --variable=libdir gpureplay)" -o "$work/shared"
    "$work/shared"
    libs=$(pkg-config --static --libs gpureplay)
    # shellcheck disable=SC2086
    "$compiler" "$here/$source" $flags ${libs/-lgpureplay/-l:libgpureplay.a} -o "$work/static"
    "$work/static"
    if readelf -d "$work/static" | grep -q libgpureplay; then
        echo "the static consumer needs the shared library" >&2
        return 1
    fi
}

case $method in
find_package)
    install_moved
    cmake_consumer -DCMAKE_PREFIX_PATH="$work/prefix"
    ;;
pkg_config)
    command -v pkg-config >/dev/null || { echo "skipped: no pkg-config" && exit 77; }
    install_moved
    PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name gpureplay.pc)")
    export PKG_CONFIG_PATH
    compile_consumer
    ;;
add_subdirectory)
    # Without what takes long to compile: CUDA, and the kernels for more than one instruction set.
    cmake_consumer -DGPUREPLAY_SOURCE="$here/../.." -DCMAKE_C_COMPILER="$cc" -DGPUREPLAY_CUDA=OFF \
        -DGPUREPLAY_HAS_X86_64_V4=OFF
    ;;
*)
    echo "unknown method: $method" >&2
    exit 2
    ;;
esac
