# shellcheck shell=bash disable=SC2034 # what is set here is the scripts'
# SPDX-License-Identifier: MIT
# What the scripts share: they source it first. It leaves the repository's root as the working folder.

called_from=$PWD
script_file=$(cd "$(dirname "$0")" && pwd)/${0##*/}
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
script=${script_file#"$PWD"/} # as messages name it

have() { command -v "$1" >/dev/null 2>&1; }

# The first Python that has matplotlib: a package of Debian's is seen only by Debian's own Python.
python_with_matplotlib() {
    local python
    for python in python3 .venv/bin/python /usr/bin/python3; do
        if have "$python" && "$python" -c 'import matplotlib' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    return 1
}

# A path as the caller meant it, seen from the root.
from_here() {
    case $called_from:$1 in
    "$PWD":* | *:/*) echo "$1" ;;
    *) echo "$called_from/$1" ;;
    esac
}

# apt_for FOLDER ARCHITECTURE: from now on apt has lists in that folder, of the system's sources, for an architecture.
apt_for() {
    local list
    mkdir -p "$1/lists/partial" "$1/apt/parts" "$1/apt/partial" && rm -f "$1/apt/parts"/*
    cat >"$1/apt/conf" <<END
APT::Architecture "$2";
APT::Architectures "$2";
Dir::Etc::SourceList "$1/apt/sources.list";
Dir::Etc::SourceParts "$1/apt/parts";
Dir::State::Lists "$1/lists";
Dir::State::Status "/dev/null";
Dir::Cache::Archives "$1/apt";
APT::Sandbox::User "root";
END
    : >"$1/apt/sources.list"
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/ubuntu.sources; do
        [ -f "$list" ] || continue
        case $list in
        *.list) sed -n 's/^deb \(.*\)/deb \1\ndeb-src \1/p' "$list" >"$1/apt/sources.list" ;;
        *) sed 's/^Types:.*/Types: deb deb-src/' "$list" >"$1/apt/parts/${list##*/}" ;;
        esac
    done
    export APT_CONFIG=$1/apt/conf
}

# The comment at the script's head is its help.
usage() { sed -n '/^# usage:/,/^[^#]/s/^# \{0,1\}//p' "$script_file"; }

# Refuses, with what was given and what is wanted.
refuse() {
    echo "$script: $1; --help tells more" >&2
    exit 2
}

# refuse_unknown OPTION: names those of the help.
refuse_unknown() {
    local known
    known=$(usage | sed -n 's/^ \{1,\}\(--[a-z-]*\).*/\1/p' | tr '\n' ' ')
    refuse "unknown option \"$1\"; known are ${known% }"
}

# wants WHAT PATTERN OPTION [VALUE]: refuses a value that is missing or does not match.
a_word='[^-].*' # no "--out --quick", which would take the next option for a folder
a_count='[1-9][0-9]{0,8}'
a_number='[0-9]+'
wants() {
    [ $# -gt 3 ] || refuse "$3 has no value; it must be $1"
    [[ $4 =~ ^($2)$ ]] || refuse "$3 is \"$4\"; it must be $1"
}

# choose_generator DIR: sets `generator` to options of cmake's. A folder that was configured keeps what it has, since
# cmake refuses to change it; one whose configuring failed begins anew.
choose_generator() {
    generator=()
    if [ -f "$1/build.ninja" ] || [ -f "$1/Makefile" ]; then return; fi
    rm -rf "$1/CMakeCache.txt" "$1/CMakeFiles"
    if have ninja; then generator=(-G Ninja); fi
}

# Shows the builder's own "[3/40]" or "[ 10%]" in place on a terminal, and nothing elsewhere.
show_steps() {
    local line
    while IFS= read -r line; do
        if [ -t 1 ] && [[ $line == \[* ]]; then printf '\r%s]\e[K' "${line%%]*}"; fi
    done
    if [ -t 1 ]; then printf '\r\e[K'; fi
}

# configure_and_build DIR TARGET OPTION...: says nothing while all is well.
configure_and_build() {
    local folder=$1 target=$2
    choose_generator "$folder"
    cmake -S . -B "$folder" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release "${@:3}" \
        >"$folder/log" 2>&1 || return
    cmake --build "$folder" --parallel "$(nproc)" --target "$target" 2>&1 | tee -a "$folder/log" | show_steps
}

# build DIR TARGET OPTION...: a build that fails shows the end of its log, and ends the script with status 2.
build() {
    mkdir -p "$1" || exit 2
    if ! configure_and_build "$@"; then
        tail -n 30 "$1/log" >&2
        echo "$script: the build failed; the whole of it is in $1/log" >&2
        exit 2
    fi
}
