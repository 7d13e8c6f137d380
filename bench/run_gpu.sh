#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash bench/run_gpu.sh [--part NAME] [--build DIR] [--out DIR] [--dry-run]
#
# Everything that needs a GPU, in parts of at most 570 s each. Needs bash, cmake, a C compiler and nvcc; cuBLAS and
# cuDNN from the toolkit or from pip's packages; no network. A missing tool or Python package is reported and skipped.
#   --part NAME  only this part; without it build, first and atari, one after the other
#                build      configures and builds DIR for the GPU that is here; the other parts do it when needed
#                carry      builds DIR on a machine without a GPU, for one with a GPU of compute capability 9.0: without
#                           the CPU's libraries, stripped, and without objects
#                first      what decides: that the device works, the times of steps, lists of their kernels, all test
#                           programs, the Python package, and compute-sanitizer over a few programs; planned for 370 s,
#                           not measured. Also draws in their older form, if DIR-separate is a build of it
#                atari      Pong by fast-dqn in bfloat16, CartPole in Python, and JAX's train steps; planned for 300 s,
#                           not measured
#                test       all test programs on the GPU, and the Python package
#                memcheck   compute-sanitizer over the kernel tests; also racecheck and synccheck
#                measure    replay, checkpoints and convolutions
#                steps      the parts of a train step, and graphs of whole steps
#                runs       the ablation of fast DQN, in Pong too if build/atari is there
#                peers      PyTorch, JAX and other replay libraries on the same GPU
#   --build DIR  the build (build/gpu), which may have been made on another machine
#   --out DIR    JSON, logs and summary.txt (build/gpu/results); DIR.tar.gz has all of it after every command
#   --dry-run    prints the commands, and looks for the programs and options that they name in DIR, if it is there
#   --help       this text
# GPUREPLAY_COMMIT names the commit where there is no git. GPUREPLAY_GPU_DEVICE: cuda:0; with cpu the script is tried
# where there is no GPU.
# Exit status: 1 when a command failed, 130 after Ctrl-C.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=../tests/shell.sh
. "$(dirname "$0")/../tests/shell.sh"

all_parts=(build carry first atari test memcheck racecheck synccheck measure steps runs peers)
parts=(build first atari) out=build/gpu/results dry='' most=570 build=build/gpu
while [ $# -gt 0 ]; do
    case $1 in
    --part) wants "one of ${all_parts[*]}" "$(IFS='|' && echo "${all_parts[*]}")" "${@:1:2}"; parts=("$2"); shift ;;
    --build) wants "a folder" "$a_word" "${@:1:2}"; build=$(from_here "$2"); shift ;;
    --out) wants "a folder" "$a_word" "${@:1:2}"; out=$(from_here "$2"); shift ;;
    --dry-run) dry=yes ;;
    --help | -h) usage; exit 0 ;;
    *) refuse_unknown "$1" ;;
    esac
    shift
done

