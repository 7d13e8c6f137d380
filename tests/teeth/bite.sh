#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bite.sh PROGRAM CASE
# ThreadSanitizer can miss two accesses at the very same moment (about one run in a hundred was seen to), so a planted
# race gets five runs to show in.
for _ in 1 2 3 4 5; do
    "$1" "$2" 2>&1
done
