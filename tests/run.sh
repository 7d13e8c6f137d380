#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash tests/run.sh [--all] [--only NAME] [--long] [--device DEVICES] [--no-install]
#
# Installs what is missing, builds the library as most people have it, with warnings as errors, and runs the tests.
#   --all          every configuration: another compiler, no optional package, sanitizers; and every test
#   --only NAME    only this configuration of --all; may be given several times; or other machines: aarch64, macos
#   --long         full counts in the randomized tests (GPUR_TEST_LONG=1)
#   --device D     devices to test, separated by semicolons; default "cpu;cuda:0"
#   --no-install   install nothing, neither Debian nor Python packages
#   --help         this text
# Exit status: 0 when all is green, 1 when not, or when --only names one that cannot run here. Logs lie in
# build/tests/NAME/.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=shell.sh
. "$(dirname "$0")/shell.sh"

configurations=(gcc asan race-asan tsan race fuzz)
other_machines=(aarch64 macos) # --all leaves them out
describe() {
    case $1 in
    gcc) echo "gcc, Release, every optional package, benchmarks, the CUDA device where there is nvcc" ;;
    asan) echo "clang, AddressSanitizer and UndefinedBehaviorSanitizer, without oneDNN" ;;
    race-asan) echo "gcc, the same, no optional package, and kernels in the form that a GPU runs" ;;
    tsan) echo "gcc, ThreadSanitizer" ;;
    race) echo "gcc, ThreadSanitizer, and kernels in the form that a GPU runs" ;;
    aarch64) echo "gcc for aarch64 Linux; C tests that start no process, by qemu-user" ;;
    macos) echo "clang for macOS on arm64, no optional package: compiled and linked, nothing is run" ;;
    fuzz) echo "clang, libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer, 20 s (--long: 600)" ;;
    *) return 1 ;;
    esac
}
flags_of() {
    case $1 in
    gcc) echo "-DCMAKE_C_COMPILER=gcc -DGPUREPLAY_BENCH=ON" ;;
    asan)
        echo "-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DGPUREPLAY_SANITIZE=address,undefined" \
            "-DCMAKE_C_FLAGS_RELEASE=-O1 -DGPUREPLAY_DNNL=OFF $lean"
        ;;
    tsan) echo "-DCMAKE_C_COMPILER=gcc -DGPUREPLAY_SANITIZE=thread -DCMAKE_C_FLAGS_RELEASE=-O1 $lean" ;;
    race-asan) echo "-DGPUREPLAY_SANITIZE=address,undefined -DGPUREPLAY_DNNL=OFF -DGPUREPLAY_ZSTD=OFF $race_flags" ;;
    race) echo "-DGPUREPLAY_SANITIZE=thread $race_flags" ;;
    aarch64) echo "-DCMAKE_TOOLCHAIN_FILE=src/cmake/aarch64.cmake $lean" ;;
    macos)
        echo "-DCMAKE_SYSTEM_NAME=Darwin -DCMAKE_SYSTEM_PROCESSOR=arm64 -DCMAKE_C_COMPILER=$PWD/build/macos/cc" \
            "-DPython_NumPy_INCLUDE_DIR=$PWD/build/macos/site/numpy/_core/include -DGPUREPLAY_PYTHON=ON" \
            "-DGPUREPLAY_TESTS=OFF -DGPUREPLAY_BLAS=OFF -DGPUREPLAY_DNNL=OFF -DGPUREPLAY_FILES=OFF" \
            "-DGPUREPLAY_ZSTD=OFF $lean"
        ;;
    fuzz)
        echo "-DCMAKE_C_COMPILER=clang -DGPUREPLAY_FUZZ=ON -DGPUREPLAY_SANITIZE=address,undefined" \
            "-DGPUREPLAY_EXAMPLES=OFF -DGPUREPLAY_FILES=ON -DCMAKE_C_FLAGS_RELEASE=-O1" \
            "-DGPUREPLAY_FUZZ_SECONDS=$fuzz_seconds $lean"
        ;;
    esac
}
lean="-DGPUREPLAY_CUDA=OFF -DGPUREPLAY_BENCH=OFF"
race_flags="-DCMAKE_C_COMPILER=gcc -DGPUREPLAY_RACE_CHECK=ON -DGPUREPLAY_BLAS=OFF -DCMAKE_C_FLAGS_RELEASE=-O1 $lean"

