#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: run.sh SOURCE_DIR OUTPUT_DIR
# Makes the reference of the public headers with Doxygen; a declaration without its comment is a failure.
set -euo pipefail
source_dir=$1 out=$2
command -v doxygen >/dev/null || { echo "doxygen is not here (Debian: apt install doxygen)" && exit 77; }
rm -rf "$out/html" && mkdir -p "$out"
cat >"$out/Doxyfile" <<TEXT
PROJECT_NAME           = libgpureplay
INPUT                  = "$source_dir/include"
OUTPUT_DIRECTORY       = "$out"
RECURSIVE              = YES
INPUT_FILTER           = "sed -f '$source_dir/tests/doxygen/filter.sed'"
JAVADOC_AUTOBRIEF      = YES
OPTIMIZE_OUTPUT_FOR_C  = YES
MARKDOWN_SUPPORT       = NO
MACRO_EXPANSION        = YES
EXPAND_ONLY_PREDEF     = YES
PREDEFINED             = GPUR_API=
GENERATE_LATEX         = NO
HAVE_DOT               = NO
QUIET                  = YES
TEXT
doxygen "$out/Doxyfile" >"$out/said.txt" 2>&1 || { cat "$out/said.txt" && echo "doxygen failed" && exit 1; }
# The version macros share one comment, and GPUR_API is not part of the interface.
if grep -v 'Member GPUR_\(VERSION_M\|VERSION_P\|API\)' "$out/said.txt"; then
    exit 1
fi
grep -rq gpur_replay_sample "$out/html" || { echo "no page names gpur_replay_sample" && exit 1; }
