#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: run.sh find_package|pkg_config|fetch_content|debian|conda|conan BUILD_DIR CC [CXX]
# Installs the build into an empty folder, moves it, and builds and runs the consumer against it, shared and static, in
# C and where there is a compiler in C++. Or builds the library in the consumer's project; or makes Debian packages; or
# does what the recipes for conda and Conan say.
set -euo pipefail

method=$1 build=$(realpath "$2") cc=$3 cxx=${4:-}
here=$(realpath "$(dirname "$0")")
root=$here/../..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

install_moved() {
    cmake --install "$build" --prefix "$work/elsewhere" >"$work/install.log"
    mv "$work/elsewhere" "$work/prefix"
    "$work/prefix/bin/gpureplay-train" --list >/dev/null
}

# cmake_consumer LANGUAGE COMPILER [cache entries]
cmake_consumer() {
    local language=$1 compiler=$2
    shift 2
    cmake -S "$here" -B "$work/$language" -DCONSUMER_LANGUAGE="$language" \
        -DCMAKE_"$language"_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=None "$@"
    cmake --build "$work/$language" --parallel 2 --target with_gpureplay with_gpureplay_static
    (cd "$work/$language" && ctest --output-on-failure)
}

# compile_consumer SOURCE COMPILER
compile_consumer() {
    local flags libs
    flags=$(pkg-config --cflags gpureplay)
    libs=$(pkg-config --libs gpureplay)
    # shellcheck disable=SC2086 # flags are words
    "$2" "$here/$1" $flags $libs -Wl,-rpath,"$(pkg-config --variable=libdir gpureplay)" -o "$work/shared"
    "$work/shared"
    libs=$(pkg-config --static --libs gpureplay)
    # shellcheck disable=SC2086
    "$2" "$here/$1" $flags ${libs/-lgpureplay/-l:libgpureplay.a} -o "$work/static"
    "$work/static"
    if readelf -d "$work/static" | grep -q libgpureplay; then
        echo "the static consumer needs the shared library" >&2
        return 1
    fi
}

# has PACKAGE FIELD WORDS: a field of a package has these words
has() {
    dpkg-deb --field "$work"/packages/"$1"_*.deb "$2" | grep -F "$3" >/dev/null ||
        { echo "$1: $2 has no $3" >&2 && return 1; }
}

# lies_in PACKAGE PATTERN...: a package has such files, and no other package has
lies_in() {
    local package=$1 found pattern
    shift
    for pattern in "$@"; do
        found=$(cd "$work/packages" && grep -lE "^\./usr/$pattern\$" ./*.list)
        [ "$found" = "./$package.list" ] || { echo "usr/$pattern lies in: $found; wanted: $package" >&2 && return 1; }
    done
}

make_packages() {
    local name version
    cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work/packages" >"$work/cpack.log" 2>&1 ||
        { cat "$work/cpack.log" && return 1; }
    cd "$work/packages"
    for name in *.deb; do
        dpkg-deb --fsys-tarfile "$name" | tar -t >"${name%%_*}.list"
        dpkg-deb --extract "$name" "$work/root"
    done
    name=$(echo libgpureplay[0-9]*.list) name=${name%.list} version=${name#libgpureplay}
    lies_in "$name" "lib/.*libgpureplay\.so\.$version" "share/doc/$name/copyright"
    # Its files can lie beside those of the package of another version.
    if grep -vE "/\$|/share/doc/$name/|\.so\.$version(\.[0-9]+)*\$" "$name.list"; then
        echo "$name: the files above would be in the package of another version, too" >&2 && return 1
    fi
    lies_in libgpureplay-dev 'include/gpureplay\.h' 'include/gpureplay/replay\.h' 'lib/.*libgpureplay\.(a|so)' \
        'lib/.*cmake/gpureplay/gpureplayConfig\.cmake' 'lib/.*pkgconfig/gpureplay\.pc'
    lies_in gpureplay bin/gpureplay-train
    has "$name" Depends "libc6 (>= "
    has libgpureplay-dev Depends "$name (= "
    has gpureplay Depends "$name (= "
    if readelf -d "$work/root/usr/bin/gpureplay-train" | grep -i runpath; then
        echo "gpureplay-train has a path to its library, which Debian's is without" >&2 && return 1
    fi
    name=$(find "$work/root" -name "libgpureplay.so.$version")
    LD_LIBRARY_PATH=$(dirname "$name") "$work/root/usr/bin/gpureplay-train" --list >/dev/null
}

# recipe_commands KEY: those of a list in conda's recipe, a line each
recipe_commands() {
    awk -v key="$1:" '$1 == key { on = 1; next } !NF { on = 0 }
        on { is_first = sub(/^ *- /, ""); sub(/^ */, ""); printf "%s%s", is_first ? "\n" : " ", $0 } END { print "" }' \
        "$root/src/cmake/conda/meta.yaml"
}

