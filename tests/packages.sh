# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# What tests/run.sh, which has sourced shell.sh, installs: Debian packages (as root; else it names them), and Python
# packages in build/venv.

# "package:proof", where a proof is a command or a file that the package brings.
needed_packages=(gcc:gcc cmake:cmake ninja-build:/ninja-or-make)
useful_packages=(g++:g++ clang:clang pkg-config:pkg-config python3:python3
    python3-venv:/python3-venv libopenblas-openmp-dev:/openblas libdnnl-dev:/usr/include/oneapi/dnnl/dnnl.h
    libcjson-dev:/usr/include/cjson/cJSON.h libxxhash-dev:/usr/include/xxhash.h libzstd-dev:/usr/include/zstd.h
    zlib1g-dev:/usr/include/zlib.h shellcheck:shellcheck binutils:readelf)
lean_packages=(python3-matplotlib:/matplotlib) # without what they recommend: SciPy, Boost, headers

is_here() {
    case $1 in
    /ninja-or-make) have ninja || have make ;;
    /matplotlib) python_with_matplotlib >/dev/null ;;
    /libfuzzer)
        clang -fsanitize=fuzzer -x c -o /dev/null - 2>/dev/null \
            <<<'#include <stdint.h>
                int LLVMFuzzerTestOneInput(const uint8_t *d, __SIZE_TYPE__ n) { return (int)(n && d[0] > 255); }'
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

from_debian() { DEBIAN_FRONTEND=noninteractive apt-get -qq -y install "$@"; }

install_packages() {
    local packages lean
    packages=$(missing "${needed_packages[@]}" "${useful_packages[@]}" | tr '\n' ' ')
    lean=$(missing "${lean_packages[@]}" | tr '\n' ' ')
    [ -n "${packages// /}${lean// /}" ] || return 0
    echo "== missing packages: $packages$lean"
    if [ "$(id -u)" = 0 ] && have apt-get; then
        # shellcheck disable=SC2086 # packages are words
        { apt-get -qq update && from_debian $packages && from_debian --no-install-recommends $lean; } \
            >build/tests/packages.log 2>&1 || echo "   apt-get failed: see build/tests/packages.log"
    else
        echo "   to install them: sudo apt install $packages$lean"
    fi
    packages=$(missing "${needed_packages[@]}" | tr '\n' ' ')
    [ -z "${packages// /}" ] || { echo "   cannot go on without $packages" && exit 1; }
}

# make_aarch64 DIR: in DIR/root what Debian has for aarch64 of the optional packages and of Python, in DIR/site Python's
# packages, and DIR/python, which runs that Python by qemu, and is what that Python takes for itself.
make_aarch64() {
    local deb python
    [ ! -x "$1/python" ] || return 0
    (apt_for "$1" arm64 && apt-get -qq update && apt-get -qq -y --no-install-recommends --download-only install \
        libc6 libstdc++6 libopenblas-openmp-dev libcjson-dev libxxhash-dev libzstd-dev python3-dev) || return
    for deb in "$1/apt"/*.deb; do dpkg-deb -x "$deb" "$1/root" || return; done
    python=$(readlink "$1/root/usr/bin/python3")
    python3 -m pip install --quiet --target "$1/site" --python-version "${python#python}" --only-binary=:all: \
        --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 \
        gymnasium hypothesis numpy pytest safetensors || return
    cat >"$1/python.new" <<END
#!/bin/sh
exec qemu-aarch64-static -0 "$1/python" -L "$1/root" -E PYTHONHOME=/usr \\
    -E "PYTHONPATH=$1/site\${PYTHONPATH:+:\$PYTHONPATH}" "$1/root/usr/bin/$python" "\$@"
END
    chmod +x "$1/python.new" && mv "$1/python.new" "$1/python"
}

# make_macos DIR: DIR/cc, zig's clang for macOS on arm64, which links no bundles, and DIR/site with NumPy for it.
make_macos() {
    [ ! -x "$1/cc" ] || return 0
    python3 -m venv "$1/venv" && "$1/venv/bin/pip" install --quiet "ziglang>=0.17,<0.18" &&
        "$1/venv/bin/pip" install --quiet --no-deps --only-binary=:all: --platform macosx_14_0_arm64 \
            --target "$1/site" numpy || return
    cat >"$1/cc.new" <<END
#!/usr/bin/env bash
exec "$1"/venv/lib/python3*/site-packages/ziglang/zig cc -target aarch64-macos "\${@/#-bundle/-dynamiclib}"
END
    chmod +x "$1/cc.new" && mv "$1/cc.new" "$1/cc"
}

# make_venv DIR [yes]: a virtual environment with what the Python tests run in, and what they compare against where it
# can be had; "yes": with Ray, dm_control, Sphinx, Conan and the packages of data sets. PyTorch and Stable-Baselines3
# (PyPI's take 5 GB of disk, Debian 12's PyTorch no NumPy 2) are left out: tests that want them say so and are skipped.
make_venv() {
    local needed="import gymnasium, hypothesis, numpy, pytest, safetensors"
    local all="$needed, ale_py, jax, minatar, mypy, scikit_build_core, tensorboard"
    all+=${2:+, conan, dm_control, h5py, minari, myst_parser, PIL, pyarrow, ray, sphinx_rtd_theme}
    "$1/bin/python" -c "$all" 2>/dev/null && return
    if ! "$1/bin/python" -c "$needed" 2>/dev/null; then
        is_here /python3-venv && python3 -m venv "$1" >build/tests/venv.log 2>&1 &&
            "$1/bin/pip" install --quiet gymnasium hypothesis numpy pytest safetensors >>build/tests/venv.log 2>&1 ||
            return
    fi
    "$1/bin/pip" install --quiet ale-py jax mypy scikit-build-core tensorboard >>build/tests/venv.log 2>&1 ||
        echo "== no ale-py, JAX, mypy, scikit-build-core or TensorBoard (build/tests/venv.log): their tests are skipped"
    [ -z "${2:-}" ] || "$1/bin/pip" install --quiet dm_control "mujoco<4" ray >>build/tests/venv.log 2>&1 ||
        echo "== no dm_control or Ray (build/tests/venv.log): tests of the control suite or on a cluster are skipped"
    [ -z "${2:-}" ] || "$1/bin/pip" install --quiet h5py minari pillow pyarrow >>build/tests/venv.log 2>&1 ||
        echo "== no h5py, Minari or pyarrow (build/tests/venv.log): tests that read and write data sets are skipped"
    [ -z "${2:-}" ] || "$1/bin/pip" install --quiet sphinx myst-parser sphinx-rtd-theme >>build/tests/venv.log 2>&1 ||
        echo "== no Sphinx (build/tests/venv.log): the test of the reference is skipped"
    [ -z "${2:-}" ] || "$1/bin/pip" install --quiet conan >>build/tests/venv.log 2>&1 ||
        echo "== no Conan (build/tests/venv.log): the test of its recipe is skipped"
    # Without what it draws with: matplotlib, seaborn, pandas.
    "$1/bin/pip" install --quiet --no-deps minatar >>build/tests/venv.log 2>&1 ||
        echo "== no MinAtar (build/tests/venv.log): the test that plays against it is skipped"
}
