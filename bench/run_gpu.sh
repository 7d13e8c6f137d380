#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash bench/run_gpu.sh [--part NAME] [--out DIR] [--dry-run]
#
# Everything that needs a GPU, in parts of at most 570 s each. Needs bash, cmake, a C compiler and nvcc; cuBLAS and
# cuDNN from the toolkit or from pip's packages; no network. A missing tool or Python package is reported and skipped.
#   --part NAME  only this part; without it all of them, one after the other
#                build     configures and builds build/gpu for the GPU that is here; the other parts do it when needed
#                test      all test programs on the GPU, and the Python package
#                sanitize  compute-sanitizer over the kernel tests: memcheck, racecheck, synccheck
#                measure   replay, checkpoints and convolutions
#                steps     the parts of a train step, and graphs of whole steps
#                compare   in-RAM against in-device replay, and a whole training
#                runs      the ablation of fast DQN, and Atari games beside Stable-Baselines3 if build/atari is there
#                ga3c      predictions a second, networks, numbers of threads and training batches of GA3C
#                peers     PyTorch and other replay libraries on the same GPU
#                profile   Nsight Compute over the kernels of a step
#   --out DIR    JSON, logs and summary.txt (build/gpu/results); DIR.tar.gz holds all of it at the end
#   --dry-run    prints the commands
#   --help       this text
# GPUREPLAY_COMMIT names the commit where there is no git. GPUREPLAY_GPU_DEVICE: cuda:0.
# Exit status: 1 when a command failed, 130 after Ctrl-C.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=../tests/shell.sh
. "$(dirname "$0")/../tests/shell.sh"

all_parts=(build test sanitize measure steps compare runs ga3c peers profile)
parts=("${all_parts[@]}") out=build/gpu/results dry='' most=570
while [ $# -gt 0 ]; do
    case $1 in
    --part) wants "one of ${all_parts[*]}" "$(IFS='|' && echo "${all_parts[*]}")" "${@:1:2}"; parts=("$2"); shift ;;
    --out) wants "a folder" "$a_word" "${@:1:2}"; out=$(from_here "$2"); shift ;;
    --dry-run) dry=yes ;;
    --help | -h) usage; exit 0 ;;
    *) refuse_unknown "$1" ;;
    esac
    shift
done

device=${GPUREPLAY_GPU_DEVICE:-cuda:0} build=$PWD/build/gpu failures=$(mktemp) jobs_at_once=8
[[ $device =~ ^cuda:[0-9]+$ ]] || refuse "GPUREPLAY_GPU_DEVICE is \"$device\"; it must be cuda:0, cuda:1 ..."
[ -n "$dry" ] || [ -n "${GPUREPLAY_COMMIT:-}" ] || git rev-parse HEAD >/dev/null 2>&1 ||
    refuse "there is no git here to name the commit; give it as GPUREPLAY_COMMIT"
[ -n "$dry" ] || mkdir -p "$out" || exit 2

# pip's CUDA libraries lie in the environment of python3, which need not be an activated one.
if [ -z "${VIRTUAL_ENV:-}" ] && have python3; then
    VIRTUAL_ENV=$(python3 -c 'import sys; print(sys.prefix if sys.prefix != sys.base_prefix else "")')
    export VIRTUAL_ENV
fi
export GPUREPLAY_MODULE_DIR=$build GPUREPLAY_LIBRARY=$build/libgpureplay.so PYTHONPATH=$PWD/src/python

say() { if [ -n "$dry" ]; then echo "$*"; else echo "$*" | tee -a "$out/summary.txt"; fi; }

# run NAME LIMIT COMMAND...: a command with a time limit in seconds, within what is left of its part. Output goes to
# OUT/NAME.log, and the end of a failure's to the summary.
run() {
    local name=$1 limit=$2 left=$((deadline - SECONDS)) began=$SECONDS status=0
    shift 2
    if [ -n "$dry" ]; then
        printf '  %4d s  %s\n' "$limit" "$*"
        return
    fi
    [ "$limit" -le "$left" ] || limit=$left
    if [ "$limit" -lt 5 ]; then
        say "$name: no time left"
        echo "$name" >>"$failures"
        return 1
    fi
    timeout --kill-after=10 "$limit" "$@" >"$out/$name.log" 2>&1 </dev/null || status=$?
    case $status in
    0) say "$(printf '%-28s passed  %4d s' "$name" $((SECONDS - began)))" ;;
    77) say "$(printf '%-28s skipped %4d s' "$name" $((SECONDS - began)))" ;;
    *)
        echo "$name" >>"$failures"
        say "$(printf '%-28s FAILED  %4d s, status %d (124: its time limit)' "$name" $((SECONDS - began)) $status)"
        tail -n 15 "$out/$name.log" | sed 's/^/    | /' | tee -a "$out/summary.txt"
        ;;
    esac
    return $status
}

# bench NAME LIMIT OPTION...: a benchmark on the GPU.
bench() { run "$1" "$2" "$build/bench/$1" --device "$device" --json "$out/$1.json" "${@:3}"; }

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" 2>/dev/null; }

# toolkit_program NAME FOLDER...: on the PATH, or in a folder of nvcc's toolkit.
toolkit_program() {
    local root folder
    command -v "$1" && return
    root=$(dirname "$(dirname "$(readlink -f "$(cached GPUREPLAY_NVCC)")")")
    for folder in "${@:2}"; do
        [ -x "$root/$folder/$1" ] && echo "$root/$folder/$1" && return
    done
    say "$1 is neither on the PATH nor in the toolkit; what needs it is skipped" >&2
    return 1
}

