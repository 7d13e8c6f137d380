# shellcheck shell=bash disable=SC2154 # dry, device, out, report, log, work, deadline, slots are gpu_suite.sh's
# SPDX-License-Identifier: MIT
# Stages of the GPU suite: commands with a name, a time limit and an outcome, one after the other or several at a time.
# While the plan is made (gpu_plan.sh) none of them runs.

rows=() failed=0 # of the table
slow=0           # tools that ended at their limits
running=()       # what to tell of the stage that is under way
refusing=""      # a command is to find no GPU, and to say so

say() { printf '%s\n' "$*" | tee -a "$report"; }

# refused STATUS OUTPUT: whether a command that was run without a GPU said what it must: 77, or a failure in which the
# library's own "no cuda:0: ..." stands. One that does not know its options says nothing of that.
refused() { [ "$1" -eq 77 ] || { [ "$1" -ne 0 ] && grep -qF "no $device: " "$2"; }; }

# outcome_of STATUS OUTPUT
outcome_of() {
    if [ -e "$work/stopped" ] && [ "$1" -ne 0 ]; then
        echo stopped
    elif [ "$1" -eq 124 ] || [ "$1" -eq 137 ]; then
        echo timeout
    elif [ -n "$refusing" ]; then
        if refused "$1" "$2"; then echo refused; else echo failed; fi
    elif [ "$1" -eq 0 ]; then
        echo passed
    else
        echo failed
    fi
}

# absent_is COMMAND: a dry run is to find every program but those that want optional packages: files, cuDNN, CUDA.
absent_is() {
    case ${dry:-no}:${1##*/} in
    no:* | *:bench_checkpoint | *:print_device) echo skipped ;;
    *:test_cuda_*) if [ -x "$(cached GPUREPLAY_NVCC)" ]; then echo missing; else echo skipped; fi ;;
    *) echo missing ;;
    esac
}

# run ID LIMIT COMMAND...: leaves ID.out, and "outcome seconds status" in ID.outcome. Skipped: the command is not here.
# Late: no time was left for it. Stopped: interrupted. In a shell of its own, whose command's number is in ID.pid.
run() {
    local id=$work/$1 limit=$2 left=$((deadline - SECONDS)) began=$SECONDS status=0
    shift 2
    trap : INT TERM # the suite answers them, and ends the command
    if [ ! -x "$(command -v "$1")" ]; then
        echo "$1 was not built, or is not here" >"$id.out"
        echo "$(absent_is "$1") 0 127" >"$id.outcome"
        return
    fi
    if [ "$left" -lt 1 ]; then
        : >"$id.out"
        echo "late 0 0" >"$id.outcome"
        return
    fi
    [ -z "$dry" ] || limit=$((60 * limit)) # that of a quiet machine; here it is to find what hangs
    [ "$limit" -gt "$left" ] && limit=$left
    timeout --kill-after=10 "$limit" "$@" >"$id.out" 2>&1 </dev/null &
    echo $! >"$id.pid"
    wait $! || status=$?
    while kill -0 $! 2>/dev/null; do wait $!; done # a signal ends a wait too
    echo "$(outcome_of $status "$id.out") $((SECONDS - began)) $status" >"$id.outcome"
}

# begin ID LIMIT COMMAND...: run beside this shell, which hears an interrupt only while it waits. ID.pid is there until
# its end.
begin() {
    : >"$work/$1.pid"
    { run "$@"; rm "$work/$1.pid"; } &
}

# What a checker or a compiler found, and which tests were skipped: worth a place in the report wherever it stands.
findings() {
    grep -m 5 ' error: ' "$1" | sed 's/^/    /'
    sed -n 's/^=* *\([A-Z]* SUMMARY: .*\)/    \1/p' "$1"
    sed -n 's/.*Test *#[0-9]*: \([^ ]*\) .*\*\*\*Skipped.*/    skipped: \1/p' "$1"
    sed -n 's/^\(.* tests passed, .* out of .*\)/    \1/p; s/^\(Total Tests: .*\)/    \1/p' "$1"
}

# fell_short ID STATUS: counts it, and puts the end of what it said into the report.
fell_short() {
    failed=$((failed + 1))
    say "    status $2; the last lines:"
    [ -z "$refusing" ] || say "    a dry run's command must find no GPU: status 77, or \"no $device: ...\""
    tail -n "${last_lines:-15}" "$work/$1.out" | sed 's/^/    | /' | tee -a "$report"
}

# told_timeout ID NAME STATUS: a tool that is slow by nature is no failure, and has shown nothing.
told_timeout() {
    if slow_tool "$2"; then
        slow=$((slow + 1))
        say "    it ended at its limit: no failure, and nothing is shown"
    else
        fell_short "$1" "$3"
    fi
}

