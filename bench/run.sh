#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash bench/run.sh [--quick] [--device NAME] [--out DIR]
#
# Builds the benchmarks and runs them one after the other: a table in the terminal; in --out JSON with every sample, and
# pictures where matplotlib is there.
#   --quick        under a minute after the build, five more with other libraries; also beside other work
#   --device NAME  cpu (default), cuda:0, ...
#   --out DIR      where the JSON and the pictures go (build/bench/results)
#   --help         this text
# Other replay libraries are compared with where they are: bash bench/peers/setup.sh makes an environment with them, and
# with this repository as it is then, in build/peers (Python 3.11, gigabytes). Train steps are compared with where there
# is a Python with PyTorch, there or elsewhere.
# Exit status: 2 when the build fails; that of a benchmark when one fails; 130 after Ctrl-C, when what was measured
# until then is in --out.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../tests/shell.sh
. "$(dirname "$0")/../tests/shell.sh"

quick=() device=cpu out=build/bench/results
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

status=0 left_out=()
build build/bench all -DGPUREPLAY_BENCH=ON -DGPUREPLAY_EXAMPLES=OFF
mkdir -p "$out"

# measure NAME COMMAND...: a benchmark hears Ctrl-C itself, writes what it has and ends with 130; bash would go on.
measure() {
    local name=$1 ended=0
    shift
    echo
    "$@" --device "$device" --json "$out/$name.json" "${quick[@]}" || ended=$?
    if [ "$ended" -eq 130 ] || [ -n "$interrupted" ]; then
        echo "$script: interrupted; samples until then: $out" >&2
        exit 130
    fi
    [ "$ended" -eq 0 ] || { status=$ended && echo "$script: $name failed with status $ended" >&2; }
}

measure_ours() {
    if [ -x "build/bench/bench/$1" ]; then
        measure "$1" "build/bench/bench/$1"
    else
        left_out+=("$1")
    fi
}

python_with_torch() {
    local python
    for python in build/peers/bin/python python3; do
        if have "$python" && "$python" -c 'import numpy, torch' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    return 1
}

# A Python that was not made by setup.sh has no package of ours: it takes that of this folder, and this build.
measure_peers() {
    local python
    if [ -x build/peers/bin/python ]; then
        measure bench_peers build/peers/bin/python bench/peers/peers.py
    else
        echo "left out: other replay libraries are not here: bash bench/peers/setup.sh makes build/peers with them"
    fi
    if python=$(python_with_torch); then
        measure bench_peers_steps env PYTHONPATH=src/python GPUREPLAY_LIBRARY=build/bench/libgpureplay.so \
            "$python" bench/peers/steps/steps.py
    else
        echo "left out: train steps beside others: no Python here has PyTorch"
    fi
}

draw() {
    local python
    if ! python=$(python_with_matplotlib); then
        echo "no pictures: matplotlib is not here (pip install matplotlib, or Debian: apt install python3-matplotlib)"
    elif ! compgen -G "$out/*.json" >/dev/null; then
        echo "no pictures: there are no results in $out"
    else
        "$python" bench/plot.py "$out" || status=$?
    fi
}

interrupted=''
trap 'interrupted=yes' INT TERM
for source in bench/bench_*.c; do measure_ours "$(basename "$source" .c)"; done
echo
measure_peers
for name in ${left_out[@]+"${left_out[@]}"}; do
    echo "left out: $name was not built: $(grep -m 1 "$name" build/bench/log || echo "see build/bench/log")"
done
draw
echo "Samples: $out"
exit "$status"
