#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Does it learn, whatever the seed? Trains CartPole-v1 to its end on ten seeds; a line a seed, and JSON.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."

# A path as the caller meant it, seen from this folder.
from_here() {
    case $here:$1 in
    "$PWD":* | *:/*) echo "$1" ;;
    *) echo "$here/$1" ;;
    esac
}

usage() {
    cat <<'TEXT'
usage: bash bench/learning.sh [options]
  --seeds N      1 to N (10)
  --device NAME  auto (default), cpu, cuda:0, ...
  --seconds N    a seed that takes longer has not solved it (120)
  --out DIR      the learning curves and learning.json (build/learning)
  --program FILE a training program already built (build/quickstart/examples/cartpole_dqn)
Exit status 1 when fewer than nine in ten seeds solve.
TEXT
}

seeds=10 device=auto seconds=120 out=build/learning program=''
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) usage; exit 0 ;;
    --seeds) seeds=${2:?--seeds needs a number} ;;
    --device) device=${2:?--device needs a name} ;;
    --seconds) seconds=${2:?--seconds needs a number} ;;
    --out) out=$(from_here "${2:?--out needs a folder}") ;;
    --program) program=$(from_here "${2:?--program needs a file}") ;;
    *) echo "bench/learning.sh: not understood: $1" >&2; usage >&2; exit 2 ;;
    esac
    shift 2
done

for option in seeds seconds; do
    [[ ${!option} =~ ^[1-9][0-9]{0,8}$ ]] && continue
    echo "bench/learning.sh: --$option is \"${!option}\"; it must be a whole number from 1 on" >&2
    exit 2
done

build_program() {
    local build=build/quickstart generator=()
    if command -v ninja >/dev/null && [ ! -f "$build/CMakeCache.txt" ]; then generator=(-G Ninja); fi
    cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DGPUREPLAY_TESTS=OFF -DGPUREPLAY_BENCH=OFF \
        >/dev/null
    cmake --build "$build" --parallel "$(nproc)" --target cartpole_dqn >/dev/null
    program=$build/examples/cartpole_dqn
}

# Trains one seed; appends "seed status steps seconds return" to results: the steps and seconds of the curve's last row,
# and its last evaluation.
train_seed() {
    local seed=$1 folder=$out/seed$1 status=0 steps took reached
    "$program" --seed "$seed" --device "$device" --seconds "$seconds" --out "$folder" >"$out/seed$seed.log" 2>&1 ||
        status=$?
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
        { printf "%s\n  {\"seed\": %s, \"solved\": %s, \"steps\": %s, \"seconds\": %s, \"return\": %s}", (NR > 1 ? "," : ""),
                 $1, ($2 == 0 ? "true" : "false"), $3, $4, $5 }
        END { print "\n]}" }' "$results" >"$out/learning.json"
}

[ -n "$program" ] || build_program
mkdir -p "$out"
results=$out/learning.txt
: >"$results"
for seed in $(seq 1 "$seeds"); do train_seed "$seed"; done
summarise
write_json
echo "$out/learning.json"
solved=$(awk '$2 == 0' "$results" | wc -l)
[ $((solved * 10)) -ge $((seeds * 9)) ]
