#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# All that needs a GPU, within ten minutes: build, tests on the GPU and on the CPU, compute-sanitizer, benchmarks.
# Needs bash, cmake, a C compiler, nvcc, and ninja or make; no package of Debian's, no Python.
#
#   bash tests/gpu.sh [--dry-run] [--built DIR] [OUT]
#     --dry-run    does what can be done without a GPU, and lists the rest
#     --built DIR  uses this build and makes none
#     OUT          report.txt, report.json, log.txt and bench/*.json go here (build/gpu-results)
#
# Every stage has its time limit, and a failing one does not stop the rest. Exits with 1 if any failed.
# GPUREPLAY_GPU_SECONDS: for everything (570). GPUREPLAY_GPU_DEVICE: cuda:0.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

dry="" built="" out=build/gpu-results
while [ $# -gt 0 ]; do
    case $1 in
    --dry-run) dry=yes ;;
    --built) built=${2:?--built needs a folder}; shift ;;
    -*) echo "tests/gpu.sh: not understood: $1" >&2; exit 2 ;;
    *) out=$1 ;;
    esac
    shift
done
device=${GPUREPLAY_GPU_DEVICE:-cuda:0} build=${built:-build/gpu}
sanitized="launch_shape stream cuda_streams cuda_recording cuda_gemm device_memory loss optimizer"
deadline=$((SECONDS + ${GPUREPLAY_GPU_SECONDS:-570}))
mkdir -p "$out/bench" || exit 2
report=$out/report.txt log=$out/log.txt stages=() failed=0
: >"$report"
: >"$log"

say() { printf '%s\n' "$*" | tee -a "$report"; }
quoted() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g')"; }
asked() { nvidia-smi --id="${device#cuda:}" --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1; } # or ""

# outcome NAME OUTCOME SECONDS: one line of the report, one entry of the JSON.
outcome() {
    say "$(printf '%-28s %-8s %4d s' "$1" "$2" "$3")"
    stages+=("{\"name\": $(quoted "$1"), \"outcome\": $(quoted "$2"), \"seconds\": $3}")
    case $2 in failed | timeout | late) failed=$((failed + 1)) ;; esac
}

# stage NAME LIMIT COMMAND...: its output goes to the log; when it fails, the end of it goes to the report too.
stage() {
    local name=$1 limit=$2 left=$((deadline - SECONDS)) began=$SECONDS result=passed status=0 output
    shift 2
    if [ "$left" -lt 1 ]; then
        outcome "$name" late 0
        return 1
    fi
    [ "$limit" -gt "$left" ] && limit=$left
    output=$(mktemp)
    timeout --kill-after=10 "$limit" "$@" >"$output" 2>&1 </dev/null || status=$?
    case $status in 0) ;; 124 | 137) result=timeout ;; *) result=failed ;; esac
    { printf '\n== %s: %s\n' "$name" "$*"; cat "$output"; } >>"$log"
    outcome "$name" "$result" $((SECONDS - began))
    if grep -q 'tests failed out of' "$output"; then
        say "    $(grep 'tests failed out of' "$output"), $(grep -c '\*\*\*Skipped' "$output") of them skipped"
    fi
    if [ "$result" != passed ]; then
        echo "    status $status; the last lines:" | tee -a "$report"
        tail -n 15 "$output" | sed 's/^/    | /' | tee -a "$report"
    fi
    rm -f "$output"
    [ "$result" = passed ]
}

# gpu_stage: a stage, or in a dry run its command.
gpu_stage() {
    if [ -n "$dry" ]; then
        say "$(printf '%-28s would run (%d s): %s' "$1" "$2" "${*:3}")"
    else
        stage "$@"
    fi
}

configure_and_build() {
    local generator=() architecture
    command -v ninja >/dev/null && generator=(-G Ninja)
    architecture=$(asked compute_cap | tr -d .)
    stage configure 60 cmake -S . -B "$build" ${generator[@]+"${generator[@]}"} -DCMAKE_BUILD_TYPE=Release \
        -DGPUREPLAY_CUDA=ON -DGPUREPLAY_CUDA_ARCHITECTURES="${architecture:-90}-real" &&
        stage build 240 cmake --build "$build" --parallel "$(nproc)"
}

