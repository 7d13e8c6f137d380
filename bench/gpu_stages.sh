# shellcheck shell=bash disable=SC2154 # dry, device, gpu, build, out, report, log, work, deadline are gpu_suite.sh's
# SPDX-License-Identifier: MIT
# Stages of the GPU suite: commands with a name, a time limit and an outcome, one after the other or several at a time.

rows=() stages=() failed=0 # of the table, and of the JSON
running=()                 # what to tell of the stage that is under way

say() { printf '%s\n' "$*" | tee -a "$report"; }
quoted() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g')"; }
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" 2>/dev/null; } # cached NAME: from the build's cache

commit() {
    local hash dirty=""
    hash=$(git rev-parse HEAD 2>/dev/null) || { echo "${GPUREPLAY_COMMIT:-unknown: no git here}" && return; }
    [ -z "$(git status --porcelain 2>/dev/null)" ] || dirty=", with changes"
    echo "$hash$dirty"
}

compilers() {
    local nvcc
    nvcc=$(cached GPUREPLAY_NVCC)
    echo "$("$(cached CMAKE_C_COMPILER)" --version 2>/dev/null | head -n 1)," \
        "nvcc $("${nvcc:-nvcc}" --version 2>/dev/null | sed -n 's/.*release //p')"
}

# run ID LIMIT COMMAND...: leaves ID.out, and "outcome seconds status" in ID.outcome. Skipped: the command is not here.
# Late: no time was left for it. Stopped: interrupted. In a shell of its own, whose command's number is in ID.pid.
run() {
    local id=$work/$1 limit=$2 left=$((deadline - SECONDS)) began=$SECONDS status=0 outcome=passed
    shift 2
    trap : INT TERM # the suite answers them, and ends the command
    if [ ! -x "$(command -v "$1")" ]; then
        echo "$1 was not built, or is not here" >"$id.out"
        echo "skipped 0 0" >"$id.outcome"
        return
    fi
    if [ "$left" -lt 1 ]; then
        : >"$id.out"
        echo "late 0 0" >"$id.outcome"
        return
    fi
    [ "$limit" -gt "$left" ] && limit=$left
    timeout --kill-after=10 "$limit" "$@" >"$id.out" 2>&1 </dev/null &
    echo $! >"$id.pid"
    wait $! || status=$?
    while kill -0 $! 2>/dev/null; do wait $!; done # a signal ends a wait too
    case $status in 0) ;; 124 | 137) outcome=timeout ;; *) outcome=failed ;; esac
    [ -e "$work/stopped" ] && [ $status -ne 0 ] && outcome=stopped
    echo "$outcome $((SECONDS - began)) $status" >"$id.outcome"
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
    sed -n 's/^\(.* tests passed, .* out of .*\)/    \1/p' "$1"
}

# tell ID NAME COMMAND...: one line of the report, one entry of the JSON; all output to the log, the end of a failure's
# to the report.
tell() {
    local id=$work/$1 name=$2 outcome seconds status
    shift 2
    read -r outcome seconds status <"$id.outcome"
    { printf '\n== %s: %s\n' "$name" "$*"; cat "$id.out"; } >>"$log"
    rows+=("$(printf '%-28s %-8s %4d s' "$name" "$outcome" "$seconds")")
    say "${rows[-1]}"
    stages+=("{\"name\": $(quoted "$name"), \"outcome\": $(quoted "$outcome"), \"seconds\": $seconds}")
    findings "$id.out" | tee -a "$report"
    case $outcome in
    passed | stopped) ;;
    skipped) say "    $(cat "$id.out")" ;;
    late) failed=$((failed + 1)) ;;
    *)
        failed=$((failed + 1))
        echo "    status $status; the last lines:" | tee -a "$report"
        tail -n "${last_lines:-15}" "$id.out" | sed 's/^/    | /' | tee -a "$report"
        ;;
    esac
}

# stage NAME LIMIT COMMAND...: fails when the command does.
stage() {
    local name=$1 id=${#stages[@]}
    running=("$id" "$name" "${@:3}")
    begin "$id" "$2" "${@:3}"
    wait $!
    running=()
    tell "$id" "$name" "${@:3}"
    grep -q '^passed' "$work/$id.outcome"
}

# told_stage: a stage whose whole output is worth a place in the report, whether it passed or not.
told_stage() {
    local id=${#stages[@]} last_lines=1000
    stage "$@" && sed 's/^/    /' "$work/$id.out" | tee -a "$report"
}

would() { say "$(printf '%-28s would run (%d s): %s' "$1" "$2" "${*:3}")"; }

# gpu_stage and gpu_told_stage: the same, or in a dry run the command.
gpu_stage() {
    if [ -n "$dry" ]; then would "$@"; else stage "$@"; fi
}
gpu_told_stage() {
    if [ -n "$dry" ]; then would "$@"; else told_stage "$@"; fi
}

# gpu_job: gpu_stage, beside as many others as there is room for; told by end_jobs, in order.
jobs_begun=() jobs_told=0
gpu_job() {
    local id=job${#jobs_begun[@]}
    if [ -n "$dry" ]; then
        would "$@"
        return
    fi
    while [ "$(jobs -pr | wc -l)" -ge 6 ]; do wait -n; done
    printf '%q ' "${@:3}" >"$work/$id.command"
    begin "$id" "$2" "${@:3}"
    jobs_begun+=("$1")
}

end_jobs() {
    local i
    wait
    while [ $jobs_told -lt ${#jobs_begun[@]} ]; do
        i=$jobs_told jobs_told=$((jobs_told + 1))
        tell "job$i" "${jobs_begun[i]}" "$(cat "$work/job$i.command")"
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
}

write_json() {
    local separator="" entry
    {
        printf '{\n  "gpu": %s,\n  "driver": %s,\n' "$(quoted "$gpu")" "$(quoted "$(asked driver_version)")"
        printf '  "commit": %s,\n  "compiler": %s,\n' "$(quoted "$(commit)")" "$(quoted "$(compilers)")"
        printf '  "when": "%s",\n  "version": %s,\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
            "$(quoted "$(cached CMAKE_PROJECT_VERSION)")"
        printf '  "dry_run": %s,\n  "failed": %d,\n' "$([ -n "$dry" ] && echo true || echo false)" "$failed"
        printf '  "stages": ['
        for entry in ${stages[@]+"${stages[@]}"}; do
            printf '%s\n    %s' "$separator" "$entry"
            separator=,
        done
        printf '\n  ]\n}\n'
    } >"$out/report.json"
}
