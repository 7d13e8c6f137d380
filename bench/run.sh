#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash bench/run.sh [--quick] [--device NAME] [--out DIR]
#
# Builds the benchmarks and runs them one after the other. Each prints its figures and writes JSON with every sample to
# --out. At the end come the tables of bench/results (bench/table.py) and pictures (bench/plot.py, matplotlib).
#   --quick        fewer cases and rounds
#   --device NAME  cpu (default), cuda:0, ...
#   --out DIR      where the JSON and the pictures go (build/bench/results)
#   --help         this text
# It compares with other replay libraries if build/peers is a virtual environment that has them (docs/performance.md).
# Exit status: 2 when the build fails; that of a benchmark when one fails; 130 after Ctrl-C, when the finished cases are
# in --out.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../tests/shell.sh
. "$(dirname "$0")/../tests/shell.sh"

quick=() device=cpu out=build/bench/results status=0 interrupted=''
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=(--quick) ;;
    --device) wants "cpu or cuda:N" "$a_word" "${@:1:2}"; device=$2; shift ;;
    --out) wants "a folder" "$a_word" "${@:1:2}"; out=$(from_here "$2"); shift ;;
    --help | -h) usage; exit 0 ;;
    *) refuse_unknown "$1" ;;
    esac
    shift
done

# measure NAME COMMAND...: a benchmark handles Ctrl-C itself, writes what it has and ends with 130; bash would go on.
measure() {
    local name=$1 ended=0
    shift
    echo
    "$@" --json "$out/$name.json" "${quick[@]}" || ended=$?
    if [ "$ended" -eq 130 ] || [ -n "$interrupted" ]; then
        echo "$script: interrupted; finished cases are in $out" >&2
        exit 130
    fi
    [ "$ended" -eq 0 ] || { status=$ended && echo "$script: $name failed with status $ended" >&2; }
}

build build/bench all -DGPUREPLAY_BENCH=ON
mkdir -p "$out"
trap 'interrupted=yes' INT TERM
for program in build/bench/bench/bench_*; do
    measure "$(basename "$program")" "$program" --device "$device"
done
python=build/peers/bin/python
if [ -x $python ]; then
    measure bench_peers $python bench/peers/peers.py --device "$device"
    measure bench_loops $python bench/peers/loops.py
    measure bench_peers_steps $python bench/peers/steps/steps.py --device "$device"
else
    echo "left out: other replay libraries, as there is no build/peers; docs/performance.md says how to make it"
fi
echo
python3 bench/table.py "$out" || status=$?
if python=$(python_with_matplotlib); then
    "$python" bench/plot.py "$out" || status=$?
fi
exit "$status"
