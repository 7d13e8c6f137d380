#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: test_linkage.sh libgpureplay.so [libgpureplay_cudamath.so.VERSION] [libgpureplay_cudadnn.so.VERSION]
# The core must load on a machine without CUDA; only the modules may need a CUDA library, and each only its own. Their
# names end as the core's own name does, so that those of another version can lie beside them.
set -euo pipefail

needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
searched() { readelf -d "$1" | sed -n 's/.*(\(RPATH\|RUNPATH\)).*/\1/p'; }
fail() {
    echo "test_linkage: $*" >&2
    exit 1
}

core=$1
shift
[ -n "$(needed "$core")" ] || fail "$core: readelf shows nothing that it needs, not even libc"
if bad=$(needed "$core" | grep -E '^lib(cuda|cudart|cublas|cublasLt|cudnn|curand|nvrtc|nccl|stdc\+\+)\.'); then
    fail "$core needs $bad"
fi
version=$(readelf -d "$core" | sed -n 's/.*(SONAME).*\[libgpureplay\.so\.\(.*\)\]/\1/p')
for module in "$@"; do
    case $module in
    *_cudamath.so."$version") library=libcublasLt ;;
    *_cudadnn.so."$version") library=libcudnn ;;
    *) fail "$module is no module of version \"$version\" that this test knows" ;;
    esac
    needed "$module" | grep -q "^$library\." || fail "$module does not need $library; wanted that"
    if bad=$(needed "$module" | grep -vE "^($library|libc|libm|ld-linux.*|libgcc_s)\."); then
        fail "$module needs $bad; wanted $library and the C library alone"
    fi
    [ -z "$(searched "$module")" ] || fail "$module has an $(searched "$module"); the core does the search"
done