part_build() {
    choose_generator "$build"
    run configure 60 cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DGPUREPLAY_CUDA=ON \
        -DGPUREPLAY_CUDA_ARCHITECTURES=native -DGPUREPLAY_TESTS=ON -DGPUREPLAY_BENCH=ON \
        "-DGPUREPLAY_TEST_DEVICES=cpu;$device" -DGPUREPLAY_TEST_TIMEOUT=240 &&
        run build 500 cmake --build "$build" --parallel "$(nproc)"
}

# Tests that find no GPU count as skipped, so the device itself comes first. Programs that share a GPU take turns on it.
part_test() {
    run device_opens 60 "$build/tests/all_tests" test_device "$device" || return
    run ctest 450 ctest --test-dir "$build" -L "^$device\$" -j 8 --no-tests=error --output-on-failure
    run python_package 120 python3 tests/python/test_on_device.py "$device"
}

# Errors of CUDA calls are the tests' own subject, and not reported. Several at a time, since nothing is timed.
sanitized="launch_shape cross_losses stream cuda_graph loss optimizer cuda_streams device gemm grid_sync gather
    gather_frames sum_tree priorities eviction conv layer_backward network network_bf16 bf16 explore act policy learner
    learner_bf16 actor_critic actor_critic_loss dpg action_vectors sequences returns_cache copies"
part_sanitize() {
    local checker=compute-sanitizer tool name
    if [ -z "$dry" ]; then
        checker=$(toolkit_program compute-sanitizer bin compute-sanitizer extras/compute-sanitizer) || return
    fi
    export GPUR_TEST_SMALL=1
    for tool in memcheck racecheck synccheck; do
        for name in $sanitized; do
            while [ "$(jobs -pr | wc -l)" -ge $jobs_at_once ]; do wait -n; done
            run "${tool}_$name" 90 "$checker" --tool $tool --error-exitcode 9 --report-api-errors no \
                "$build/tests/all_tests" "test_$name" "$device" &
        done
    done
    wait
}

part_measure() {
    local name
    for name in append sample priority pixels conv checkpoint; do bench bench_$name 90; done
}

part_steps() { bench bench_device 500; }

part_compare() {
    bench bench_compare 300
    bench bench_training 260 --batch 32 --steps 30000
}

# Where no network is, build/atari is built on another machine. A GPU's rates need longer runs than a CPU's.
part_runs() {
    local python=python3 plugin=$PWD/build/atari/atari.so
    [ -x build/peers/bin/python ] && python=build/peers/bin/python
    bench bench_ablation 150 --env MinAtar/Breakout
    [ -f "$plugin" ] || [ -n "$dry" ] || { say "no build/atari/atari.so is here; Atari skipped" && return; }
    run bench_ablation_atari 150 "$build/bench/bench_ablation" --device "$device" --env "$plugin:Pong" \
        --json "$out/bench_ablation_atari.json"
    run atari_speed 260 "$python" bench/run/atari_speed.py --train "$build/examples/gpureplay-train" \
        --plugin "$plugin" --device "$device" --steps 200000 --rounds 2 --json "$out/atari_speed.json"
}

part_ga3c() {
    for part in 1 2 3 4; do
        run bench_ga3c_$part 140 "$build/bench/bench_ga3c" --device "$device" --part $part --seconds 4 \
            --json "$out/bench_ga3c_$part.json"
    done
}

# Compilers of other libraries take long: what was measured until the limit is in the JSON.
part_peers() {
    local python=python3
    [ -x build/peers/bin/python ] && python=build/peers/bin/python
    "$python" -c 'import numpy, torch' 2>/dev/null || [ -n "$dry" ] || { say "no PyTorch is here; skipped" && return; }
    run bench_peers_steps 300 "$python" bench/peers/steps/steps.py --quick --device "$device" \
        --json "$out/bench_peers_steps.json"
    run bench_peers 260 "$python" bench/peers/peers.py --quick --kinds uniform,prioritized --device "$device" \
        --json "$out/bench_peers.json"
}

# A machine may forbid the counters, which ncu then says in its log.
part_profile() {
    local profiler=ncu
    local metrics=gpu__time_duration.sum,dram__bytes.sum,lts__t_bytes.sum
    if [ -z "$dry" ]; then
        profiler=$(toolkit_program ncu bin nsight-compute extras/nsight-compute) || return
    fi
    run profile 300 "$profiler" --clock-control none --launch-count 60 --kernel-name 'regex:gather|preprocess|update' \
        --metrics "$metrics,sm__warps_active.avg.pct_of_peak_sustained_active" \
        "$build/bench/bench_conv" --quick --rounds 6 --device "$device"
}

trap 'say "interrupted"; exit 130' INT TERM
say "GPU: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo none)," \
    "commit ${GPUREPLAY_COMMIT:-$(git rev-parse HEAD 2>/dev/null)}"
for part in "${parts[@]}"; do
    deadline=$((SECONDS + most))
    say "part $part"
    if [ "$part" != build ] && [ -z "$dry" ] && [ ! -x "$build/tests/all_tests" ]; then
        part_build || { say "no build, so nothing to run" && exit 1; }
    fi
    cublas=$(cached GPUREPLAY_CUBLASLT)
    [ ! -f "$cublas" ] || export GPUREPLAY_CUDA_LIBS="${cublas%/*}"
    "part_$part"
done
[ -z "$dry" ] || exit 0
say "$(wc -l <"$failures") commands failed"
tar -czf "$out.tar.gz" -C "$out" .
[ ! -s "$failures" ]
