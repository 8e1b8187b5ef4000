#!/bin/sh
# Models in git: `git diff` that shows which keys of a checkpoint changed, and how, instead of "Binary
# files differ". With kvctl and git on the path,
#
#     sh git-diff.sh
#
# makes a repository in a temporary folder and shows a change. A repository of your own needs a line
# of attributes, which is committed, and one of configuration, which every clone needs once:
#
#     echo '*.safetensors diff=kvctl' >>.gitattributes
#     git config diff.kvctl.textconv 'f() { kvctl --format csv ls "$1"; kvctl --format csv stat "$1"; kvctl hash "$1"; }; f'
#
# git compares the tables line by line: a line of `ls` has name, dtype and shape of a key, one of `stat`
# its numbers, and one of `hash` changes with any bit, also where numbers only change places. `git log -p`, `git show` and `git blame` use them too. With
# `git config diff.kvctl.cachetextconv true` git keeps the tables of versions that it has seen.
# `git config diff.kvctl.command 'f() { kvctl diff "$2" "$5" || test $? = 1; }; f'` compares numbers
# instead: the largest difference of each key, and where it is.
set -eu

for program in kvctl git; do
    command -v $program >/dev/null || {
        echo "git-diff: there is no $program on the path" >&2
        exit 4
    }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

git init -q .
git config user.name 'A user'
git config user.email user@example.org
echo '*.safetensors diff=kvctl' >.gitattributes
git config diff.kvctl.textconv 'f() { kvctl --format csv ls "$1"; kvctl --format csv stat "$1"; kvctl hash "$1"; }; f'

kvctl -q -s model.safetensors -c 'init w,b,norm [ones(2,3), zeros(3), ones(3)]'
git add .
git commit -q -m 'a model'
kvctl -q -s model.safetensors -c 'push b array([0.5, 0, 0])'
git diff