fuzz_seconds=20
chosen=() devices="cpu;cuda:0" install=yes with_more="" is_named=""
# Those that build ALE, the reference, a wheel or the library once more, need Ray, stop programs, or repeat a test with
# the other one; the last is for asan, which sees leaks.
slow='atari|ray|reference|stops|wheel|install_fetch_content|train.*_in_python|out_of_memory[.]'
while [ $# -gt 0 ]; do
    case $1 in
    --all) chosen=("${configurations[@]}") slow='out_of_memory[.]' with_more=yes ;;
    --only)
        known="${configurations[*]} ${other_machines[*]}"
        wants "one of $known" "${known// /|}" "${@:1:2}"
        chosen+=("$2") slow='out_of_memory[.]' with_more=yes is_named=yes && shift
        ;;
    --long) export GPUR_TEST_LONG=1 && fuzz_seconds=600 slow='^$' with_more=yes ;;
    --device)
        wants "devices, separated by semicolons" "$a_word" "${@:1:2}"
        devices=$2 && shift
        ;;
    --no-install) install=no ;;
    -h | --help) usage && exit ;;
    *) refuse_unknown "$1" ;;
    esac
    shift
done
[ ${#chosen[@]} -gt 0 ] || chosen=("${configurations[0]}")

out=$PWD/build/tests
mkdir -p "$out"
# shellcheck source-path=SCRIPTDIR source=packages.sh
. tests/packages.sh
python=python3
if [ $install = yes ]; then
    install_packages
    make_venv "$PWD/build/venv" "$with_more" ||
        echo "== no Python environment (build/tests/venv.log): tests that need one are skipped"
fi
[ ! -x build/venv/bin/python ] || python=$PWD/build/venv/bin/python

jobs=$(nproc)

# Says why a configuration cannot be built here; says nothing when it can.
why_not() {
    local compiler=gcc
    case $1 in
    asan | fuzz) compiler=clang ;;
    aarch64)
        have aarch64-linux-gnu-g++ && have qemu-aarch64-static ||
            { echo "no compiler or no qemu (Debian: apt install g++-aarch64-linux-gnu qemu-user-static)" && return; }
        make_aarch64 "$PWD/build/aarch64" >"$out/aarch64.log" 2>&1 || echo "no libraries: build/tests/aarch64.log"
        ;;
    macos) make_macos "$PWD/build/macos" >"$out/macos.log" 2>&1 || echo "no zig: build/tests/macos.log" ;;
    esac
    have $compiler || { echo "no $compiler" && return; }
    [ $compiler = clang ] || return 0
    is_here /libfuzzer || echo "this clang has no sanitizers and no libFuzzer (Debian: apt install libclang-rt-dev)"
    [ "$1" = fuzz ] || return 0
    is_here /usr/include/cjson/cJSON.h && is_here /usr/include/xxhash.h || echo "no cJSON or no xxHash"
}

# gcc's ThreadSanitizer needs a plain layout of memory, which newer kernels randomize away.
plain_layout() { if setarch "$(uname -m)" -R true 2>/dev/null; then setarch "$(uname -m)" -R "$@"; else "$@"; fi; }

