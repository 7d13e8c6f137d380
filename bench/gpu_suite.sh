#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash bench/gpu_suite.sh [--part NAME] [--dry-run] [--built DIR] [--out DIR]
#
# All that needs a GPU: builds, proves, measures, and says what stands against each goal. Needs bash, cmake, a C
# compiler, nvcc, and ninja or make; whatever else is not there is left out with a sentence.
#   --part NAME  570 s of: prove, tests on the GPU, the GPU against the CPU number by number, a soak, compute-sanitizer;
#                measure, what everything takes, goals and decisions, whole trainings; peers, replay in RAM, PyTorch and
#                JAX on the same GPU in the same run, pictures; all, as much of that as there is time for, what matters
#                most first (all)
#   --dry-run    does what can be done without a GPU: every command starts and must refuse; shows the plan, and refuses
#                one that does not fit. Measures nothing
#   --built DIR  uses this build and makes none. Without it build/gpu is used where it is of these sources
#   --out DIR    reports, logs, the benchmarks' JSON, pictures (bench/results/NAME-OF-THE-GPU). What another part
#                left there stays, and what the same part left there is kept in DIR/earlier
#   --help       this text
# Every stage has its time limit, and a failing one does not stop the rest. What replay on a GPU must show is a stage,
# too: a figure that falls short fails it. Exits with 1 if any failed, and with 130 if it was interrupted; what it has
# found until then is in the report.
# All that is in DIR is also in DIR/results.tar.gz, to be taken away as one file.
# GPUREPLAY_GPU_SECONDS: for the part. GPUREPLAY_GPU_DEVICE: cuda:0. GPUREPLAY_COMMIT: what the reports name as the
# commit; must be given where there is no git.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=../tests/shell.sh
. "$(dirname "$0")/../tests/shell.sh"

dry="" built="" out="" part=all
while [ $# -gt 0 ]; do
    case $1 in
    --part) wants "prove, measure, peers or all" "prove|measure|peers|all" "${@:1:2}"; part=$2; shift ;;
    --dry-run) dry=yes ;;
    --built) wants "a folder" "$a_word" "${@:1:2}"; built=$(from_here "$2"); shift ;;
    --out) wants "a folder" "$a_word" "${@:1:2}"; out=$(from_here "$2"); shift ;;
    --help | -h) usage; exit 0 ;;
    *) refuse_unknown "$1" ;;
    esac
    shift
done

# shellcheck source-path=SCRIPTDIR source=gpu_report.sh
. bench/gpu_report.sh
# shellcheck source-path=SCRIPTDIR source=gpu_plan.sh
. bench/gpu_plan.sh
# shellcheck source-path=SCRIPTDIR source=gpu_stages.sh
. bench/gpu_stages.sh
# shellcheck source-path=SCRIPTDIR source=gpu_tools.sh
. bench/gpu_tools.sh
# shellcheck source-path=SCRIPTDIR source=gpu_parts.sh
. bench/gpu_parts.sh

most=570 # seconds of a part, each of which may be one call of ten minutes
slots=12 # jobs at a time; the machine this is for has 16 cores
tested=${GPUREPLAY_GPU_DEVICE:-cuda:0}
[[ $tested =~ ^cuda:[0-9]+$ ]] || refuse "GPUREPLAY_GPU_DEVICE is \"$tested\"; it must be cuda:0, cuda:1 ..."
device=$tested build=$(realpath -m "${built:-build/gpu}")
gpu=$(asked name) seconds=${GPUREPLAY_GPU_SECONDS:-$most}
deadline=$((SECONDS + seconds))
if [ -z "$out" ] && [ -n "$dry" ]; then
    out=build/gpu-dry-run
elif [ -z "$out" ]; then
    out=bench/results/$(tr '[:upper:] ' '[:lower:]-' <<<"${gpu:-no gpu}")
fi
[ -z "$dry" ] || [ -z "$gpu" ] || device=cuda:99 # that nobody has: a dry run measures nothing
[ -n "$dry" ] || [ -n "${GPUREPLAY_COMMIT:-}" ] || git rev-parse HEAD >/dev/null 2>&1 ||
    refuse "there is no git here to name the commit that is measured; give it as GPUREPLAY_COMMIT"
mkdir -p "$out" || exit 2
out=$(realpath "$out")

# Each part has reports of its own; what an earlier call of it left is kept.
for ((number = 1; ; number++)); do [ -e "$out/earlier/$number" ] || break; done
earlier=$out/earlier/$number suffix=$([ "$part" = all ] || echo "-$part")
report=$out/report$suffix.txt json_report=$out/report$suffix.json log=$out/log$suffix.txt work=$(mktemp -d)
for file in "$report" "$json_report" "$log"; do set_aside --json "$file"; done
: >"$report"
: >"$log"
trap 'write_json; pack; rm -rf "$work"' EXIT
trap interrupted INT TERM

# pip's CUDA libraries lie in the environment of python3, which is not always an activated one.
if [ -z "${VIRTUAL_ENV:-}" ] && command -v python3 >/dev/null; then
    VIRTUAL_ENV=$(python3 -c 'import sys; print(sys.prefix if sys.prefix != sys.base_prefix else "")')
    export VIRTUAL_ENV
fi
export GPUREPLAY_MODULE_DIR=$build

if [ -n "$dry" ]; then
    say "DRY RUN: without a GPU. It measures nothing and shows nothing of any GPU. \"refused\" is a command that"
    say "started, knew its options and found no $device, as it must."
fi
say "GPU:      ${gpu:-none that nvidia-smi shows}, driver $(asked driver_version)"
say "commit:   $(commit)"
[ -z "$dry" ] || make_plans
"${part}_part"
table
[ "$failed" -eq 0 ]
