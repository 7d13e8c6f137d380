#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash bench/run.sh [--quick] [--device NAME] [--out DIR]
#
# Builds the benchmarks and runs them one after the other: a table in the terminal; in --out JSON with every sample, and
# pictures where matplotlib is there.
#   --quick        under a minute after the build
#   --device NAME  cpu (default), cuda:0, ...
#   --out DIR      where the JSON goes (build/bench/results)
#   --help         this text
# Exit status: 2 when the build fails; that of a benchmark when one fails.
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

build build/bench all -DGPUREPLAY_EXAMPLES=OFF
mkdir -p "$out"
status=0
for program in build/bench/bench/bench_*; do
    if [ ! -f "$program" ] || [ ! -x "$program" ]; then continue; fi
    name=$(basename "$program")
    echo
    "$program" --device "$device" --json "$out/$name.json" "${quick[@]}" || status=$?
done

# 77: no matplotlib, which it says itself.
draw() {
    local drawn=0
    python3 bench/plot.py "$out" || drawn=$?
    if [ "$drawn" -ne 0 ] && [ "$drawn" -ne 77 ]; then status=$drawn; fi
}
echo
if ! compgen -G "$out/*.json" >/dev/null; then
    echo "no pictures: there are no results in $out"
elif ! have python3; then
    echo "no pictures: bench/plot.py needs python3 and matplotlib (Debian: apt install python3-matplotlib)"
else
    draw
fi
echo "Samples: $out"
exit "$status"