# configure NAME DIR
configure() {
    local here=cpu more=()
    [ "$1" = gcc ] && here=$devices
    [ "${GPUR_TEST_LONG:-}" = 1 ] && more=(-DGPUREPLAY_TEST_TIMEOUT=14400)
    choose_generator "$2"
    [ "$1" = aarch64 ] || more+=(-DPython3_EXECUTABLE="$(command -v "$python")")
    # shellcheck disable=SC2046 # flags are words
    cmake -S . -B "$2" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release -DGPUREPLAY_WERROR=ON -DGPUREPLAY_TESTS=ON \
        -DGPUREPLAY_TEST_DEVICES="$here" "${more[@]}" $(flags_of "$1")
}

# Tests that start programs for aarch64, which takes more than qemu-user, fork threads, or are for this machine's own.
not_by_qemu='apex_(dpg|folder|processes)|checkpoint_kill|example_|cartpole|fork|install|prefetch|stops|symbols'

# tests_of NAME: which of the tests that it has, as options of ctest. The first configuration has all of them.
tests_of() {
    case $1 in
    gcc) echo "-E ^test_($slow)" ;;
    aarch64) echo "-LE once -E $not_by_qemu" ;;
    *) echo "-LE once" ;;
    esac
}

# build_and_test NAME: leaves {configure,build,test}.log in build/tests/NAME; sets `summary`; fails when a step does.
build_and_test() {
    local dir=$out/$1 status chosen_tests
    mkdir -p "$dir"
    if ! configure "$1" "$dir" >"$dir/configure.log" 2>&1; then
        tail -n 30 "$dir/configure.log"
        summary="configuring failed" && return 1
    fi
    if ! cmake --build "$dir" --parallel "$jobs" >"$dir/build.log" 2>&1; then
        grep -E -A 8 "error|FAILED|undefined reference" "$dir/build.log" | head -n 60
        summary="building failed" && return 1
    fi
    [ "$1" != macos ] || { summary="compiled and linked" && return; }
    read -ra chosen_tests <<<"$(tests_of "$1")"
    # One more than there are cores, since some tests mostly wait for processes and threads.
    (cd "$dir" && plain_layout ctest --parallel $((jobs + 1)) "${chosen_tests[@]}" --output-on-failure) \
        >"$dir/test.log" 2>&1
    status=$?
    report_tests "$dir"
    return $status
}

# Prints the output of each failing test, and why others were skipped; sets `summary` to ctest's.
report_tests() {
    awk 'FNR == NR && match($0, /[*][*][*](Failed|Timeout|Exception|Skipped)/) { state[$4] = substr($0, RSTART + 3) }
        FNR == NR { next }
        / Testing: / { name = $3 }
        state[name] ~ /^(Failed|Timeout|Exception)/ { print "   " $0 }
        /^<end of output>/ && state[name] ~ /^Skipped/ { sub(/^test_[a-z0-9_]+: /, "", last); reasons[last]++ }
        { last = $0 }
        END { for (reason in reasons) print "   skipped " reasons[reason] ": " reason }' \
        "$1/test.log" "$1/Testing/Temporary/LastTest.log"
    summary=$(grep "% tests passed" "$1/test.log" || tail -n 1 "$1/test.log")
}

table=() failed=0
for name in "${chosen[@]}"; do
    echo "== $name: $(describe "$name")"
    reason=$(why_not "$name")
    if [ -n "$reason" ]; then
        echo "   skipped: $reason"
        table+=("$(printf '%-9s skipped  %s' "$name" "$reason")")
        [ -z "$is_named" ] || failed=1 # one that was asked for by its name has not been tested
        continue
    fi
    begin=$SECONDS verdict=green
    build_and_test "$name" || { verdict=RED && failed=1; }
    seconds=$((SECONDS - begin))
    table+=("$(printf '%-9s %-7s %5d s %s' "$name" $verdict $seconds "$summary")")
done

echo
printf '%s\n' "${table[@]}"
color() { if [ -t 1 ]; then printf '\033[%sm%s\033[0m\n' "$1" "$2"; else echo "$2"; fi; }
if [ $failed = 0 ]; then
    color 32 "all green, in $SECONDS s"
else
    color 31 "RED: see above, and the logs in build/tests/"
fi
exit $failed
