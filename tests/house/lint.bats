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

# broken RULE LINE: what lint must say below the verdict of that rule.
broken()
{
    names+=("$1")
    said+=("# $2")
}

# source FILE LINE…: a source with a head.
source_of()
{
    mkdir -p "$(dirname "$1")"
    printf '%s\n' '/* Head. */' "${@:2}" >"$1"
}

# compiled FILE NAME OTHER: a source that defines NAME and calls OTHER, and its object.
compiled()
{
    source_of "$1" "int $2(void);" "int $3(void);" "int $2(void) { return $3(); }"
    object "$1"
}

object()
{
    mkdir -p "build/$(dirname "$1")"
    cc -fPIC -fno-common -c -o "build/${1%.c}.o" "$1"
}

@test "lint: a clean house passes, and what a comment says is free" {
    small_house
    printf '/* exit(1), printf(), malloc(3), strtod(), stdout */\n/* a\n * exit(2) */\n' >lib/base/b.c
    printf '/* Head. */\n//%098d\n' 0 >lib/base/c.c # 100 columns
    run -0 scripts/lint
    refute_line --partial "not ok"
}

# All at once: a run takes half a second. Nothing else is said, so that no mistake breaks another rule, too.
@test "lint: each rule finds what breaks it, and nothing else" {
    local names=() said=()
    small_house

    source_of src/core/slot.h
    source_of lib/io/above.c '#include "core/slot.h"'
    broken "includes follow the layers" "lib/io/above.c:2: lib/io must not include src/core/slot.h"
    source_of lib/vm/program.h
    source_of lib/io/neighbour.c '#include "vm/program.h"'
    broken "includes follow the layers" "lib/io/neighbour.c:2: lib/io must not include lib/vm/program.h"
    source_of lib/base/nothing.c '#include "base/none.h"'
    broken "includes follow the layers" 'lib/base/nothing.c:2: there is no "base/none.h"'
    source_of lib/new/b.c '#include "base/a.h"'
    broken "includes follow the layers" "lib/new/b.c:2: the table of layers has no line for lib/new"

    source_of lib/base/a.c '#include <stdio.h>' '#include "base/a.h"'
    broken "a source includes its own header first" "lib/base/a.c:1: includes stdio.h first"
    source_of cli/term/other.c '#include <readline/readline.h>'
    broken "libraries have one door" \
        "cli/term/other.c:2:#include <readline/readline.h>  (only cli/term/lazy_readline.h may)"

    source_of lib/base/exits.c 'void f(void)' '{' '    exit(1);' '}'
    broken "the library is silent" "lib/base/exits.c:4:    exit(1);"
    source_of lib/base/prints.c 'void f(FILE *x)' '{' '    fputs("a", stderr); /* no */' '}'
    broken "the library is silent" 'lib/base/prints.c:4:    fputs("a", stderr); '
    source_of cli/eval/memory.c 'void *f(void)' '{' '    return malloc(1);' '}'
    broken "memory comes from one place" "cli/eval/memory.c:4:    return malloc(1);"
    source_of cli/eval/number.c 'void f(double x)' '{' '    buf_printf(b, "%.3g", x);' '}'
    broken "numbers do not follow the locale" 'cli/eval/number.c:4:    buf_printf(b, "%.3g", x);'

    source_of lib/base/long.c "//$(printf %099d 0)"
    broken "lines are short and without tabs" "lib/base/long.c:2: more than 100 columns"
    source_of lib/base/tab.c $'\tint x;'
    broken "lines are short and without tabs" "lib/base/tab.c:2: a tab"
    source_of lib/base/blank.c 'int x; '
    broken "lines are short and without tabs" "lib/base/blank.c:2: blanks at the end"
    { echo '/* Head. */'; yes 'int x;' | head -n 1000; } >lib/base/many.c
    broken "files are short" "lib/base/many.c:1: 1001 lines; is there a seam?"
    printf 'int x;\n' >lib/base/headless.c
    broken "files say what they are" "lib/base/headless.c:1: no comment at its head"
    printf '/* Head. TO%s: more */\n' DO >lib/base/mark.c
    broken "no unfinished marks" "lib/base/mark.c:1:/* Head. TO""DO: more */"
    source_of src/core/word.c 'int use_CUDA;'
    broken "the word cuda stays in its folder" "src/core/word.c:2:int use_CUDA;"

    source_of lib/base/written.c 'int counter;' 'const int table[] = {1};'
    object lib/base/written.c
    broken "only the runtime is global" "lib/base/written.c:1: counter can be written to"
    compiled lib/vm/x.c x y
    compiled lib/vm/y.c y x
    broken "nobody links in a circle" "lib/vm/x.c:1: a circle of 2 files: lib/vm/x.c lib/vm/y.c"
    compiled lib/vm/k.c k p
    compiled lib/io/p.c p nothing
    compiled lib/io/q.c q r
    compiled lib/vm/r.c r nothing
    broken "nobody links in a circle" "lib/io:1: a circle of 2 folders: lib/io lib/vm"

    mkdir -p tests/unit
    echo 'int x = kv_old(NULL);' >tests/unit/test_null.c
    source_of src/kvstore.h 'int kv_old(const char *name, kv_err *e);' 'int kv_number(int n, kv_err *e);' \
        'int kv_new(const char *name,' '    kv_err *e);'
    broken "functions that take pointers refuse null" \
        "src/kvstore.h:4: kv_new with a NULL is not in tests/unit/test_null.c"

    BUILD=build run ! scripts/lint
    assert_equal "$(grep '^#' <<<"$output" | sort)" "$(printf '%s\n' "${said[@]}" | sort)"
    assert_equal "$(sed -n 's/^not ok [0-9]* - lint //p' <<<"$output" | sort)" "$(printf '%s\n' "${names[@]}" | sort -u)"
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
    run ! scripts/lint
    assert_line "# $((may + 2)) error texts stand in no test, $may may: scripts/untested lists them"
    assert_equal "$(grep '^not ok' <<<"$output")" "$(grep '^not ok .* - lint error texts stand in tests$' <<<"$output")"
    # what a test holds may be split, have another quote, and stand for a hole
    printf 'CHECK_TEXT(e.text, "the text of "\n    "mistake 1 of 7");\n' >tests/a.c
    printf "assert_output 'the text of mistake 2 of 99'\n" >tests/a.bats
    run -0 scripts/lint
}