case $method in
find_package)
    install_moved
    cmake_consumer C "$cc" -DCMAKE_PREFIX_PATH="$work/prefix"
    [ -z "$cxx" ] || cmake_consumer CXX "$cxx" -DCMAKE_PREFIX_PATH="$work/prefix"
    ;;
pkg_config)
    command -v pkg-config >/dev/null || { echo "skipped: no pkg-config" && exit 77; }
    install_moved
    PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name gpureplay.pc)")
    export PKG_CONFIG_PATH
    compile_consumer consumer.c "$cc"
    [ -z "$cxx" ] || compile_consumer consumer.cc "$cxx"
    ;;
fetch_content)
    # Without what takes long to compile: CUDA, and the kernels for more than one instruction set. The project's
    # language is another one than the library's, where there is one.
    lean=(-DCMAKE_C_COMPILER="$cc" -DGPUREPLAY_CUDA=OFF -DGPUREPLAY_HAS_X86_64_V4=OFF)
    language=C
    [ -z "$cxx" ] || language=CXX
    cmake -S "$here" -B "$work/added" -DCONSUMER_LANGUAGE=C -DGPUREPLAY_SOURCE="$root" "${lean[@]}" \
        -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
    # The project names no build type; the library is optimized all the same.
    grep -E '"command": .* -O3 .*/base/status\.c' "$work/added/compile_commands.json" >/dev/null ||
        { echo "the library is compiled without -O3 in a project without a build type" >&2 && exit 1; }
    tar -czf "$work/libgpureplay.tar.gz" -C "$root" CMakeLists.txt LICENSE include kernels src
    cmake_consumer $language "${cxx:-$cc}" -DGPUREPLAY_ARCHIVE="$work/libgpureplay.tar.gz" "${lean[@]}"
    ;;
debian)
    command -v dpkg-shlibdeps >/dev/null || { echo "skipped: no dpkg-shlibdeps (Debian: dpkg-dev)" && exit 77; }
    make_packages
    ;;
conda)
    # conda itself brings a compiler and packages from a network; here are those of this machine.
    for tool in ninja pkg-config; do
        command -v $tool >/dev/null || { echo "skipped: no $tool" && exit 77; }
    done
    mkdir "$work/source" "$work/prefix"
    cp -r "$root"/{CMakeLists.txt,LICENSE,include,kernels,src,examples} "$work/source"
    cd "$work/source"
    export PREFIX=$work/prefix CPU_COUNT=2 PATH=$work/prefix/bin:$PATH PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
    export CMAKE_ARGS="-DCMAKE_C_COMPILER=$cc -DCMAKE_INSTALL_LIBDIR=lib -DGPUREPLAY_HAS_X86_64_V4=OFF"
    recipe_commands script >"$work/build.sh"
    recipe_commands commands >"$work/test.sh"
    [ "$(grep -c . "$work/build.sh")" = 3 ] && [ "$(grep -c . "$work/test.sh")" = 3 ]
    bash -ex "$work/build.sh"
    bash -ex "$work/test.sh"
    ;;
conan)
    command -v conan >/dev/null || { echo "skipped: no conan (pip install conan)" && exit 77; }
    export CONAN_HOME=$work/conan CC=$cc
    conan profile detect
    # Without the packages that it would download.
    conan create "$root/src/cmake/conan" -o "&:with_openblas=False" -o "&:with_zstd=False" -o "&:with_files=False" \
        -c "tools.cmake.cmaketoolchain:extra_variables={'GPUREPLAY_HAS_X86_64_V4': 'OFF'}"
    package=$(dirname "$(find "$work/conan/p" -path "*/p/lib/cmake/gpureplay/gpureplayConfig.cmake")")
    cmake_consumer C "$cc" -Dgpureplay_DIR="$package"
    ;;
*)
    echo "unknown method: $method" >&2
    exit 2
    ;;
esac
