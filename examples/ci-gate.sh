#!/bin/sh
# A gate for CI: do new weights agree with old ones? With kvctl on the path:
#
#     sh ci-gate.sh OLD NEW [RTOL [ATOL]]
#     sh ci-gate.sh OLD NEW TOLERANCES
#
# OLD and NEW are two checkpoints (safetensors, a folder, npz, .kvs) or two arrays (CSV, JSON). They agree
# when |new - old| <= ATOL + RTOL * |old| for every number; RTOL is 1e-5 and ATOL 1e-8 when they are not
# given. TOLERANCES is a file of lines `PATTERN RTOL ATOL`, for keys that may move more than others: the
# first line that matches a key counts, and a key that none matches must be equal bit by bit.
#
#     # layers of a fine-tuning
#     *norm*      0     0
#     lm_head.*   1e-2  1e-4
#     *           1e-3  1e-6
#
# What differs is listed. Only 1 means that the weights differ: a gate that takes every failure for drift,
# as `kvctl ... || echo drifted` does, cries drift when a file is missing.
#
#     0  they agree
#     1  a number differs by more than its tolerance; or a key is missing, or has another shape
#     2  wrong arguments
#     3  they cannot be compared, such as two arrays of other shapes; a pattern that matches no key
#     5  a file cannot be read, or is damaged
#     other codes are those of kvctl; 4 also where there is no kvctl
#
# In a workflow of GitHub the table also stands on the run's summary, and the verdict beside the step:
#
#     - run: sh ci-gate.sh released.safetensors new.safetensors tolerances.txt
set -u

usage()
{
    echo "ci-gate: $1" >&2
    echo "usage: sh ci-gate.sh OLD NEW [RTOL [ATOL] | TOLERANCES]" >&2
    exit 2
}

if [ $# -lt 2 ] || [ $# -gt 4 ]; then
    usage "two files and at most two tolerances, not $# arguments"
fi
command -v kvctl >/dev/null || {
    echo "ci-gate: there is no kvctl on the path" >&2
    exit 4
}
old=$1 new=$2 rtol=${3:-1e-5} atol=${4:-1e-8} list=
if [ $# = 3 ] && [ -f "$3" ]; then
    list=$3
else
    for tolerance in "$rtol" "$atol"; do
        kvctl -e -c 'float(args[0]) >= 0' "$tolerance" >/dev/null 2>&1 ||
            usage "$tolerance is no tolerance, and no file of them"
    done
fi
for file in "$old" "$new"; do
    if [ ! -r "$file" ]; then
        echo "ci-gate: cannot read $file; nothing was compared" >&2
        exit 5
    fi
done

# Compares key by key, by the lines of the list: each leaves out what those before it have judged.
compare_by_list()
{
    worst=0
    set --
    while read -r pattern rtol atol || [ -n "$pattern" ]; do
        case $pattern in '' | '#'*) continue ;; esac
        kvctl diff "$old" "$new" "$pattern" "$@" --rtol "${rtol:-0}" --atol "${atol:-0}" || worst=$?
        [ $worst -le 1 ] || return $worst
        set -- "$@" --exclude "$pattern"
    done <"$list"
    kvctl diff "$old" "$new" "$@" || worst=$?
    return $worst
}

compare_arrays()
{
    kvctl -q -c '
        was = load(args[0]); is = load(args[1])
        if shape(is) != shape(was) { print f"{shape(was)} became {shape(is)}"; quit 3 }
        assert allclose(is, was, rtol=float(args[2]), atol=float(args[3]))' \
        "$old" "$new" "$rtol" "$atol"
}

table=$(mktemp)
trap 'rm -f "$table"' EXIT
case $old in
*.csv | *.tsv | *.json) compare_arrays >"$table" 2>&1 ;;
*) if [ -n "$list" ]; then compare_by_list; else kvctl diff "$old" "$new" --rtol "$rtol" --atol "$atol"; fi >"$table" 2>&1 ;;
esac
status=$?
cat "$table" >&2
limits=${list:-"rtol $rtol, atol $atol"}
case $status in
0) verdict="$new agrees with $old ($limits)" ;;
1) verdict="$new DIFFERS from $old by more than $limits" ;;
3) verdict="$new cannot be compared with $old" ;;
5) verdict="a file cannot be read; nothing was compared" ;;
*) verdict="kvctl failed (exit status $status); nothing is known of the weights" ;;
esac
if [ $status = 0 ]; then
    echo "ci-gate: $verdict"
else
    echo "ci-gate: $verdict" >&2
fi
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    { echo "### $verdict"; echo '```'; cat "$table"; echo '```'; } >>"$GITHUB_STEP_SUMMARY"
    [ $status = 0 ] || echo "::error title=ci-gate::$verdict"
fi
exit $status
