#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: run_until_reported.sh PROGRAM CASE
# Runs a case with a deliberate race five times: ThreadSanitizer can miss a race between two accesses at the very same
# moment (it did so in about one run of a hundred).
for _ in 1 2 3 4 5; do
    "$1" "$2" 2>&1
done
