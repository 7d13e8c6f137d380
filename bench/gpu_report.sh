# shellcheck shell=bash disable=SC2154 # dry, part, gpu, device, build, out, json_report, failed are gpu_suite.sh's
# SPDX-License-Identifier: MIT
# What the GPU suite's report tells of the machine and of the sources, and the report as JSON.

quoted() { printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g')"; }
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" 2>/dev/null; } # cached NAME: from the build's cache

# asked FIELD: what nvidia-smi says of the device, or nothing.
asked() { nvidia-smi --id="${device#cuda:}" --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1; }

commit() {
    local hash dirty=""
    hash=$(git rev-parse HEAD 2>/dev/null) || { echo "${GPUREPLAY_COMMIT:-unknown: no git here}" && return; }
    # The report itself lies in bench/results.
    [ -z "$(git status --porcelain -- ':(top,exclude)bench/results' 2>/dev/null)" ] || dirty=", with changes"
    echo "$hash$dirty"
}

compilers() {
    local nvcc
    nvcc=$(cached GPUREPLAY_NVCC)
    echo "$("$(cached CMAKE_C_COMPILER)" --version 2>/dev/null | head -n 1)," \
        "nvcc $("${nvcc:-nvcc}" --version 2>/dev/null | sed -n 's/.*release //p')"
}

# The sources as a number, by their contents: in a copy of the tree all files are new. Nothing where a tool is missing.
sources() {
    have cksum && have xargs || return 0
    find CMakeLists.txt src kernels include tests bench examples -type f ! -path '*/results/*' ! -name '*.pyc' |
        LC_ALL=C sort | xargs -d '\n' cksum | cksum
}

# All results as one file among them, but for a dry run's, which are none.
pack() {
    [ -n "$dry" ] || ! have tar || { tar -czf "$work/results.tar.gz" -C "$out" --exclude=results.tar.gz . &&
        mv "$work/results.tar.gz" "$out/"; }
}

# add_to_json NAME OUTCOME SECONDS: and writes it at once, in case nobody lets the suite end.
stages=() head_of_json=""
add_to_json() {
    stages+=("{\"name\": $(quoted "$1"), \"outcome\": $(quoted "$2"), \"seconds\": $3}")
    write_json
}

# What does not change any more once there is a build; asked for once.
know_the_machine() {
    head_of_json=$(
        printf '  "part": %s,\n  "gpu": %s,\n' "$(quoted "$part")" "$(quoted "$gpu")"
        printf '  "driver": %s,\n  "commit": %s,\n' "$(quoted "$(asked driver_version)")" "$(quoted "$(commit)")"
        printf '  "compiler": %s,\n  "version": %s,\n' "$(quoted "$(compilers)")" \
            "$(quoted "$(cached CMAKE_PROJECT_VERSION)")"
        printf '  "dry_run": %s,' "$([ -n "$dry" ] && echo true || echo false)"
    )
}

write_json() {
    local separator="" entry
    [ -n "$head_of_json" ] || know_the_machine
    {
        printf '{\n%s\n' "$head_of_json"
        printf '  "when": "%s",\n  "failed": %d,\n  "stages": [' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$failed"
        for entry in ${stages[@]+"${stages[@]}"}; do
            printf '%s\n    %s' "$separator" "$entry"
            separator=,
        done
        printf '\n  ]\n}\n'
    } >"$json_report"
}
