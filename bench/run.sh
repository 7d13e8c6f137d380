#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash bench/run.sh [--quick] [--device NAME] [--out DIR]
#
# Builds the benchmarks and runs them one after the other: a table in the terminal; in --out JSON with every sample, and
# pictures where matplotlib is there.
#   --quick        under a minute after the build, also beside other work: OpenMP's threads sleep where they would spin
#   --device NAME  cpu (default), cuda:0, ...
#   --out DIR      where the JSON and the pictures go (build/bench/results)
#   --help         this text
# Other replay buffers in the same run as ours are a matter of their own: bash bench/peers/setup.sh makes an environment
# with them in build/peers (Python 3.11, gigabytes), and build/peers/bin/python bench/peers/peers.py compares.
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

# A thread that spins takes the core from the one that it waits for where others want the cores, too: minutes, not one.
if [ ${#quick[@]} -gt 0 ]; then export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}; fi

status=0 left_out=()
build build/bench all -DGPUREPLAY_EXAMPLES=OFF
mkdir -p "$out"

# A benchmark hears Ctrl-C itself, writes what it has and ends with 130; bash would go on to the next.
measure() {
    local program=build/bench/bench/$1 ended=0
    if [ ! -x "$program" ]; then
        left_out+=("$1")
        return
    fi
    echo
    "$program" --device "$device" --json "$out/$1.json" "${quick[@]}" || ended=$?
    if [ "$ended" -eq 130 ] || [ -n "$interrupted" ]; then
        echo "$script: interrupted; samples until then: $out" >&2
        exit 130
    fi
    [ "$ended" -eq 0 ] || { status=$ended && echo "$script: $1 failed with status $ended" >&2; }
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
for source in bench/bench_*.c; do measure "$(basename "$source" .c)"; done
echo
for name in ${left_out[@]+"${left_out[@]}"}; do
    echo "left out: $name was not built: $(grep -m 1 "$name" build/bench/log || echo "see build/bench/log")"
done
draw
echo "Samples: $out"
exit "$status"