case $build in /*) ;; *) build=$PWD/$build ;; esac
device=${GPUREPLAY_GPU_DEVICE:-cuda:0} failures=$(mktemp) jobs_at_once=8
[[ $device =~ ^(cpu|cuda:[0-9]+)$ ]] ||
    refuse "GPUREPLAY_GPU_DEVICE is \"$device\"; it must be cuda:0, cuda:1 ... or cpu"
commit=${GPUREPLAY_COMMIT:-$(git rev-parse HEAD 2>/dev/null)}
[ -n "$dry$commit" ] || refuse "there is no git here to name the commit; give it as GPUREPLAY_COMMIT"
[ -n "$dry" ] || mkdir -p "$out" || exit 2
card=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader -i "${device#cuda:}" 2>/dev/null) || card=none

# pip's CUDA libraries lie in the environment of python3, which need not be an activated one.
if [ -z "${VIRTUAL_ENV:-}" ] && have python3; then
    VIRTUAL_ENV=$(python3 -c 'import sys; print(sys.prefix if sys.prefix != sys.base_prefix else "")')
    export VIRTUAL_ENV
fi
export GPUREPLAY_MODULE_DIR=$build GPUREPLAY_LIBRARY=$build/libgpureplay.so PYTHONPATH=$PWD/src/python
export OMP_NUM_THREADS=3 # as in the tests of a CPU

# say TEXT...: with the seconds since the script began.
say() {
    local line="$*"
    if [ -n "$dry" ]; then echo "$line"; else printf '[%4d s] %s\n' $SECONDS "$line" | tee -a "$out/summary.txt"; fi
}

fail() {
    echo "$1" >>"$failures"
    say "$1: $2"
}

pack() { [ -n "$dry" ] || { tar -czf "$out.tar.gz.new" -C "$out" . && mv "$out.tar.gz.new" "$out.tar.gz"; }; }

# check COMMAND...: for --dry-run. The programs of the build and the scripts of the repository, which may stand behind a
# profiler, must be there, and know the options and names of tests that follow.
declare -A answers=()
check() {
    local help='' named='' word asks=()
    for word in "$@"; do
        case $word in
        "$build/tests/all_tests") asks=("$word" --list) ;;
        "$build"/tests/* | tests/*.py) asks=(test -f "$word") ;;
        "$build"/examples/gpureplay-train) asks=("$word" fast-dqn --help) ;;
        "$build"/bench/* | "$build"/examples/*) asks=("$word" --help) ;;
        bench/*.py) asks=(python3 "$word" --help) ;;
        gpureplay.train) asks=(python3 -m "$word" --help) ;;
        test_*) grep -qx -- "$word" <<<"$help" || fail "$named" "has no test $word" ;;
        --*) [ -z "$named" ] || grep -q -- "$word\b" <<<"$help" || fail "$named" "has no option $word" ;;
        esac
        [ ${#asks[@]} -gt 0 ] || continue
        [ -n "${answers[$word]:-}" ] || answers[$word]=$("${asks[@]}" 2>&1 && echo asked)
        help=${answers[$word]} named=$word asks=()
        [ "${help##*$'\n'}" = asked ] ||
            { fail "$word" "cannot be asked for its options: ${help##*$'\n'}" && answers[$word]='' && return; }
    done
}

# run NAME LIMIT COMMAND...: a command with a time limit in seconds, within what is left of its part. Output goes to
# OUT/NAME.log behind a line that names card, commit and command; the end of a failure's to the summary.
run() {
    local name=$1 limit=$2 left=$((deadline - SECONDS)) began=$SECONDS status=0
    shift 2
    if [ -n "$dry" ]; then
        printf '  %4d s  %s\n' "$limit" "$*"
        [ ! -d "$build" ] || check "$@"
        return 0
    fi
    [ "$limit" -le "$left" ] || limit=$left
    [ "$limit" -ge 5 ] || { fail "$name" "no time left" && return 1; }
    echo "# $card; commit $commit; $*" >"$out/$name.log"
    timeout --signal="${ends_by:-TERM}" --kill-after=10 "$limit" "$@" >>"$out/$name.log" 2>&1 </dev/null || status=$?
    [ $status -ne 124 ] || [ -z "${ends_by:-}" ] || status=0
    case $status in
    0) say "$(printf '%-28s passed  %4d s' "$name" $((SECONDS - began)))" ;;
    77) say "$(printf '%-28s skipped %4d s' "$name" $((SECONDS - began)))" ;;
    *)
        fail "$name" "$(printf 'FAILED %d s, status %d (124: its time limit)' $((SECONDS - began)) $status)"
        tail -n 15 "$out/$name.log" | sed 's/^/    | /' | tee -a "$out/summary.txt"
        ;;
    esac
    [ "$BASHPID" != $$ ] || pack # of several at a time, their caller packs
    return $status
}

# run_for: as run, of a training that goes on until Ctrl-C, which it gets after the time.
run_for() {
    local ends_by=INT
    run "$@"
}

# beside NAME LIMIT COMMAND...: as run, of several at a time; then `wait`.
beside() {
    if [ -n "$dry" ]; then run "$@" && return; fi
    while [ "$(jobs -pr | wc -l)" -ge $jobs_at_once ]; do wait -n; done
    run "$@" &
    pack
}

# bench NAME LIMIT OPTION...: a benchmark on the GPU. NAME may say more than the program: bench_device-goals.
bench() { run "$1" "$2" "$build/bench/${1%%-*}" --device "$device" --json "$out/$1.json" "${@:3}"; }

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" 2>/dev/null; }

# toolkit_program NAME FOLDER...: on the PATH, or in a folder of nvcc's toolkit, which may be elsewhere than where the
# build was made.
toolkit_program() {
    local root folder nvcc
    [ -z "$dry" ] || { echo "$1" && return; }
    command -v "$1" && return
    for nvcc in "$(cached GPUREPLAY_NVCC)" "$(command -v nvcc)" /usr/local/cuda/bin/nvcc; do
        root=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
        for folder in "${@:2}"; do
            [ -x "$root/$folder/$1" ] && echo "$root/$folder/$1" && return
        done
    done
    say "$1 is neither on the PATH nor in the toolkit; what needs it is skipped" >&2
    return 1
}

sanitizer() { toolkit_program compute-sanitizer bin compute-sanitizer extras/compute-sanitizer; }

configure() {
    [ -n "$dry" ] || choose_generator "$build"
    run configure 60 cmake -S . -B "$build" ${generator[@]+"${generator[@]}"} -DCMAKE_BUILD_TYPE=Release \
        -DGPUREPLAY_CUDA=ON -DGPUREPLAY_TESTS=ON -DGPUREPLAY_BENCH=ON "-DGPUREPLAY_TEST_DEVICES=cpu;$device" "$@"
}

part_build() {
    configure -DGPUREPLAY_CUDA_ARCHITECTURES=native && run build 500 cmake --build "$build" --parallel "$(nproc)"
}

# Programs that need no GPU stay here, so that what is carried has less than 64 MiB.
part_carry() {
    configure -DGPUREPLAY_CUDA_ARCHITECTURES=90-real -DGPUREPLAY_BLAS=OFF -DGPUREPLAY_DNNL=OFF -DGPUREPLAY_ZSTD=OFF &&
        run build 3600 cmake --build "$build" --parallel "$(nproc)" || return
    [ -z "$dry" ] || return 0
    rm -f "$build"/tests/{all_tests.fake,test_plan,test_dnn_plans,test_conv_plan,test_cuda_launches,test_atomic_file}
    find "$build" \( -name '*.o' -o -name '*.a' -o -name '*.cubin' -o -name '*.ptx' \) -delete
    find "$build" -name CMakeFiles -prune -o -type f -perm -u+x -exec strip --strip-unneeded {} + 2>/dev/null
    say "$(du -sm "$build" | cut -f1) MiB to carry"
}

# Tests that find no GPU count as skipped, so the device itself comes first.
device_opens() {
    run device_opens 60 "$build/tests/all_tests" test_device "$device" && return
    fail device_opens "without the device the rest would be skipped"
    return 1
}

# All programs, several at a time: nothing is timed. What takes all memory of the GPU, or faults on it, comes last,
# alone.
alone=(test_cuda_limits test_cuda_trap)
test_programs() {
    local name names=(test_one test_two)
    if [ -z "$dry" ] || [ -x "$build/tests/all_tests" ]; then
        mapfile -t names < <("$build/tests/all_tests" --list)
    fi
    for name in test_out_of_memory test_cuda_faults; do
        [ ! -x "$build/tests/$name" ] || beside $name 300 "$build/tests/$name" "$device"
    done
    for name in "${names[@]}"; do
        [[ " ${alone[*]} " == *" $name "* ]] || beside "$name" 100 "$build/tests/all_tests" "$name" "$device"
    done
    wait
    for name in "${alone[@]}"; do run "$name" 60 "$build/tests/all_tests" "$name" "$device"; done
}

python_package() {
    run python_package 120 python3 tests/python/test_on_device.py "$device"
    python3 -c 'import gymnasium, hypothesis, pytest' 2>/dev/null || [ -n "$dry" ] ||
        { say "no pytest, hypothesis or Gymnasium is here; what needs them is skipped" && return; }
    run python_tests 120 env GPUREPLAY_TEST_DEVICE="$device" python3 -m pytest -q -p no:cacheprovider \
        tests/python/test_policy.py tests/python/test_learner.py
}

# sanitize TOOL NAME...: over these test programs. Errors of CUDA calls are the tests' own subject, and not reported.
sanitize() {
    local tool=$1 name checker
    checker=$(sanitizer) || return
    for name in "${@:2}"; do
        beside "${tool}_$name" 90 env GPUR_TEST_SMALL=1 "$checker" --tool "$tool" --error-exitcode 9 \
            --report-api-errors no "$build/tests/all_tests" "test_$name" "$device"
    done
    wait
    pack
}

kernel_tests=(launch_shape cross_losses stream cuda_graph loss optimizer cuda_streams device gemm grid_sync gather
    gather_frames sum_tree priorities priority_gather eviction conv layer_backward network network_bf16 bf16
    explore act policy learner learner_bf16 actor_critic actor_critic_loss dpg action_vectors sequences
    returns_cache copies)
part_memcheck() { sanitize memcheck "${kernel_tests[@]}"; }
part_racecheck() { sanitize racecheck "${kernel_tests[@]}"; }
part_synccheck() { sanitize synccheck "${kernel_tests[@]}"; }

# profile NAME OPTION...: of ncu before --, of few.py behind it. A machine may forbid the counters, which ncu then says
# in its log.
profile() {
    local name=$1 profiler options=()
    profiler=$(toolkit_program ncu bin nsight-compute extras/nsight-compute) || return
    shift
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    run "profile_$name" 60 "$profiler" --clock-control none "${options[@]}" \
        python3 bench/peers/steps/few.py --device "$device" "${@:2}"
}

# Draws and updates in their older form, of a build of its own: bench/results/gpu.md, "Draws since then".
separate_draws() {
    local program=$build-separate/bench/bench_device
    [ -x "$program" ] || return 0
    run separate_draws 30 "$program" --device "$device" --json "$out/separate_draws.json" --quick --rounds 6 \
        --only "draw + gather"
    run separate_updates 30 "$program" --device "$device" --json "$out/separate_updates.json" --quick --rounds 6 \
        --only "priorities of"
}

part_first() {
    local times=(--metrics "gpu__time_duration.sum" --csv)
    device_opens || return
    run step_nodes 60 "$build/tests/all_tests" test_cuda_step_nodes "$device"
    run captures 60 "$build/tests/all_tests" test_cuda_streams "$device"
    bench bench_device-goals 90 --quick --rounds 6
    separate_draws
    bench bench_pixels 20 --quick --rounds 6
    bench bench_sample 20 --quick --rounds 6
    bench bench_priority 20 --quick --rounds 6
    profile nature_512 "${times[@]}" -- --preset nature-dueling --batch 512 --math bf16
    profile nature_32 "${times[@]}" -- --preset nature-dueling --batch 32 --math bf16
    profile melee_256 "${times[@]}" -- --preset melee-gpu --batch 256
    profile one_kernel --section WarpStateStats --section SourceCounters --kernel-name regex:fused -c 1 -- \
        --preset melee-gpu --batch 32 --step-kernel fused
    test_programs
    python_package
    sanitize memcheck device stream cuda_streams learner_files policy_weights layer_backward act gather_frames
    sanitize racecheck grid_sync learner
}

# Where no network is, build/atari is built on another machine. The curve is in pong/episodes.csv.
part_atari() {
    local plugin=$PWD/build/atari/atari.so
    if [ -f "$plugin" ] || [ -n "$dry" ]; then
        run_for pong 240 "$build/examples/gpureplay-train" fast-dqn --env "$plugin:Pong" --device "$device" \
            --math bf16 --num-envs 16 --steps 20000000 --eval-episodes 0 --checkpoint 0 --seed 1 --out "$out/pong"
    else
        say "no build/atari/atari.so is here; Pong skipped"
    fi
    run cartpole 60 python3 -m gpureplay.train --env CartPole-v1 --device "$device" --steps 100000 --quiet \
        --out "$out/cartpole"
    jax_steps
}

jax_steps() {
    run jax_steps 120 python3 bench/peers/steps/steps.py --quick --only "jax scan" --device "$device" \
        --json "$out/jax_steps.json"
}

part_test() {
    device_opens || return
    test_programs
    python_package
}

part_measure() {
    local name
    for name in append sample priority pixels conv checkpoint; do bench bench_$name 90; done
}

part_steps() { bench bench_device 500; }

# A GPU's rates need longer runs than a CPU's.
part_runs() {
    local plugin=$PWD/build/atari/atari.so
    bench bench_ablation 250 --env MinAtar/Breakout --steps 40000 --math auto
    [ -f "$plugin" ] || [ -n "$dry" ] || { say "no build/atari/atari.so is here; Atari skipped" && return; }
    bench bench_ablation-atari 300 --env "$plugin:Pong" --steps 40000 --math bf16
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

trap 'say "interrupted"; pack; exit 130' INT TERM
say "GPU: $card, commit $commit"
for part in "${parts[@]}"; do
    deadline=$((SECONDS + most))
    [ "$part" != carry ] || deadline=$((SECONDS + 7200)) # that machine has time
    say "part $part"
    if [ "$part" != build ] && [ "$part" != carry ] && [ -z "$dry" ] && [ ! -x "$build/tests/all_tests" ]; then
        part_build || { say "no build, so nothing to run" && exit 1; }
    fi
    cublas=$(cached GPUREPLAY_CUBLASLT)
    [ ! -f "$cublas" ] || export GPUREPLAY_CUDA_LIBS="${cublas%/*}"
    "part_$part"
done
[ -n "$dry" ] || say "$(wc -l <"$failures") commands failed"
pack
[ ! -s "$failures" ]
