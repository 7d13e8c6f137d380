# shellcheck shell=bash disable=SC2154 # dry, built, device, build, out, work are gpu_suite.sh's
# SPDX-License-Identifier: MIT
# What the GPU suite does: the build, the stages of its parts, and their order.

# json NAME: where a benchmark writes; in a dry run nowhere that stays, since what it measures is nothing.
json() { echo "$([ -n "$dry" ] && echo "$work" || echo "$out")/$1.json"; }

# A build that is of these very sources is not touched. One program that does not compile is a failure, and no reason to
# waste the GPU: the rest is built and run. A configure and a build have 160 s together; a dry run wastes no GPU, so
# that its build has all the time it takes.
make_build() {
    local keep_going=(-k) cuda=ON architecture of configure=60 both=160 began=$SECONDS
    planned after configure $configure && planned after build $((both - configure)) && return
    of=$(sources)
    [ -z "$of" ] || of="$of $tested"
    if [ -n "$of" ] && [ "$of" = "$(cat "$build/built-of" 2>/dev/null)" ]; then
        say "build:    $build, which is of these sources"
        return
    fi
    [ -z "$dry" ] || { cuda=AUTO configure=7200 both=7200 deadline=$((SECONDS + both)); }
    architecture=$(asked compute_cap | tr -d .)
    choose_generator "$build"
    stage configure $configure cmake -S . -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release \
        -DGPUREPLAY_TESTS=ON -DGPUREPLAY_BENCH=ON \
        -DGPUREPLAY_CUDA=$cuda -DGPUREPLAY_CUDA_ARCHITECTURES="${architecture:-90}-real" \
        -DGPUREPLAY_TEST_DEVICES="cpu;$tested" -DGPUREPLAY_TEST_TIMEOUT=45 || return
    [ "$(cached CMAKE_GENERATOR)" = Ninja ] && keep_going=(-k 0)
    rm -f "$build/built-of"
    if stage build $((both - SECONDS + began)) cmake --build "$build" --parallel "$(nproc)" -- "${keep_going[@]}"; then
        [ -z "$of" ] || echo "$of" >"$build/built-of"
    else
        [ -f "$build/libgpureplay.a" ]
    fi
}

# Tests that find no GPU are skipped and count as passed, so the device itself comes first: 77 here is a failure.
begin_part() {
    if [ -z "$built" ]; then
        make_build || { say "no build, so nothing to run"; exit 1; }
    fi
    [ -z "$dry" ] || deadline=$((SECONDS + 36000)) # it uses no GPU's time
    if ! planning; then
        say "compiler: $(compilers)"
        GPUREPLAY_CUDA_LIBS=$(dirname "$(cached GPUREPLAY_CUBLASLT)")
        export GPUREPLAY_CUDA_LIBS
    fi
    gpu_stage "the device opens" 60 "$build/tests/all_tests" test_cuda_open "$device" ||
        { say "no $device, so nothing to run on it"; exit 1; }
}

# The GPU against the CPU, bit for bit and within the tolerances of docs/numerics.md; everything at once for a while;
# what a step of each preset is made of; what cuDNN wants to know of the device. Their figures go to the report. In a
# dry run on the CPU, where there are no nodes.
compare_with_cpu() {
    local on=$device soak=40 name
    [ -n "$dry" ] && on=cpu soak=2
    told_job "nodes of a step $on" 120 "$build/tests/test_cuda_step_nodes" "$on"
    told_job "soak $on" 60 env GPUR_TEST_SECONDS=$soak "$build/tests/all_tests" test_soak "$on"
    for name in test_cross test_cross_ranked test_cross_linked test_cross_losses; do
        told_job "$name $on" 40 "$build/tests/all_tests" "$name" "$on"
    done
    planning || set_aside --json "$(json device)"
    [ -n "$dry" ] && on=tests/device/cuda/modules/h200-by-hand.json
    told_job "the device as cuDNN has it" 30 "$build/tests/print_device" "$on" "$(json device)"
}

# With -N, --no-tests=error is no error.
list_tests='told=$(ctest -N "$@") && echo "$told" && [[ $told != *"Total Tests: 0"* ]]'
run_tests() {
    [ -n "$built" ] || job "ctest: build with CUDA" 40 ctest --test-dir "$build" -L '^cuda-build$' -E gpu_dry_run \
        -j 4 --no-tests=error --output-on-failure
    if [ -n "$dry" ]; then
        stage "ctest: tests on $tested" 15 bash -c "$list_tests" ctest --test-dir "$build" -L "^$tested\$"
    else
        # Not more at a time: programs that share one GPU take turns on it, and wait for each other's.
        stage "ctest: $device" 125 ctest --test-dir "$build" -L "^$device\$" -j 4 --no-tests=error \
            --output-on-failure
    fi
}

# python_with PACKAGES: the first Python that has them all.
python_with() {
    local python
    for python in build/peers/bin/python python3; do
        "$python" -c "import $1" 2>/dev/null && echo "$python" && return
    done
    return 1
}
python_with_torch() { python_with "numpy, torch"; }

