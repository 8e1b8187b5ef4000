# scripts/lint: each rule, broken once in a small house of our own.

load ../cli/help

# A house with one clean file, and the lint of this one.
small_house()
{
    mkdir -p scripts .ci lib/base lib/io lib/vm src/core cli/eval cli/term tests/cli
    cp "$top/scripts/lint" "$top/scripts/circles" "$top/scripts/untested" scripts/
    printf '#!/bin/bash\n' | tee .ci/run tests/cli/run >scripts/x
    printf '/* A head. */\n#include "base/a.h"\n' >lib/base/a.c
    printf '/* A head. */\n' >lib/base/a.h
}

# Expects that the rule of this name fails with this line, and that no other does.
breaks()
{
    run scripts/lint
    assert_failure
    assert_line --partial "lint $1"
    assert_line "# $2"
    assert_equal "$(grep -c '^not ok' <<<"$output")" 1
}

@test "lint: a clean house passes" {
    small_house
    run scripts/lint
    assert_success
    refute_line --partial "not ok"
}

@test "lint: a layer includes one above it" {
    small_house
    printf '/* Head. */\n' >src/core/slot.h
    printf '/* Head. */\n#include "core/slot.h"\n' >lib/io/csv.c
    breaks "includes follow the layers" "lib/io/csv.c:2: lib/io must not include src/core/slot.h"
}

@test "lint: a neighbour that is not below" {
    small_house
    printf '/* Head. */\n' >lib/vm/program.h
    printf '/* Head. */\n#include "vm/program.h"\n' >lib/io/csv.c
    breaks "includes follow the layers" "lib/io/csv.c:2: lib/io must not include lib/vm/program.h"
}

@test "lint: an include of nothing, and a folder that the table does not know" {
    small_house
    printf '/* Head. */\n#include "base/none.h"\n' >lib/base/b.c
    breaks "includes follow the layers" 'lib/base/b.c:2: there is no "base/none.h"'
    rm lib/base/b.c
    mkdir lib/new
    printf '/* Head. */\n#include "base/a.h"\n' >lib/new/b.c
    breaks "includes follow the layers" "lib/new/b.c:2: the table of layers has no line for lib/new"
}

@test "lint: a source that includes another header before its own" {
    small_house
    printf '/* Head. */\n#include <stdio.h>\n#include "base/a.h"\n' >lib/base/a.c
    breaks "a source includes its own header first" "lib/base/a.c:1: includes stdio.h first"
}

@test "lint: a second door to a library" {
    small_house
    printf '/* Head. */\n#include <readline/readline.h>\n' >cli/term/other.c
    breaks "libraries have one door" \
        "cli/term/other.c:2:#include <readline/readline.h>  (only cli/term/lazy_readline.h may)"
}

@test "lint: a library that prints or ends the process" {
    small_house
    printf '/* Head. */\nvoid f(void)\n{\n    exit(1);\n}\n' >lib/base/b.c
    breaks "the library is silent" "lib/base/b.c:4:    exit(1);"
    printf '/* Head. */\nvoid f(FILE *x)\n{\n    fputs("a", stderr); /* no */\n}\n' >lib/base/b.c
    breaks "the library is silent" 'lib/base/b.c:4:    fputs("a", stderr); '
}

@test "lint: what a comment says is free" {
    small_house
    printf '/* exit(1), printf(), malloc(3), strtod(), stdout */\n/* a\n * exit(2) */\n' >lib/base/b.c
    run scripts/lint
    assert_success
}

@test "lint: memory and numbers that do not come from base" {
    small_house
    printf '/* Head. */\nvoid *f(void)\n{\n    return malloc(1);\n}\n' >cli/eval/b.c
    breaks "memory comes from one place" "cli/eval/b.c:4:    return malloc(1);"
    printf '/* Head. */\nvoid f(double x)\n{\n    buf_printf(b, "%%.3g", x);\n}\n' >cli/eval/b.c
    breaks "numbers do not follow the locale" 'cli/eval/b.c:4:    buf_printf(b, "%.3g", x);'
}

