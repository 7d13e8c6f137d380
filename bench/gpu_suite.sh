#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash bench/gpu_suite.sh [--dry-run] [--built DIR] [--out DIR]
#
# All that needs a GPU, within ten minutes: build, tests on the GPU and on the CPU, the GPU against the CPU number by
# number, benchmarks, an agent that learns, compute-sanitizer. Needs bash, cmake, a C compiler, nvcc, and ninja or make;
# whatever else is not there is left out with a sentence.
#   --dry-run    does what can be done without a GPU, and shows the rest
#   --built DIR  uses this build and makes none
#   --out DIR    report.txt, report.json, log.txt, the benchmarks' JSON and pictures (bench/results/NAME-OF-THE-GPU)
#   --help       this text
# Every stage has its time limit, and a failing one does not stop the rest. What replay on a GPU must show is a stage,
# too: a figure that falls short fails it. Exits with 1 if any failed, and with 130 if it was interrupted; what it has
# found until then is in the report.
# GPUREPLAY_GPU_SECONDS: for everything (570). GPUREPLAY_GPU_DEVICE: cuda:0. GPUREPLAY_COMMIT: where there is no git.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=../tests/shell.sh
. "$(dirname "$0")/../tests/shell.sh"

dry="" built="" out=""
while [ $# -gt 0 ]; do
    case $1 in
    --dry-run) dry=yes ;;
    --built) wants "a folder" "$a_word" "${@:1:2}"; built=$(from_here "$2"); shift ;;
    --out) wants "a folder" "$a_word" "${@:1:2}"; out=$(from_here "$2"); shift ;;
    --help | -h) usage; exit 0 ;;
    *) refuse_unknown "$1" ;;
    esac
    shift
done

# asked FIELD: what nvidia-smi says of the device, or nothing.
asked() { nvidia-smi --id="${device#cuda:}" --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1; }

device=${GPUREPLAY_GPU_DEVICE:-cuda:0} build=$(realpath -m "${built:-build/gpu}")
gpu=$(asked name) deadline=$((SECONDS + ${GPUREPLAY_GPU_SECONDS:-570}))
if [ -z "$out" ] && [ -n "$dry" ]; then
    out=build/gpu-dry-run
elif [ -z "$out" ]; then
    out=bench/results/$(tr '[:upper:] ' '[:lower:]-' <<<"${gpu:-no gpu}")
fi
mkdir -p "$out" || exit 2
out=$(realpath "$out")
report=$out/report.txt log=$out/log.txt work=$(mktemp -d)
: >"$report"
: >"$log"
# shellcheck source-path=SCRIPTDIR source=gpu_stages.sh
. bench/gpu_stages.sh
trap 'write_json; rm -rf "$work"' EXIT
trap interrupted INT TERM

# pip's CUDA libraries lie in the environment of python3, which is not always an activated one.
if [ -z "${VIRTUAL_ENV:-}" ] && command -v python3 >/dev/null; then
    VIRTUAL_ENV=$(python3 -c 'import sys; print(sys.prefix if sys.prefix != sys.base_prefix else "")')
    export VIRTUAL_ENV
fi

# One program that does not compile is a failure, and no reason to waste the GPU: the rest is built and run.
make_build() {
    local keep_going=(-k) cuda=ON architecture
    [ -n "$dry" ] && cuda=AUTO
    architecture=$(asked compute_cap | tr -d .)
    choose_generator "$build"
    stage configure 60 cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release \
        -DGPUREPLAY_CUDA=$cuda -DGPUREPLAY_CUDA_ARCHITECTURES="${architecture:-90}-real" || return
    [ "$(cached CMAKE_GENERATOR)" = Ninja ] && keep_going=(-k 0)
    stage build 240 cmake --build "$build" --parallel "$(nproc)" -- "${keep_going[@]}" || [ -f "$build/libgpureplay.a" ]
}

# The GPU against the CPU, bit for bit and within the tolerances of docs/numerics.md; their figures go to the report.
compare_with_cpu() {
    local on=$device name
    [ -n "$dry" ] && on=cpu
    for name in test_cross test_cross_ranked test_cross_linked test_cross_losses; do
        told_stage "$name $on" 90 "$build/tests/$name" "$on"
    done
    gpu_told_stage "nodes of a step, memory" 60 "$build/tests/test_cuda_step_nodes" "$device"
    gpu_told_stage "the device as cuDNN has it" 30 "$build/tests/print_device" "$device"
}

# In-RAM against in-device: all of it, what it must show, and as much of a whole training as there is time for.
contest() {
    local python
    gpu_told_stage "bench_contest $device" 150 "$build/bench/bench_contest" --device "$device" \
        --json "$out/bench_contest.json"
    gpu_told_stage "in-device ahead of in-RAM" 10 python3 bench/contest_checks.py "$out/bench_contest.json"
    gpu_told_stage "bench_training $device" 60 "$build/bench/bench_training" --quick --device "$device" \
        --json "$out/bench_training.json"
    if python=$(python_with_matplotlib); then
        gpu_told_stage pictures 60 "$python" bench/plot.py "$out"
    else
        say "pictures are left out: matplotlib is not here"
    fi
}