find_sanitizer() {
    local root
    command -v compute-sanitizer && return
    root=$(sed -n 's/^GPUREPLAY_NVCC:[A-Z]*=//p' "$build/CMakeCache.txt")
    root=$(dirname "$(dirname "$(readlink -f "$root")")")
    for folder in bin compute-sanitizer extras/compute-sanitizer; do
        [ -x "$root/$folder/compute-sanitizer" ] && echo "$root/$folder/compute-sanitizer" && return
    done
    return 1
}

# The small programs under each tool: memcheck sees stray addresses, racecheck races in shared memory, synccheck
# barriers that not all threads reach, initcheck memory never written. Errors of CUDA calls are the tests' own subject.
sanitize() {
    local checker tool name program
    if ! checker=$(find_sanitizer); then
        [ -n "$dry" ] || { outcome compute-sanitizer missing 0; return; }
        checker=compute-sanitizer
    fi
    for tool in memcheck racecheck synccheck initcheck; do
        for name in $sanitized; do
            program=$build/tests/test_$name
            [ -x "$program" ] || continue
            gpu_stage "$tool $name" 40 "$checker" --tool "$tool" --error-exitcode 9 --report-api-errors no \
                "$program" "$device"
        done
    done
}

# Whatever compares CPU and GPU bit by bit, and every benchmark. They take the device they are to use.
cross_checks_and_benches() {
    local program name
    for program in "$build"/tests/test_cross*; do
        if [ -f "$program" ] && [ -x "$program" ]; then
            gpu_stage "$(basename "$program")" 60 "$program" "$device"
        fi
    done
    for program in "$build"/bench/bench_*; do
        name=$(basename "$program")
        if [ -f "$program" ] && [ -x "$program" ]; then
            gpu_stage "$name" 60 "$program" --device "$device" --quick --json "$out/bench/$name.json"
        fi
    done
}

write_json() {
    local separator=""
    {
        printf '{\n  "gpu": %s,\n  "driver": %s,\n' "$(quoted "$(asked name)")" "$(quoted "$(asked driver_version)")"
        printf '  "commit": %s,\n  "version": %s,\n' "$(quoted "$(git rev-parse HEAD 2>/dev/null)")" \
            "$(quoted "$(sed -n 's/^CMAKE_PROJECT_VERSION:[A-Z]*=//p' "$build/CMakeCache.txt" 2>/dev/null)")"
        printf '  "dry_run": %s,\n  "failed": %d,\n' "$([ -n "$dry" ] && echo true || echo false)" "$failed"
        printf '  "stages": ['
        for entry in ${stages[@]+"${stages[@]}"}; do
            printf '%s\n    %s' "$separator" "$entry"
            separator=,
        done
        printf '\n  ]\n}\n'
    } >"$out/report.json"
}
trap write_json EXIT

gpu=$(asked name)
say "GPU: ${gpu:-none that nvidia-smi shows}"
if [ -z "$built" ]; then
    configure_and_build || { say "no build, so nothing to run"; exit 1; }
fi
export GPUREPLAY_MODULE_DIR="$PWD/$build"
case $build in /*) GPUREPLAY_MODULE_DIR=$build ;; esac
GPUREPLAY_CUDA_LIBS=$(dirname "$(sed -n 's/^GPUREPLAY_CUBLASLT:[A-Z]*=//p' "$build/CMakeCache.txt")")
export GPUREPLAY_CUDA_LIBS

# Tests that find no GPU are skipped and count as passed, so the device itself comes first: 77 here is a failure.
gpu_stage "the device opens" 60 "$build/tests/test_cuda_open" "$device"
stage "ctest: build with CUDA" 60 ctest --test-dir "$build" -L '^cuda-build$' -E gpu_dry_run --output-on-failure
if [ -z "$built" ]; then
    stage "ctest: $device" 150 ctest --test-dir "$build" -L "^$device\$" --output-on-failure --timeout 60
    [ -n "$dry" ] || stage "ctest: cpu" 120 ctest --test-dir "$build" -L '^cpu$' -j "$(nproc)" --timeout 60 \
        --output-on-failure
fi
cross_checks_and_benches
sanitize
say "$failed of ${#stages[@]} stages failed; $SECONDS s in all; $report"
[ "$failed" -eq 0 ]