@test "lint: long lines, tabs, blanks at the end" {
    small_house
    printf '/* Head. */\n//%099d\n' 0 >lib/base/b.c
    breaks "lines are short and without tabs" "lib/base/b.c:2: more than 100 columns"
    printf '/* Head. */\n//%098d\n' 0 >lib/base/b.c
    run scripts/lint
    assert_success
    printf '/* Head. */\n\tint x;\n' >lib/base/b.c
    breaks "lines are short and without tabs" "lib/base/b.c:2: a tab"
    printf '/* Head. */\nint x; \n' >lib/base/b.c
    breaks "lines are short and without tabs" "lib/base/b.c:2: blanks at the end"
}

@test "lint: a file of 1001 lines, a file without a head, an unfinished mark" {
    small_house
    { echo '/* Head. */'; yes 'int x;' | head -n 1000; } >lib/base/b.c
    breaks "files are short" "lib/base/b.c:1: 1001 lines; is there a seam?"
    printf 'int x;\n' >lib/base/b.c
    breaks "files say what they are" "lib/base/b.c:1: no comment at its head"
    printf '/* Head. TO%s: more */\n' DO >lib/base/b.c
    breaks "no unfinished marks" "lib/base/b.c:1:/* Head. TO""DO: more */"
}

@test "lint: the word CUDA outside its folder" {
    small_house
    printf '/* Head. */\nint use_CUDA;\n' >src/core/b.c
    breaks "the word cuda stays in its folder" "src/core/b.c:2:int use_CUDA;"
}

@test "lint: a global that can be written to" {
    small_house
    mkdir -p build/lib/base
    printf '/* Head. */\nint counter;\nconst int table[] = {1};\n' >lib/base/b.c
    cc -fPIC -fno-common -c -o build/lib/base/b.o lib/base/b.c
    breaks "only the runtime is global" "lib/base/b.c:1: counter can be written to"
}

# compiled FILE NAME OTHER: a source that defines NAME and calls OTHER, and its object.
compiled()
{
    mkdir -p "$(dirname "$1")" "build/$(dirname "$1")"
    printf '/* Head. */\nint %s(void);\nint %s(void);\nint %s(void) { return %s(); }\n' \
        "$2" "$3" "$2" "$3" >"$1"
    cc -c -o "build/${1%.c}.o" "$1"
}

@test "lint: two files that call each other" {
    small_house
    compiled lib/vm/x.c x y
    compiled lib/vm/y.c y x
    BUILD=build breaks "nobody links in a circle" \
        "lib/vm/x.c:1: a circle of 2 files: lib/vm/x.c lib/vm/y.c"
}

@test "lint: two folders that call each other, through files that do not" {
    small_house
    compiled lib/vm/x.c x p
    compiled lib/io/p.c p nothing
    compiled lib/io/q.c q r
    compiled lib/vm/r.c r nothing
    BUILD=build breaks "nobody links in a circle" "lib/io:1: a circle of 2 folders: lib/io lib/vm"
}

@test "lint: a public function whose NULLs no test has" {
    small_house
    mkdir -p tests/unit
    echo 'int x = kv_old(NULL);' >tests/unit/test_null.c
    printf '/* Head. */\n%s\n%s\n%s\n    %s\n' 'int kv_old(const char *name, kv_err *e);' \
        'int kv_number(int n, kv_err *e);' 'int kv_new(const char *name,' 'kv_err *e);' >src/kvstore.h
    breaks "functions that take pointers refuse null" \
        "src/kvstore.h:4: kv_new with a NULL is not in tests/unit/test_null.c"
}

@test "lint: error texts that no test holds, counted" {
    local may
    small_house
    may=$(sed -n 's/.*untested --at-most \([0-9]*\) .*/\1/p' scripts/lint)
    [ "$may" -gt 0 ]
    {
        echo '/* Head. */'
        for ((i = 1; i <= may + 2; i++)); do echo "kv_err_set(e, KV_E_VALUE, \"the text of mistake $i of %d\", 3);"; done
    } >lib/base/b.c
    breaks "error texts stand in tests" "$((may + 2)) error texts stand in no test, $may may: scripts/untested lists them"
    # what a test holds may be split, have another quote, and stand for a hole
    printf 'CHECK_TEXT(e.text, "the text of "\n    "mistake 1 of 7");\n' >tests/a.c
    printf "assert_output 'the text of mistake 2 of 99'\n" >tests/a.bats
    run scripts/lint
    assert_success
}
