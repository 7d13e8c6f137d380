#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bash examples/quickstart.sh [--yes | --no-install] [options of the training]
#
# Builds the library and trains a dueling double-DQN agent on CartPole-v1 until 100 greedy episodes return 475 on
# average. From a fresh clone: it looks for what is missing first, and draws the learning curve at the end.
#
#   --yes         install missing Debian packages without asking (with sudo, unless root)
#   --no-install  install nothing
#   --help        this text
#
# Of the training:
#   --device NAME   auto, cpu or cuda:N
#   --seed N        the same seed trains alike
#   --steps N       give up after so many environment steps
#   --out FOLDER    where the learning curve, its picture, and the learner go (runs/cartpole)
#
# On a terminal it asks before it installs. Elsewhere it installs only as root, and else names what to install.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../tests/shell.sh
. "$(dirname "$0")/../tests/shell.sh"
folder=build/quickstart

# take_training_option OPTION [VALUE]: before anything is installed or built. Ranges are the program's to check.
take_training_option() {
    case $1 in
    --device) wants "auto, cpu or cuda:N" "$a_word" "$@" ;;
    --seed | --steps) wants "a whole number" "$a_number" "$@" ;;
    --out) wants "a folder" "$a_word" "$@" ;;
    *) refuse_unknown "$1" ;;
    esac
    case $1 in
    --out) out=$(from_here "$2") ;;
    *) options+=("$1" "$2") ;;
    esac
}

# Colors only on a terminal.
bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
say() { printf '%s%s%s\n' "$bold" "$*" "$plain"; }

have_openblas() {
    local file
    for file in /usr/lib/*/openblas-*/libopenblas.so /usr/lib/*/libopenblas.so /usr/lib*/libopenblas.so; do
        [ -e "$file" ] && return
    done
    return 1
}

# Sets needed (nothing goes without) and wanted (faster products, files to go on from, a picture) to lists of Debian
# packages.
look_what_is_missing() {
    needed=() wanted=()
    have cmake || needed+=(cmake)
    have cc || have gcc || have clang || needed+=(gcc libc6-dev)
    have ninja || have make || needed+=(ninja-build)
    have_openblas || wanted+=(libopenblas-openmp-dev)
    [ -e /usr/include/cjson/cJSON.h ] || wanted+=(libcjson-dev)
    [ -e /usr/include/xxhash.h ] || wanted+=(libxxhash-dev)
    python_with_matplotlib >/dev/null || wanted+=(python3-matplotlib)
}

run_apt() {
    local log apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)
    log=$(mktemp)
    if "${apt[@]}" update >"$log" 2>&1 && "${apt[@]}" install -y --no-install-recommends "$@" >>"$log" 2>&1; then
        rm -f "$log"
        return
    fi
    tail -n 15 "$log" >&2
    rm -f "$log"
    return 1
}

# May we install? By --yes, as root where nobody can be asked, or by a yes on the terminal.
may_install() {
    local answer
    [ "$install" = never ] && return 1
    [ "$install" = always ] && return
    if [ -t 0 ] && [ -t 1 ]; then
        read -r -p "${as_root[*]} apt-get install $* ? [Y/n] " answer
        case $answer in '' | y | Y | yes) return ;; *) return 1 ;; esac
    fi
    [ "$(id -u)" = 0 ]
}

go_without() {
    if [ ${#needed[@]} -gt 0 ]; then
        echo "Cannot build without: ${needed[*]}. Debian: apt-get install ${needed[*]}" >&2
        exit 2
    fi
    echo "Going on without ${wanted[*]}. Debian: apt-get install ${wanted[*]}"
}

install_what_is_missing() {
    look_what_is_missing
    local packages=("${needed[@]}" "${wanted[@]}")
    [ ${#packages[@]} -eq 0 ] && return
    as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    if ! have apt-get || ! have "${as_root[0]:-env}" || ! may_install "${packages[@]}"; then
        go_without
        return
    fi
    say "Installing ${packages[*]}"
    if ! run_apt "${packages[@]}"; then
        look_what_is_missing
        go_without
    fi
}

train() {
    say "Training"
    status=0
    mkdir -p "$out"
    "$folder/examples/cartpole_dqn" --out "$out" "${options[@]}" || status=$?
}

draw_curve() {
    local python
    if ! python=$(python_with_matplotlib); then
        echo "no picture: matplotlib is not installed (Debian: apt-get install python3-matplotlib)"
    elif ! "$python" examples/plot_curve.py "$out/curve.csv" "$out/curve.png" >/dev/null; then
        echo "no picture: examples/plot_curve.py failed"
    else
        echo "picture:        $out/curve.png"
    fi
}

install=ask options=()
out=runs/cartpole
[ "$called_from" = "$PWD" ] || out=$PWD/$out
while [ $# -gt 0 ]; do
    case $1 in
    --yes) install=always ;;
    --no-install) install=never ;;
    --help | -h) usage; exit 0 ;;
    --*=*) take_training_option "${1%%=*}" "${1#*=}" ;;
    *) take_training_option "${@:1:2}"; shift ;;
    esac
    shift
done

install_what_is_missing
say "Building in $folder"
build "$folder" cartpole_dqn
train
if [ "$status" -ne 2 ]; then draw_curve; fi
exit "$status"
