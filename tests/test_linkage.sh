#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: test_linkage.sh libgpureplay.so [libgpureplay_cudamath.so]
# The core must load on a machine without CUDA; only the module may need a CUDA library, and only cuBLASLt.
set -euo pipefail

needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
searched() { readelf -d "$1" | sed -n 's/.*(\(RPATH\|RUNPATH\)).*/\1/p'; }
fail() {
    echo "test_linkage: $*" >&2
    exit 1
}

core=$1 module=${2:-}
[ -n "$(needed "$core")" ] || fail "$core: readelf shows nothing that it needs, not even libc"
if bad=$(needed "$core" | grep -E '^lib(cuda|cudart|cublas|cublasLt|cudnn|curand|nvrtc|nccl|stdc\+\+)\.'); then
    fail "$core needs $bad"
fi
[ -z "$module" ] && exit 0
needed "$module" | grep -q '^libcublasLt\.' || fail "$module does not need cuBLASLt; wanted that"
if bad=$(needed "$module" | grep -vE '^(libcublasLt|libc|libm|ld-linux.*|libgcc_s)\.'); then
    fail "$module needs $bad; wanted cuBLASLt and the C library alone"
fi
[ -z "$(searched "$module")" ] || fail "$module has an $(searched "$module"); the core does the search"
