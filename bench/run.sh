#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the benchmarks and runs them one after the other: a table in the terminal, JSON with every sample in --out.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<TEXT
usage: bash bench/run.sh [--quick] [--device NAME] [--out DIR]
  --quick        under a minute after the build
  --device NAME  cpu (default), cuda:0, ...
  --out DIR      where the JSON goes (build/bench/results)
TEXT
}

quick=() device=cpu out=build/bench/results
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=(--quick) ;;
    --device) device=${2:?--device needs a name}; shift ;;
    --out) out=${2:?--out needs a folder}; shift ;;
    --help) usage; exit 0 ;;
    *) echo "bench/run.sh: not understood: $1" >&2; usage >&2; exit 2 ;;
    esac
    shift
done

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S . -B build/bench "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DGPUREPLAY_TESTS=OFF -DGPUREPLAY_EXAMPLES=OFF \
    >/dev/null
cmake --build build/bench --parallel "$(nproc)" | tail -n 1
mkdir -p "$out"
status=0
for program in build/bench/bench/bench_*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    name=$(basename "$program")
    echo
    "$program" --device "$device" --json "$out/$name.json" ${quick[@]+"${quick[@]}"} || status=$?
done
echo
echo "Samples: $out"
exit "$status"
