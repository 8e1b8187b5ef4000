# The pages for maintainers: CONTRIBUTING.md, and README.md in the folders.

load ../cli/help

# The words in backquotes of a page, each once, those with blanks or other signs left out.
words_of()
{
    grep -v '^    ' "$top/$1" | grep -o '`[^`]*`' | tr -d '`' | grep -xE '[A-Za-z0-9_./*-]+' | sort -u
}

pages=(.github/CONTRIBUTING.md {lib,src,src/distributed,src/python,cli,cuda,tests}/README.md)

# A path is there from the top, from the folder of the page, or as a name in any folder. A name for any of a kind
# (x.bats, NAME.kv) and what a build or the user makes are no paths. Few commands: bats follows each of them.
@test "pages: every path in backquotes exists" {
    local page word
    for page in "${pages[@]}"; do
        words_of "$page" | grep -E '/|\.(c|h|cc|hh|cu|cuh|md|kv|kvu|bats|bash)$' |
            grep -vE 'NAME|^\.|(^|/)x\.|^build/|^/|\.so$|^config\.mk$' | sed "s|^|$page |"
    done >asked
    [ "$(wc -l <asked)" -gt 150 ]
    find "$top"/{lib,src,cli,cuda,tests,scripts,examples} "$top" -maxdepth 3 -printf '%f\n' | sort -u >names
    grep -v " .*[/*]" asked >plain
    grep ' .*[/*]' asked | while read -r page word; do
        compgen -G "$top/$word" || compgen -G "$top/${page%/*}/$word" || find "$top" -name "$word" | grep . ||
            echo "$page: there is no $word" >&2
    done 2>missing >there
    awk 'NR == FNR { there[$0]; next } !($2 in there) { print $1 ": there is no " $2 }' names plain >>missing
    assert_equal "$(cat missing)" ""
}

@test "pages: every name of the source in backquotes is in it" {
    local page
    for page in "${pages[@]}"; do
        words_of "$page" | grep -xE '[A-Za-z][A-Za-z0-9]*_[A-Za-z0-9_]*' | sed "s|^|$page: the source has no |"
    done >asked
    [ "$(wc -l <asked)" -gt 80 ]
    sed 's/.* //' asked | grep -rhowFf - "$top"/{lib,src,cli,cuda,tests,scripts,Makefile} --include='*.[ch]' \
        --include='*.cc' --include='*.cu*' --include='*.bats' --include=Makefile --include=lint | sort -u >names
    assert_equal "$(awk 'NR == FNR { there[$1]; next } !($NF in there)' names asked)" ""
}

@test "pages: every source of src is on the page of its folder" {
    local file name page
    cd "$top"
    for file in src/*.c src/core/*.c src/distributed/*.c src/python/*.c; do
        name=${file##*/}
        name=${name%.c}
        page=${file%/*}/README.md
        [ -e "$page" ] || page=src/README.md
        grep -qE "[\`/]$name\.[ch]\`" "$page" || fail "$page has neither $name.h nor $name.c"
    done
}

@test "pages: the unit test of tests/README.md compiles" {
    { printf '#include "test.h"\n#include "base/map.h"\n'; sed -n '/^```c$/,/^```$/{/^```/!p}' "$top/tests/README.md"; } >example.c
    grep -q '^TEST(' example.c
    run -0 cc -std=gnu17 -Wall -Wextra -Werror -fsyntax-only -I"$top/tests/unit" -I"$top/lib" -I"$top/lib/base" \
        -I"$top/lib/array" -I"$top/src" example.c
}
