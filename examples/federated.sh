#!/bin/sh
# One round of federated averaging: the models of clients, weighted by how many examples each was trained
# on (McMahan and others, Communication-efficient learning of deep networks from decentralized data,
# arXiv:1602.05629). With kvctl on the path, a line for each client on stdin:
#
#     sh federated.sh OUT <<END
#     120 hospital-a.safetensors
#     40 hospital-b.safetensors
#     300 hospital-c/
#     END
#
# Lines that are empty or begin with # are left out. OUT is the sum of count * model divided by the sum of
# the counts, in float32, rounded once; clients must have the same names and shapes, and a file with a NaN
# or an infinity, which would be the model of all clients then, is refused. When some clients may be
# broken or hostile, a mean that one of them cannot move far is one word away (arXiv:1803.01498):
#
#     kvctl merge trimmed_mean CLIENT... --k 1 --out OUT
#     kvctl merge median CLIENT... --out OUT
#
# The exit status is that of kvctl: 3 the models do not belong together, 5 a file cannot be read. 1: a model
# with numbers that are not finite, 2: wrong arguments, 4: there is no kvctl.
set -u

if [ $# != 1 ]; then
    echo "usage: sh federated.sh OUT, with lines \"COUNT CHECKPOINT\" on stdin" >&2
    exit 2
fi
command -v kvctl >/dev/null || {
    echo "federated: there is no kvctl on the path" >&2
    exit 4
}
out=$1
set --
counts=
while read -r count file || [ -n "$count" ]; do
    case $count in
    '' | '#'*) continue ;;
    *[!0-9]*)
        echo "federated: \"$count\" is not a count of examples" >&2
        exit 2
        ;;
    esac
    # A client that trained on nothing has nothing to say.
    [ "$count" -gt 0 ] || continue
    bad=$(kvctl check "$file" </dev/null) || {
        status=$?
        [ $status = 1 ] || exit $status
        if printf '%s\n' "$bad" | grep -E ' (NaN|Inf)(,|$)' >&2; then
            echo "federated: $file is not averaged" >&2
            exit 1
        fi
    }
    counts=$counts${counts:+,}$count
    set -- "$@" "$file"
done
if [ $# = 0 ]; then
    echo "federated: no client was trained on anything" >&2
    exit 2
fi
kvctl merge linear "$@" --weights "$counts" --out "$out" </dev/null