# The learner's train step beside those of PyTorch and JAX, by a Python that has PyTorch at least. A compiler of theirs
# may take its time: what was measured until the limit is in the JSON.
peers() {
    local python
    for python in build/peers/bin/python python3; do
        if "$python" -c 'import numpy, torch' 2>/dev/null; then
            gpu_told_stage "train steps beside others" 120 env PYTHONPATH=src/python \
                GPUREPLAY_LIBRARY="$build/libgpureplay.so" "$python" bench/peers/steps/steps.py --quick \
                --device "$device" --json "$out/bench_peers_steps.json"
            return
        fi
    done
    say "train steps beside others are left out: no PyTorch is here (bash bench/peers/setup.sh)"
}

benchmarks() {
    local name
    [ -z "$dry" ] || stage "bench_device cpu" 90 env OMP_NUM_THREADS=1 "$build/bench/bench_device" --quick --rounds 6 \
        --json "$out/bench_device.json"
    for name in bench_device bench_append bench_sample bench_priority bench_pixels bench_conv bench_checkpoint; do
        gpu_told_stage "$name $device" 90 "$build/bench/$name" --device "$device" --json "$out/$name.json"
    done
    contest
    peers
    say "bench_train is left out: it divides by CBLAS on the host. bench_device times the train step."
    gpu_told_stage "cartpole_dqn $device" 120 "$build/examples/cartpole_dqn" --device "$device" --seed 1 --seconds 100 \
        --out "$out"
}

find_sanitizer() {
    local root folder
    command -v compute-sanitizer && return
    root=$(cached GPUREPLAY_NVCC)
    root=$(dirname "$(dirname "$(readlink -f "$root")")")
    for folder in bin compute-sanitizer extras/compute-sanitizer; do
        [ -x "$root/$folder/compute-sanitizer" ] && echo "$root/$folder/compute-sanitizer" && return
    done
    return 1
}

# Small programs under each tool: memcheck sees stray addresses, racecheck races in shared memory, synccheck barriers
# that not all threads reach, initcheck memory never written. Errors of CUDA calls are the tests' own subject. Several
# at a time, and the CPU's tests beside them: nothing is timed any more.
sanitized="launch_shape cross cross_ranked cross_linked stream cuda_recording loss optimizer cuda_streams"
sanitized="$sanitized device_memory cuda_gemm"
sanitize() {
    local tool name checker=compute-sanitizer options="--error-exitcode 9 --report-api-errors no"
    local said=$work/sanitizer.out
    if [ -z "$dry" ]; then
        if ! checker=$(find_sanitizer); then
            say "compute-sanitizer is left out: it is neither on the PATH nor in the toolkit"
            return
        fi
        begin sanitizer 60 "$checker" "$build/tests/test_cuda_open" "$device"
        wait $!
        if grep -qi 'not supported' "$said"; then
            say "compute-sanitizer is left out: $(grep -im 1 'not supported' "$said")"
            return
        fi
    fi
    for name in $sanitized; do
        for tool in memcheck racecheck synccheck initcheck; do
            # shellcheck disable=SC2086 # options are words
            gpu_job "$tool $name" 100 env GPUR_TEST_SMALL=1 "$checker" --tool "$tool" $options \
                "$build/tests/test_$name" "$device"
        done
    done
}

say "GPU:      ${gpu:-none that nvidia-smi shows}, driver $(asked driver_version)"
say "commit:   $(commit)"
if [ -z "$built" ]; then
    make_build || { say "no build, so nothing to run"; exit 1; }
fi
say "compiler: $(compilers)"
export OMP_WAIT_POLICY=passive # threads that spin would starve each other where tests run side by side
export GPUREPLAY_MODULE_DIR=$build
GPUREPLAY_CUDA_LIBS=$(dirname "$(cached GPUREPLAY_CUBLASLT)")
export GPUREPLAY_CUDA_LIBS

# Tests that find no GPU are skipped and count as passed, so the device itself comes first: 77 here is a failure.
gpu_stage "the device opens" 60 "$build/tests/test_cuda_open" "$device" ||
    { say "no $device, so nothing to run on it"; exit 1; }
compare_with_cpu
[ -n "$built" ] || stage "ctest: build with CUDA" 60 ctest --test-dir "$build" -L '^cuda-build$' -E gpu_dry_run \
    --output-on-failure
gpu_stage "ctest: $device" 180 ctest --test-dir "$build" -L "^$device\$" -j 4 --timeout 90 --output-on-failure
benchmarks
gpu_job "ctest: cpu" 200 ctest --test-dir "$build" -L '^cpu$' -j "$(nproc)" --timeout 120 --output-on-failure
sanitize
end_jobs
table
[ "$failed" -eq 0 ]
