#!/bin/sh
# A checkpoint that changes a little every night, and its readers, who fetch patches instead of models. With
# kvctl on the path:
#
#     sh nightly.sh publish FOLDER CHECKPOINT     adds the model of this night
#     sh nightly.sh update FOLDER CHECKPOINT      brings a copy of any night up to the newest one
#
# FOLDER, on a web server or a shared disk, holds the first model, 0.safetensors, a patch N.patch for every
# night after it, and the hashes of each night's keys, N.hash. `update` finds by the hashes which night the
# copy is of, applies the patches since then in one pass, and checks the result: CHECKPOINT is replaced when
# it is complete, and stays as it was if anything fails. Between two nights of a fine-tuning in bf16 a patch
# is some percent of the model.
#
# `publish` needs the model of the last night: it makes it from FOLDER, so nothing is kept beside it. Exit
# status 1: the copy is of no night; others are those of kvctl.
set -u

usage()
{
    echo "usage: sh nightly.sh publish|update FOLDER CHECKPOINT" >&2
    exit 2
}
[ $# = 3 ] || usage
command -v kvctl >/dev/null || {
    echo "nightly: there is no kvctl on the path" >&2
    exit 4
}
folder=$2 model=$3

# The number of the newest night; nothing if there is none. A night is there when its hashes are.
newest()
{
    n=0
    while [ -e "$folder/$n.hash" ]; do n=$((n + 1)); done
    [ $n = 0 ] || echo $((n - 1))
}

# patches FROM TO: their paths, from the one after night FROM on, a line each.
patches()
{
    n=$1
    while [ "$n" -lt "$2" ]; do
        n=$((n + 1))
        printf '%s\n' "$folder/$n.patch"
    done
}

# put FROM TO OLD NEW: makes the model NEW of night TO from OLD, that of night FROM.
put()
{
    patches "$1" "$2" >"$work/patches"
    before=$3 after=$4
    set --
    while read -r patch; do set -- "$@" "$patch"; done <"$work/patches"
    kvctl apply "$@" "$before" --out "$after"
}

publish()
{
    last=$(newest)
    if [ -z "$last" ]; then
        mkdir -p -- "$folder" && kvctl convert "$model" "$folder/0.safetensors" || return
        next=0
    else
        next=$((last + 1))
        old=$folder/0.safetensors
        if [ "$last" != 0 ]; then
            old=$work/last.safetensors
            put 0 "$last" "$folder/0.safetensors" "$old" || return
        fi
        kvctl patch "$old" "$model" --out "$folder/$next.patch" || return
    fi
    kvctl hash "$model" >"$work/hash" && mv -- "$work/hash" "$folder/$next.hash" || return
    echo "night $next"
}

update()
{
    last=$(newest)
    kvctl hash "$model" >"$work/hash" || return
    night=$last
    while [ -n "$night" ] && [ "$night" -ge 0 ] && ! cmp -s "$work/hash" "$folder/$night.hash"; do
        night=$((night - 1))
    done
    if [ -z "$night" ] || [ "$night" -lt 0 ]; then
        echo "nightly: $model is of no night of $folder" >&2
        return 1
    fi
    if [ "$night" != "$last" ]; then
        put "$night" "$last" "$model" "$work/new.safetensors" &&
            kvctl hash "$work/new.safetensors" --verify "$folder/$last.hash" >&2 &&
            mv -- "$work/new.safetensors" "$model" || return
    fi
    echo "night $night to $last"
}

case $1 in
publish) work=$(mktemp -d) ;;
update) work=$(mktemp -d -- "$(dirname -- "$model")/.nightly-XXXXXX") ;; # beside it, so that mv only renames
*) usage ;;
esac
[ -n "$work" ] || exit 5
trap 'rm -rf -- "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
"$1"
