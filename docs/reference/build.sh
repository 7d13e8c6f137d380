#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash docs/reference/build.sh [--library libgpureplay.so] [--python PYTHON] [--out FOLDER]
#
# Builds the reference as HTML: of every header, module and guide. Each warning is an error. What is missing is made:
# the library, without CUDA, and an environment with Sphinx from PyPI.
#   --library FILE   a library of this version, built with JAX
#   --python PYTHON  a Python that has Sphinx, myst-parser, sphinx-rtd-theme, NumPy, Gymnasium and JAX
#   --out FOLDER     default build/reference; its html/index.html is the first page
#   --help           this text
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../../tests/shell.sh
. "$(dirname "$0")/../../tests/shell.sh"

library='' python='' out=$PWD/build/reference
while [ $# -gt 0 ]; do
    case $1 in
    --library) wants "a file" "$a_word" "${@:1:2}" && library=$(realpath "$(from_here "$2")") && shift ;;
    --python) wants "a program" "$a_word" "${@:1:2}" && python=$(command -v "$2") && shift ;;
    --out) wants "a folder" "$a_word" "${@:1:2}" && out=$(from_here "$2") && shift ;;
    -h | --help) usage && exit ;;
    *) refuse_unknown "$1" ;;
    esac
    shift
done

if [ -z "$python" ]; then
    python=$PWD/build/reference/venv/bin/python
    [ -x "$python" ] || python3 -m venv build/reference/venv
    "$python" -m pip install --quiet sphinx myst-parser sphinx-rtd-theme numpy "gymnasium>=1.1" jax
fi
if [ -z "$library" ]; then # with that of gpureplay.jax beside it, for this Python's jaxlib
    build build/reference/library all -DGPUREPLAY_CUDA=OFF -DGPUREPLAY_EXAMPLES=OFF -DGPUREPLAY_PYTHON=ON \
        -DPython_EXECUTABLE="$python"
    library=$PWD/build/reference/library/libgpureplay.so
fi

export GPUREPLAY_LIBRARY=$library GPUREPLAY_FAST=off PYTHONPATH=$PWD/src/python PYTHONDONTWRITEBYTECODE=1
"$python" docs/reference/pages.py "$out/source"
"$python" -m sphinx -q -E -W --keep-going -n -c docs/reference -d "$out/doctrees" -b html "$out/source" "$out/html"
echo "$out/html/index.html"