# The Python package with the libraries that give it arrays and take them, as far as they are there.
test_package() {
    local python=python3
    planning || python=$(python_with_torch || python_with numpy) || {
        say "the Python package is left out: no Python here has NumPy"
        return
    }
    gpu_told_job "the Python package on $device" 90 env PYTHONPATH="$packages" \
        GPUREPLAY_LIBRARY="$build/libgpureplay.so" "$python" tests/python/test_on_device.py "$device"
}

# measure NAME LIMIT OPTION...: a benchmark on the device, and its figures.
measure() {
    gpu_told_stage "$1 $device" "$2" "$build/bench/$1" --device "$device" --json "$(json "$1")" "${@:3}"
}

# What each thing takes alone. bench_train divides by CBLAS on the host and is no part of it.
figures() {
    [ -z "$dry" ] || stage "bench_device cpu" 60 env OMP_NUM_THREADS=1 "$build/bench/bench_device" --quick --rounds 6 \
        --json "$(json bench_device_cpu)"
    measure bench_device 120
    measure bench_nodes 60
    measure bench_append 20
    measure bench_sample 25
    measure bench_priority 30
    measure bench_pixels 20
    measure bench_conv 30
    measure bench_checkpoint 20
}

# A whole training with each memory, and an agent that has to learn.
trainings() {
    spare_stage "bench_training $device" 75 "$build/bench/bench_training" --device "$device" \
        --json "$(json bench_training)" --batch 32 --steps 30000
    spare_stage "cartpole_dqn $device" 100 "$build/examples/cartpole_dqn" --device "$device" --seed 1 --seconds 90 \
        --out "$out"
}

# In-RAM against in-device at every batch size, and what it must show.
contest() {
    measure bench_contest 110
    gpu_told_stage "in-device ahead of in-RAM" 5 python3 bench/contest_checks.py "$(json bench_contest)"
}


# The learner's train step, and replay alone, beside those of PyTorch and JAX, by a Python that has PyTorch at least.
# Compilers of theirs take their time: what was measured until a limit is in the JSON. in_python NAME LIMIT SCRIPT
# OPTION...
packages=src/python${PYTHONPATH:+:$PYTHONPATH}
in_python() {
    gpu_told_stage "$1" "$2" env PYTHONPATH="$packages" GPUREPLAY_LIBRARY="$build/libgpureplay.so" "$python" "${@:3}" \
        --device "$device"
}
peers() {
    local python=python3 steps=bench/peers/steps/steps.py
    planning || python=$(python_with_torch) || {
        say "PyTorch and JAX are left out: no PyTorch is here (bash bench/peers/setup.sh)"
        return
    }
    [ -z "$dry" ] || stage "train steps cpu" 60 env PYTHONPATH="$packages" GPUREPLAY_LIBRARY="$build/libgpureplay.so" \
        "$python" "$steps" --quick --device cpu --only gpureplay --networks melee-gpu --rounds 6 --limit 50
    in_python "train steps beside others" 120 "$steps" --quick --json "$(json bench_peers_steps)"
    in_python "replay beside others" 105 bench/peers/peers.py --quick --kinds uniform,prioritized \
        --json "$(json bench_peers)"
}

# More sizes and arithmetics of the train steps, in what time is left but for what comes behind.
more_steps() {
    local python=python3 name="more train steps beside others" behind=40 left
    planned spare "$name" $((90 + behind)) && return
    python=$(python_with_torch) || return 0
    left=$((deadline - SECONDS - behind))
    is_time_for "$name" $((90 + behind)) || return 0
    in_python "$name" $left bench/peers/steps/steps.py --limit $((left - 15)) --json "$(json bench_peers_steps_full)"
}

# Of what this call and earlier ones left in the folder.
verdicts() {
    gpu_told_stage "goals and decisions" 5 python3 bench/goals.py "$out" --json "$(json goals)"
}
pictures() {
    local python=python3
    planning || python=$(python_with_matplotlib) || {
        say "pictures are left out: matplotlib is not here"
        return
    }
    if [ -n "$dry" ]; then
        stage "pictures of the CPU's results" 30 "$python" bench/plot.py bench/results/cpu-intel-xeon "$work/pictures"
    else
        spare_stage pictures 30 "$python" bench/plot.py "$out"
    fi
}

prove_part() {
    begin_part
    compare_with_cpu
    test_package
    end_jobs
    run_tests
    sanitize
    end_jobs
}
measure_part() {
    begin_part
    figures
    verdicts
    trainings
    counters
}
peers_part() {
    begin_part
    contest
    peers
    more_steps
    pictures
}

# What matters most first; what comes last takes what time is left.
all_part() {
    begin_part
    compare_with_cpu
    test_package
    end_jobs
    run_tests
    figures
    contest
    peers
    verdicts
    pictures
    trainings
    sanitize
    end_jobs
}
