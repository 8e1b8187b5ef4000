#!/bin/sh
# A model soup: the average of fine-tunings that is better than each of them, as one file (Model soups,
# arXiv:2203.05482). With kvctl on the path:
#
#     sh soup.sh OUT SCORE CHECKPOINT CHECKPOINT...
#
# SCORE is a command that is given the path of a checkpoint and prints one number, the accuracy on held-out
# data, say: larger is better. The soup is the greedy one of the paper: it begins with the best checkpoint,
# tries the others from the best to the worst, and keeps each that does not make the average worse. What
# is in it is printed. When all shall go in, no script is needed:
#
#     kvctl merge average CHECKPOINT CHECKPOINT... --out OUT
#
# Averages are made in float32 and rounded once, and no model is held in memory. OUT appears when the soup
# is complete. The exit status is that of SCORE or of kvctl if one fails; 2: wrong arguments, 4: no kvctl.
set -u

if [ $# -lt 3 ]; then
    echo "usage: sh soup.sh OUT SCORE CHECKPOINT CHECKPOINT..." >&2
    exit 2
fi
command -v kvctl >/dev/null || {
    echo "soup: there is no kvctl on the path" >&2
    exit 4
}
out=$1 score=$2
shift 2
work=$(mktemp -d -- "$(dirname -- "$out")/.soup-XXXXXX") || exit 5 # beside OUT, so that mv only renames
trap 'rm -rf -- "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# score_of CHECKPOINT: prints its score, which must be a number.
score_of()
{
    value=$($score "$1") || {
        status=$?
        echo "soup: $score $1 failed with exit status $status" >&2
        return $status
    }
    at_least "$value" "$value" 2>/dev/null || {
        echo "soup: $score $1 printed \"$value\", not one number" >&2
        return 3
    }
    printf '%s\n' "$value"
}
at_least() { kvctl -e -c 'float(args[0]) >= float(args[1])' -- "$1" "$2" >/dev/null; }

# The checkpoints from the best to the worst, a line each: insertion, so that equal ones stay in order.
: >"$work/order"
for file in "$@"; do
    value=$(score_of "$file") || exit
    placed=
    while read -r other path; do
        if [ -z "$placed" ] && ! at_least "$other" "$value"; then
            printf '%s %s\n' "$value" "$file"
            placed=1
        fi
        printf '%s %s\n' "$other" "$path"
    done <"$work/order" >"$work/next"
    [ -n "$placed" ] || printf '%s %s\n' "$value" "$file" >>"$work/next"
    mv "$work/next" "$work/order"
done

set --
best=
while read -r value file; do
    if [ $# -gt 0 ]; then
        kvctl merge average "$@" "$file" --out "$work/try.safetensors" </dev/null || exit
        value=$(score_of "$work/try.safetensors" </dev/null) || exit
        if ! at_least "$value" "$best"; then
            echo "without $file: $value"
            continue
        fi
    else
        kvctl merge average "$file" --out "$work/try.safetensors" </dev/null || exit
    fi
    echo "with $file: $value"
    best=$value
    set -- "$@" "$file"
    mv "$work/try.safetensors" "$work/best.safetensors"
done <"$work/order"
mv -- "$work/best.safetensors" "$out" || exit 5
