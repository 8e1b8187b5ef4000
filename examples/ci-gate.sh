#!/bin/sh
# A gate for CI: `kvctl diff` with a tolerance for each pattern of keys. With kvctl on the path:
#
#     sh ci-gate.sh OLD NEW TOLERANCES
#
# OLD and NEW are two checkpoints. TOLERANCES is a file of lines `PATTERN RTOL ATOL`: a key agrees when
# |new - old| <= ATOL + RTOL * |old| for each of its numbers, by the first line that matches it; a key that
# no line matches must be equal bit by bit. A pattern that matches no key is an error. The second of the two
# that diff compares is what RTOL is relative to, so OLD stands there.
#
# The exit status is that of kvctl diff: 0 they agree, 1 they differ, and any other that nothing is known of
# the weights, because a file is missing or damaged: a gate that takes every failure for a difference cries
# wolf. In a workflow of GitHub, `- run: sh ci-gate.sh old.safetensors new.safetensors tolerances.txt`, the
# table of what differs also stands on the summary of the run.
set -u
[ $# = 3 ] || { echo "usage: sh ci-gate.sh OLD NEW TOLERANCES" >&2; exit 2; }
old=$1 new=$2 list=$3
[ -r "$list" ] || { echo "ci-gate: cannot read $list" >&2; exit 5; }
table=$(mktemp)
trap 'rm -f "$table"' EXIT

# Compares the keys of each line, without the keys that earlier lines have judged.
compare()
{
    worst=0
    set --
    while read -r pattern rtol atol || [ -n "$pattern" ]; do
        case $pattern in '' | '#'*) continue ;; esac
        kvctl diff "$new" "$old" "$pattern" "$@" --rtol "${rtol:-0}" --atol "${atol:-0}" || worst=$?
        [ $worst -le 1 ] || return $worst
        set -- "$@" --exclude "$pattern"
    done <"$list"
    # keys that no line has judged; kvctl refuses to compare none
    none='0 keys, 0 elements, 0 bytes'
    [ "$(kvctl ls "$old" "$@" 2>&1)$(kvctl ls "$new" "$@" 2>&1)" = "$none$none" ] ||
        kvctl diff "$new" "$old" "$@" || worst=$?
    return $worst
}

compare >"$table" 2>&1
status=$?
cat "$table" >&2
case $status in
0) verdict="$new agrees with $old" ;;
1) verdict="$new DIFFERS from $old" ;;
*) verdict="nothing is known of $new (exit status $status)" ;;
esac
echo "ci-gate: $verdict"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || { echo "### $verdict"; echo '```'; cat "$table"; echo '```'; } >>"$GITHUB_STEP_SUMMARY"
exit $status
