#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash bench/peers/setup.sh [--python COMMAND]
#
# Makes a virtual environment in build/peers with the libraries that bench/peers/peers.py compares with, in the versions
# of bench/peers/requirements.txt, and with this repository. Downloads some gigabytes, and takes six of disk.
#   --python COMMAND  a Python of 3.11 or newer, which those versions need (python3)
#   --help            this text
# Exit status: 1 when a library could not be installed, of which peers.py then says that it is not here; 2 when nothing
# could, or this repository could not.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../../tests/shell.sh
. "$(dirname "$0")/../../tests/shell.sh"
script=bench/peers/setup.sh

python=python3
while [ $# -gt 0 ]; do
    case $1 in
    --python) wants "a command" "$a_word" "${@:1:2}"; python=$2; shift ;;
    --help | -h) usage; exit 0 ;;
    *) refuse_unknown "$1" ;;
    esac
    shift
done

folder=build/peers pins=bench/peers/requirements.txt
log=$folder/setup.log
have "$python" || refuse "--python is \"$python\"; it must be a command that is here"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    refuse "$python is Python $version; it must be 3.11 or newer (--python COMMAND)"

# step NAME COMMAND...: says what is under way and how it ended; its own words go to the log.
step() {
    local name=$1
    shift
    printf '%-40s' "$name"
    echo "== $name: $*" >>"$log"
    if "$@" >>"$log" 2>&1; then echo "done"; else echo "FAILED" && return 1; fi
}

give_up() {
    tail -n 20 "$log" >&2
    echo "$script: $1; the whole of it is in $log" >&2
    exit 2
}

mkdir -p "$folder"
: >"$log"
step "virtual environment, Python $version" "$python" -m venv "$folder" || give_up "the virtual environment failed"
pip=("$folder/bin/python" -m pip install --disable-pip-version-check --constraint "$pins")
mapfile -t packages < <(sed -n '/^$/q; s/^\([a-z].*\)/\1/p' "$pins")
failed=()
number=0
for package in "${packages[@]}"; do
    number=$((number + 1))
    step "$package ($number of ${#packages[@]})" "${pip[@]}" "$package" || failed+=("$package")
done
[ ${#failed[@]} -lt ${#packages[@]} ] || give_up "no library could be installed"
step "this repository" "${pip[@]}" . || give_up "this repository could not be installed"

echo
echo "Compare: $folder/bin/python bench/peers/peers.py --json peers.json"
[ ${#failed[@]} = 0 ] || { echo "$script: not installed: ${failed[*]}; why is in $log" >&2 && exit 1; }
