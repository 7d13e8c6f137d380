# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# What tests/run.sh, which has sourced shell.sh, installs: Debian packages (as root; else it names them), and Python
# packages in build/venv.

# "package:proof", where a proof is a command or a file that the package brings.
needed_packages=(gcc:gcc cmake:cmake ninja-build:/ninja-or-make)
useful_packages=(g++:g++ clang:clang libomp-dev:/clang-openmp pkg-config:pkg-config python3:python3
    python3-venv:/python3-venv libopenblas-openmp-dev:/openblas librandom123-dev:/usr/include/Random123/philox.h
    shellcheck:shellcheck binutils:readelf doxygen:doxygen)

is_here() {
    case $1 in
    /ninja-or-make) have ninja || have make ;;
    /clang-openmp)
        clang -fopenmp -x c -o /dev/null - <<<'int omp_get_level(void); int main(void) { return omp_get_level(); }' \
            2>/dev/null
        ;;
    /python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    /openblas) [ -n "$(find /usr/include /usr/local/include -name openblas_config.h -print -quit 2>/dev/null)" ] ;;
    /*) [ -e "$1" ] ;;
    *) have "$1" ;;
    esac
}

# missing LIST...: the packages whose proof is not here
missing() {
    local entry
    for entry in "$@"; do
        is_here "${entry#*:}" || echo "${entry%%:*}"
    done
}

install_packages() {
    local packages
    packages=$(missing "${needed_packages[@]}" "${useful_packages[@]}" | tr '\n' ' ')
    [ -n "${packages// /}" ] || return 0
    echo "== missing packages: $packages"
    if [ "$(id -u)" = 0 ] && have apt-get; then
        # shellcheck disable=SC2086 # packages are words
        { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install $packages; } \
            >build/tests/packages.log 2>&1 || echo "   apt-get failed: see build/tests/packages.log"
    else
        echo "   to install them: sudo apt install $packages"
    fi
    packages=$(missing "${needed_packages[@]}" | tr '\n' ' ')
    [ -z "${packages// /}" ] || { echo "   cannot go on without $packages" && exit 1; }
}

# make_venv DIR: a virtual environment with what the Python tests run in and compare against. JAX (130 MB) and PyTorch
# are left out: tests that want them say so and are skipped.
make_venv() {
    [ -x "$1/bin/python" ] && "$1/bin/python" -c 'import gymnasium, hypothesis, numpy, pytest' 2>/dev/null && return
    is_here /python3-venv && python3 -m venv "$1" >build/tests/venv.log 2>&1 &&
        "$1/bin/pip" install --quiet gymnasium hypothesis numpy pytest >>build/tests/venv.log 2>&1
}