# tell ID NAME COMMAND...: one line of the report, one entry of the JSON; all output to the log, the end of a failure's
# to the report.
tell() {
    local id=$1 name=$2 outcome seconds status
    shift 2
    read -r outcome seconds status <"$work/$id.outcome"
    { printf '\n== %s: %s\n' "$name" "$*"; cat "$work/$id.out"; } >>"$log"
    rows+=("$(printf '%-32s %-8s %4d s' "$name" "$outcome" "$seconds")")
    say "${rows[-1]}"
    findings "$work/$id.out" | tee -a "$report"
    case $outcome in
    passed | stopped | refused) ;;
    skipped) say "    $(cat "$work/$id.out")" ;;
    late) failed=$((failed + 1)) ;;
    timeout) told_timeout "$id" "$name" "$status" ;;
    *) fell_short "$id" "$status" ;;
    esac
    add_to_json "$name" "$outcome" "$seconds"
}

# What an earlier call left where this command writes its results is kept, in $out/earlier/N.
set_aside() {
    while [ $# -gt 1 ]; do
        if [ "$1" = --json ] && [ -e "$2" ]; then
            mkdir -p "$earlier"
            mv "$2" "$earlier/"
        fi
        shift
    done
}

# stage NAME LIMIT COMMAND...: fails when the command does.
stage() {
    local name=$1 id=${#rows[@]}
    planned after "$1" "$2" && return
    set_aside "${@:3}"
    running=("$id" "$name" "${@:3}")
    begin "$id" "$2" "${@:3}"
    wait $!
    running=()
    tell "$id" "$name" "${@:3}"
    grep -q '^passed' "$work/$id.outcome"
}

# told_stage: a stage whose whole output is worth a place in the report, whether it passed or not.
told_stage() {
    local id=${#rows[@]} last_lines=1000
    stage "$@" && ! planning && sed 's/^/    /' "$work/$id.out" | tee -a "$report"
}

# gpu_stage and gpu_told_stage: the same; in a dry run the command must start, know its options and find no GPU.
gpu_stage() {
    local refusing=$dry
    stage "$@" || [ -n "$dry" ]
}
gpu_told_stage() {
    if [ -n "$dry" ]; then gpu_stage "$@"; else told_stage "$@"; fi
}

# spare_stage: of use, but no reason to end anything else early: left out where its limit is more than the time left.
spare_stage() {
    planned spare "$1" "$2" && return
    if is_time_for "$1" "$2"; then gpu_told_stage "$@"; fi
}
is_time_for() {
    local left=$((deadline - SECONDS))
    [ $left -ge "$2" ] || { say "$1: left out, since $left s are left and it may take $2" && return 1; }
}

# job NAME LIMIT COMMAND...: beside as many others as there is room for; told by end_jobs, in order. told_job: all it
# says. gpu_job: in a dry run the command must find no GPU.
jobs_begun=() jobs_told=0
job() {
    local id=job${#jobs_begun[@]}
    planned beside "$1" "$2" && return
    while [ "$(jobs -pr | wc -l)" -ge "$slots" ]; do wait -n; done
    printf '%q ' "${@:3}" >"$work/$id.command"
    [ -z "$told" ] || : >"$work/$id.told"
    [ -z "$refusing" ] || : >"$work/$id.refusing"
    begin "$id" "$2" "${@:3}"
    jobs_begun+=("$1")
}
told=""
told_job() {
    local told=yes
    job "$@"
}
gpu_job() {
    local refusing=$dry
    job "$@"
}
gpu_told_job() {
    local told=yes
    gpu_job "$@"
}

tell_job() {
    local id=job$1 name=${jobs_begun[$1]} last_lines=15 refusing=""
    [ -e "$work/$id.told" ] && last_lines=1000
    [ -e "$work/$id.refusing" ] && refusing=yes
    tell "$id" "$name" "$(cat "$work/$id.command")"
    [ -e "$work/$id.told" ] && grep -q '^passed' "$work/$id.outcome" &&
        sed 's/^/    /' "$work/$id.out" | tee -a "$report"
}

end_jobs() {
    planning && return
    wait
    while [ $jobs_told -lt ${#jobs_begun[@]} ]; do
        jobs_told=$((jobs_told + 1))
        tell_job $((jobs_told - 1))
    done
}

# At Ctrl-C, or a kill: `timeout` gave each command a process group of its own, which the terminal does not reach.
interrupted() {
    local pids i
    trap '' INT TERM
    : >"$work/stopped"
    for ((i = 0; i < 150; i++)); do
        pids=$(cat "$work"/*.pid 2>/dev/null) || break
        # shellcheck disable=SC2086 # numbers are words
        kill $pids 2>/dev/null
        sleep 0.1
    done
    [ ${#running[@]} -eq 0 ] || tell "${running[@]}"
    end_jobs
    table
    say "interrupted"
    exit 130
}

table() {
    say ""
    say "$(printf '%s\n' ${rows[@]+"${rows[@]}"})"
    say "$failed of ${#rows[@]} stages failed; $SECONDS s in all; $report"
    [ "$slow" -eq 0 ] || say "$slow of NVIDIA's tools ended at their limits, and have shown nothing"
    [ -z "$dry" ] || say "A dry run: no GPU was used, nothing was measured, and nothing was shown of any GPU."
}
