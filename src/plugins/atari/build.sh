#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash src/plugins/atari/build.sh [FOLDER]
#
# Builds the Atari plug-in, FOLDER/atari.so (default build/atari), with the games' ROMs in FOLDER/roms. It downloads
# ale-py's source package from PyPI, which has ALE's sources and the ROMs, once, and compiles ALE: about a minute.
#   --help  this text
# It needs CMake, a C++17 compiler, zlib (Debian: apt install zlib1g-dev), and a Python 3.10 or later with pip; PYTHON
# names it, if not python3.
# ALE is under the GPL, version 2, and so is atari.so as a whole. docs/atari.md tells more.
# Exit status: 2 when the build fails, 3 when something that it needs is missing or cannot be downloaded.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../../../tests/shell.sh
. "$(dirname "$0")/../../../tests/shell.sh"

ale=ale_py-0.12.1
folder=build/atari
case ${1:-} in
-h | --help) usage && exit ;;
-*) refuse_unknown "$1" ;;
?*) folder=$(from_here "$1") ;;
esac
[ $# -le 1 ] || refuse "$# folders are given; it must be one at most"

# Ends with a reason, and what to do about it.
lacks() {
    echo "$script: $1" >&2
    exit 3
}

# Runs pip, whose output is shown only when it fails.
pip() {
    "$python" -m pip --disable-pip-version-check --quiet "$@" >"$folder/pip.log" 2>&1 && return
    cat "$folder/pip.log" >&2
    lacks "pip could not download ale-py (see above): is there a network?"
}

# The package's own way of building would want JAX only to tell its version: with the builder here it does not.
download() {
    python=${PYTHON:-python3}
    "$python" -m pip --version >/dev/null 2>&1 || lacks "no $python with pip (Debian: apt install python3-pip)"
    pip install --retries 1 --target "$folder/tools" scikit-build-core
    PYTHONPATH=$folder/tools pip download --retries 1 --no-deps --no-build-isolation --no-binary ale-py \
        --dest "$folder/tools" "${ale/ale_py-/ale-py==}"
    tar -xzf "$folder/tools/$ale.tar.gz" -C "$folder/tools"
    mv "$folder/tools/$ale" "$folder/"
    rm -r "$folder/tools" "$folder/pip.log"
}

have cmake || lacks "no cmake (Debian: apt install cmake)"
have "${CXX:-c++}" || lacks "no C++ compiler (Debian: apt install g++)"
echo '#include <zlib.h>' | "${CXX:-c++}" -E -x c++ - >/dev/null 2>&1 || lacks "no zlib (Debian: apt install zlib1g-dev)"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
[ -d "$folder/$ale" ] || download

choose_generator "$folder/build"
mkdir -p "$folder/build"
if ! {
    cmake -S src/plugins/atari -B "$folder/build" "${generator[@]}" -DALE_SOURCES="$folder/$ale" &&
        cmake --build "$folder/build" --parallel "$(nproc)" --target atari
} >"$folder/build/log" 2>&1; then
    grep -E -A 8 "error|FAILED|undefined reference" "$folder/build/log" | head -n 40 >&2
    echo "$script: the build failed; the whole of it is in $folder/build/log" >&2
    exit 2
fi
mkdir -p "$folder/roms"
cp "$folder/$ale"/src/ale/python/roms/*.bin "$folder/roms/"
cp "$folder/$ale/LICENSE.md" "$folder/"
cp "$folder/build/atari.so" "$folder/atari.so"
echo "built $folder/atari.so: use it as the environment \"$folder/atari.so:Pong\", for example (docs/atari.md)"
