# make analyze: that each tool finds what it is there for, in a file of its own.

load ../cli/help

@test "analyze: a leak and a comparison that hides its sense are found" {
    cat >bad.c <<'END'
#include <stdlib.h>
#include <string.h>
int leak(int n);
int leak(int n)
{
    char *p = malloc(16);
    if (!p)
        return 1;
    if (n > 3)
        return 2;
    free(p);
    return strcmp("a", "b") ? 1 : 0;
}
int same(const char *a);
int same(const char *a)
{
    if (strcmp(a, "x"))
        return 1;
    return 0;
}
END
    run -1 "$top/scripts/analyze" "$PWD/bad.c"
    command -v gcc >/dev/null || skip "there is no gcc"
    assert_line --partial "not ok - gcc-analyzer"
    ! command -v clang-tidy >/dev/null || assert_line --partial "not ok - clang-tidy"
    ! command -v cppcheck >/dev/null || assert_line --partial "not ok - cppcheck"
    assert_line --regexp "^0 passed, [1-3] failed$"
}

@test "analyze: a tool that is not there is named" {
    echo 'int one(void); int one(void) { return 1; }' >fine.c
    mkdir only
    for program in bash sh dirname nproc find sort mktemp rm mkdir xargs tr grep sed basename mpicc; do
        ! command -v $program >/dev/null || ln -s "$(command -v $program)" only
    done
    PATH=$PWD/only says "SKIP gcc-analyzer: it is not installed" "$top/scripts/analyze" "$PWD/fine.c"
    assert_line "SKIP clang-tidy: it is not installed"
    assert_line "SKIP cppcheck: it is not installed"
    assert_line "0 passed, 0 failed"
}
