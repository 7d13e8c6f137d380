# shellcheck shell=bash disable=SC2154,SC2034 # dry, device, build, work are gpu_suite.sh's
# SPDX-License-Identifier: MIT
# NVIDIA's own tools over programs of ours: compute-sanitizer, and Nsight Compute where it may count.

# toolkit_program NAME FOLDER...: on the PATH, or in a folder of the toolkit that nvcc is of.
toolkit_program() {
    local root folder
    command -v "$1" && return
    root=$(cached GPUREPLAY_NVCC)
    root=$(dirname "$(dirname "$(readlink -f "$root")")")
    for folder in "${@:2}"; do
        [ -x "$root/$folder/$1" ] && echo "$root/$folder/$1" && return
    done
    return 1
}

# slow_tool STAGE: whether it is one of these tools' own; one that ends at its limit has found nothing wrong.
slow_tool() { [[ $1 =~ ^(memcheck|racecheck|synccheck|initcheck|counters)\  ]]; }

# unable NAME OUTPUT PATTERN: says that a tool is left out where it said so itself.
unable() {
    grep -qiE "$3" "$2" && say "$1 is left out: $(grep -iEm 1 "$3" "$2")"
}

# Small programs under each tool: memcheck sees stray addresses, racecheck races in shared memory, synccheck barriers
# that not all threads reach, initcheck memory never written. Errors of CUDA calls are the tests' own subject. Several
# at a time: nothing is timed any more.
sanitized="launch_shape cross cross_ranked cross_linked stream cuda_recording loss optimizer cuda_streams"
sanitized="$sanitized device_memory cuda_gemm meet dependent gather_observed one_kernel_reference"
sanitize() {
    local tool name checker options="--error-exitcode 9 --report-api-errors no"
    planned beside "compute-sanitizer, a tool, a program" 30 $((4 * $(wc -w <<<"$sanitized"))) && return
    if [ -n "$dry" ]; then
        for name in $sanitized; do
            gpu_job "for the sanitizer: $name" 20 "$build/tests/all_tests" "test_$name" "$device"
        done
        return
    fi
    checker=$(toolkit_program compute-sanitizer bin compute-sanitizer extras/compute-sanitizer) || {
        say "compute-sanitizer is left out: it is neither on the PATH nor in the toolkit"
        return
    }
    begin sanitizer 30 "$checker" "$build/tests/all_tests" test_cuda_open "$device"
    wait $!
    unable compute-sanitizer "$work/sanitizer.out" 'not supported' && return
    for name in $sanitized; do
        for tool in memcheck racecheck synccheck initcheck; do
            # shellcheck disable=SC2086 # options are words
            gpu_job "$tool $name" 30 env GPUR_TEST_SMALL=1 "$checker" --tool "$tool" $options \
                "$build/tests/all_tests" "test_$name" "$device"
        done
    done
}

# What a step's own kernels move and how full the GPU is meanwhile: bytes of DRAM and of L2, warps that are there of
# those that could be. A machine may forbid the counters.
counted="gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,lts__t_bytes.sum"
counted="$counted,sm__warps_active.avg.pct_of_peak_sustained_active"
counters() {
    local profiler=ncu id=${#rows[@]} name="counters of a step's kernels" command
    planned spare "$name" 40 && return
    [ -z "$dry" ] || return 0
    profiler=$(toolkit_program ncu bin nsight-compute extras/nsight-compute) || {
        say "$name are left out: ncu is neither on the PATH nor in the toolkit"
        return
    }
    command=("$profiler" --clock-control none --check-exit-code no --kill yes --launch-count 24
        --kernel-name 'regex:gather|observe|update' --metrics "$counted" "$build/bench/bench_conv" --quick --rounds 6
        --device "$device")
    is_time_for "$name" 40 || return 0
    running=("$id" "$name" "${command[@]}")
    begin "$id" 40 "${command[@]}"
    wait $!
    running=()
    unable ncu "$work/$id.out" 'ERR_NVGPUCTRPERM|permission|not supported|LibraryNotLoaded' && return
    tell "$id" "$name" "${command[@]}"
    sed 's/^/    /' "$work/$id.out" >>"$report"
}
