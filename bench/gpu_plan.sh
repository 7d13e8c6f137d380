# shellcheck shell=bash disable=SC2154,SC2034 # slots, dry, part, seconds, most are gpu_suite.sh's
# SPDX-License-Identifier: MIT
# What a part of the GPU suite may take at most, from the limits of its stages: its functions are called once without
# running anything. A part whose stages could take longer than it has is refused, so that no call is cut off.

planning="" plan=() plan_after=0 plan_jobs=0 plan_beside=0
planning() { [ -n "$planning" ]; }

# planned HOW NAME LIMIT [COUNT]: notes it, so many times, while a plan is made; else fails. A job that finds no place
# waits for those before it, dealt to the places at worst.
planned() {
    local count=${4:-1} i end
    planning || return
    [ "$1" != after ] || plan_after=$((plan_after + $3))
    [ "$1" = beside ] || count=0
    for ((i = 0; i < count; i++)); do
        end=$(((plan_jobs + slots - 1) / slots + $3))
        plan_jobs=$((plan_jobs + $3))
        [ $end -le $plan_beside ] || plan_beside=$end
    done
    plan+=("$(printf '%-36s %4d s%s' "$2" "$3" "$(how "$1" "${4:-1}")")")
}

how() {
    case $1 in
    beside) echo ", beside others$([ "$2" = 1 ] || echo ", $2 times")" ;;
    spare) echo ", if as much is left" ;;
    esac
}

# make_plan PART SECONDS: tells it, as it is with a GPU and without a build. Fails where it does not fit; part "all" has
# what there is time for.
make_plan() {
    local planning=yes dry="" built="" longest
    plan=() plan_after=0 plan_jobs=0 plan_beside=0
    "$1_part"
    longest=$((plan_after + plan_beside))
    say ""
    say "plan of part $1, which has $2 s; each stage may take:"
    say "$(printf '  %s\n' "${plan[@]}")"
    say "  at most $plan_after s one after the other, and $plan_beside s for $plan_jobs s of jobs, $slots at a time"
    [ "$1" = all ] || [ $longest -le "$2" ] || {
        say "  part $1 may take $longest s; it must be at most $2"
        return 1
    }
}

make_plans() {
    local name
    for name in $([ "$part" = all ] && echo prove measure peers) "$part"; do
        make_plan "$name" "$([ "$name" = "$part" ] && echo "$seconds" || echo "$most")" || failed=$((failed + 1))
    done
    say ""
}
