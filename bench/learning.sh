#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash bench/learning.sh [options]
#
# Does it learn, whatever the seed? Trains CartPole-v1 to its end on ten seeds; a line a seed, and JSON.
#   --seeds N      1 to N (10)
#   --device NAME  auto (default), cpu, cuda:0, ...
#   --seconds N    a seed that takes longer has not solved it (120)
#   --out DIR      the learning curves and learning.json (build/learning)
#   --program FILE a training program already built (build/quickstart/examples/cartpole_dqn)
#   --help         this text
# Exit status: 1 when fewer than nine in ten seeds solve, 2 when the build fails, 130 after Ctrl-C, when learning.json
# has the seeds before it.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../tests/shell.sh
. "$(dirname "$0")/../tests/shell.sh"

seeds=10 device=auto seconds=120 out=build/learning program=''
count="a whole number from 1 to 999999999"
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) usage; exit 0 ;;
    --seeds) wants "$count" "$a_count" "${@:1:2}"; seeds=$2 ;;
    --device) wants "auto, cpu or cuda:N" "$a_word" "${@:1:2}"; device=$2 ;;
    --seconds) wants "$count" "$a_count" "${@:1:2}"; seconds=$2 ;;
    --out) wants "a folder" "$a_word" "${@:1:2}"; out=$(from_here "$2") ;;
    --program) wants "a file" "$a_word" "${@:1:2}"; program=$(from_here "$2") ;;
    *) refuse_unknown "$1" ;;
    esac
    shift 2
done

# Trains one seed; appends "seed status steps seconds return" to results: the steps and seconds of the curve's last row,
# and its last evaluation.
train_seed() {
    local seed=$1 folder=$out/seed$1 status=0 steps took reached
    "$program" --seed "$seed" --device "$device" --seconds "$seconds" --out "$folder" >"$out/seed$seed.log" 2>&1 ||
        status=$?
    if [ "$status" -eq 130 ]; then
        echo "$script: interrupted in seed $seed; of those before:" >&2
        finish
        exit 130
    fi
    if [ "$status" -gt 1 ]; then
        cat "$out/seed$seed.log" >&2
        exit "$status"
    fi
    IFS=, read -r steps _ _ took _ < <(tail -n 1 "$folder/curve.csv")
    reached=$(awk -F, 'NR > 1 && $6 != "" { last = $6 } END { print last == "" ? "null" : last }' "$folder/curve.csv")
    printf '%s %s %s %s %s\n' "$seed" "$status" "$steps" "$took" "$reached" >>"$results"
    printf 'seed %-3s %-10s %7s steps %8.1f s\n' "$seed" "$([ "$status" = 0 ] && echo solved || echo 'not solved')" \
        "$steps" "$took"
}

# Median and worst of the seconds of the seeds that solved it.
summarise() {
    awk '$2 == 0 { print $4 }' "$results" | sort -n |
        awk -v seeds="$seeds" '{ t[NR] = $1 }
            END { if (NR == 0) { printf "0 of %d solved\n", seeds; exit }
                  median = NR % 2 ? t[(NR + 1) / 2] : (t[NR / 2] + t[NR / 2 + 1]) / 2
                  printf "%d of %d solved, median %.1f s, worst %.1f s\n", NR, seeds, median, t[NR] }'
}

write_json() {
    awk -v device="$device" -v limit="$seconds" '
        BEGIN { printf "{\"device\": \"%s\", \"limit_seconds\": %s, \"seeds\": [", device, limit }
        { printf "%s\n  {\"seed\": %s, \"solved\": %s", (NR > 1 ? "," : ""), $1, ($2 == 0 ? "true" : "false")
          printf ", \"steps\": %s, \"seconds\": %s, \"return\": %s}", $3, $4, $5 }
        END { print "\n]}" }' "$results" >"$out/learning.json"
}

finish() {
    summarise
    write_json
    echo "$out/learning.json"
}

if [ -z "$program" ]; then
    build build/quickstart cartpole_dqn
    program=build/quickstart/examples/cartpole_dqn
fi
mkdir -p "$out"
results=$out/learning.txt
: >"$results"
for seed in $(seq 1 "$seeds"); do train_seed "$seed"; done
finish
solved=$(awk '$2 == 0' "$results" | wc -l)
[ $((solved * 10)) -ge $((seeds * 9)) ]
