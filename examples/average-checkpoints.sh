#!/bin/sh
# Averages checkpoints of one model, safetensors of any tool, with kvctl on the path:
#
#     sh average-checkpoints.sh OUT CHECKPOINT CHECKPOINT...
#
# OUT has the names, dtypes, shapes and metadata of the first checkpoint, and appears whole or not at all:
# after an error it is as it was. average-checkpoints.kv says what a mean is, and can be used without this.
# The exit status is that of kvctl: 2 wrong arguments, 1 the checkpoints are not of one model, 3 one lacks a
# tensor, 4 there is no kvctl, 5 a file cannot be read or written.
set -u

if [ $# -lt 3 ]; then
    echo "usage: sh average-checkpoints.sh OUT CHECKPOINT CHECKPOINT..." >&2
    exit 2
fi
command -v kvctl >/dev/null || {
    echo "average-checkpoints: there is no kvctl on the path" >&2
    exit 4
}
out=$1
shift
for file in "$@"; do
    if [ ! -r "$file" ]; then
        echo "average-checkpoints: cannot read $file" >&2
        exit 5
    fi
done

here=$(dirname -- "$0")
work=$(mktemp -d -- "$(dirname -- "$out")/.average-XXXXXX") || exit 5 # beside OUT, so that mv only renames
trap 'rm -rf -- "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# What a checkpoint has and the first one lacks would be left out without a word.
names() { kvctl -q -s "$1" -c 'for key in keys() { print key }'; }
names "$1" >"$work/first" || exit
for file in "$@"; do
    names "$file" >"$work/names" || exit
    more=$(grep -vxFf "$work/first" "$work/names" | head -n 1)
    if [ -n "$more" ]; then
        echo "average-checkpoints: $file holds $more, which $1 does not" >&2
        exit 3
    fi
done

cat <"$1" >"$work/average.safetensors" || exit 5 # not cp: the copy must be writable
kvctl -q -s "$work/average.safetensors" "$here/average-checkpoints.kv" "$@" || exit
mv -- "$work/average.safetensors" "$out" || exit 5
