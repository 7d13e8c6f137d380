#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: run.sh find_package|pkg_config|add_subdirectory BUILD_DIR CC [CXX]
# Installs the build into an empty folder, moves it, and builds and runs the consumer against it, shared and static.
set -euo pipefail

way=$1 build=$(realpath "$2") cc=$3 cxx=${4:-}
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

install_moved() {
    cmake --install "$build" --prefix "$work/elsewhere" >"$work/install.log"
    mv "$work/elsewhere" "$work/prefix"
}

# cmake_consumer LANGUAGE [cache entries]
cmake_consumer() {
    local language=$1 compiler=$cc
    shift
    [ "$language" = CXX ] && compiler=$cxx
    cmake -S "$here" -B "$work/$language" -DCONSUMER_LANGUAGE="$language" \
        -DCMAKE_"$language"_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release "$@"
    cmake --build "$work/$language" --parallel 2 --target with_gpureplay with_gpureplay_static
    (cd "$work/$language" && ctest --output-on-failure)
}

# compile_consumer COMPILER SOURCE: the pkg-config way
compile_consumer() {
    local flags libs
    flags=$(pkg-config --cflags gpureplay)
    libs=$(pkg-config --libs gpureplay)
    # shellcheck disable=SC2086 # flags are words
    "$1" "$here/$2" $flags $libs -Wl,-rpath,"$(pkg-config --variable=libdir gpureplay)" -o "$work/shared"
    "$work/shared"
    libs=$(pkg-config --static --libs gpureplay)
    # shellcheck disable=SC2086
    "$1" "$here/$2" $flags ${libs/-lgpureplay/-l:libgpureplay.a} -o "$work/static"
    "$work/static"
    if readelf -d "$work/static" | grep -q libgpureplay; then
        echo "the static consumer needs the shared library" >&2
        return 1
    fi
}

case $way in
find_package)
    install_moved
    cmake_consumer C -DCMAKE_PREFIX_PATH="$work/prefix"
    [ -z "$cxx" ] || cmake_consumer CXX -DCMAKE_PREFIX_PATH="$work/prefix"
    ;;
pkg_config)
    command -v pkg-config >/dev/null || { echo "skipped: no pkg-config" && exit 77; }
    install_moved
    PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name gpureplay.pc)")
    export PKG_CONFIG_PATH
    compile_consumer "$cc" consumer.c
    [ -z "$cxx" ] || compile_consumer "$cxx" consumer.cc
    ;;
add_subdirectory)
    # In C++ where that can be: a project in another language than the library's own.
    language=C
    [ -z "$cxx" ] || language=CXX
    cmake_consumer $language -DGPUREPLAY_SOURCE="$here/../.." -DCMAKE_C_COMPILER="$cc" -DGPUREPLAY_CUDA=OFF
    ;;
*)
    echo "unknown way: $way" >&2
    exit 2
    ;;
esac
