#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash tests/fuzz/run.sh TARGET SECONDS
#
# Runs a fuzz target for SECONDS, starting from the inputs that it writes itself. Leaves the inputs, the log and any
# input that made it fail in fuzz/, in a folder named after it, in the current folder. Exits with the target's status.
set -uo pipefail
dir=fuzz/$(basename "$1")
rm -rf "$dir" && mkdir -p "$dir/inputs" && cd "$dir" || exit 1
"$1" -max_len=16384 -timeout=300 -rss_limit_mb=2048 -print_final_stats=1 -max_total_time="$2" inputs >log 2>&1
status=$?
grep -E "ERROR|SUMMARY|runtime error|^stat::" log | head -n 30
exit $status
