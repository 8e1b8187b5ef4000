# Tests that cannot run on a machine are skipped with a reason, and scripts/test says it.

load ../cli/help

@test "skips: a file whose setup_file lacks a program" {
    # not a here-document: bats would take lines that begin with @test for tests of this file
    printf '%s\n' "load $top/tests/cli/help" 'setup_file() { file_needs sh no-such-program || return 0; false; }' \
        '@test "one" { false; }' '@test "two" { false; }' >lacks.bats
    run -0 bats --tap lacks.bats
    assert_output "1..2
ok 1 one # skip there is no no-such-program
ok 2 two # skip there is no no-such-program"
}

@test "skips: a file that needs a plugin which is not built" {
    printf '%s\n' "load $top/tests/cli/help" 'setup_file() { file_needs mpi || true; }' '@test "one" { false; }' >lacks.bats
    KVCTL_BUILD=$PWD says "ok 1 one # skip built without MPI" bats --tap lacks.bats
}

@test "skips: suites that are skipped whole are named and counted" {
    mkdir none
    ln -s "$build/kvctl" "$build"/libkvstore.so* none
    BUILD=$PWD/none says "  1..0 # SKIP the types of several machines are not built" "$top/scripts/test" dist device
    assert_line --regexp "^dist: 0 passed, 0 failed, 1 skipped, [0-9]+ s, [0-9]+ s of the processor$"
    assert_line "  1..0 # SKIP the driver over host memory is not built: there is no C++ compiler"
    assert_line "2 skipped, not counted below"
    assert_line "0 passed, 0 failed"
}

@test "skips: fuzzing without clang, and without libFuzzer" {
    CLANG=no-such-compiler run -0 "$top/tests/fuzz/run" 1 csv
    assert_line "1..0 # SKIP fuzzing needs clang with libFuzzer (scripts/setup fuzz), and there is no clang"
    assert_line "0 passed, 0 failed"
    CLANG=false run -0 "$top/tests/fuzz/run" 1 csv
    assert_line "1..0 # SKIP fuzzing needs clang with libFuzzer (scripts/setup fuzz), and this clang has none"
}

@test "skips: a unit test says why" {
    run -0 "$build/unit" file_protected
    [ "$(id -u)" = 0 ] || skip "only root skips that test"
    assert_line "ok 1 - file_protected # SKIP root may write everything"
}

# A folder of memory would fill with what killed tests left.
@test "skips: what tests leave in memory goes with the run, also when the run is ended" {
    local end status
    mkdir built
    ln -s "$build/kvctl" built
    printf '%s\n' '@test "one" {' 'echo "$TEST_MEMORY" >"$SAID"; touch "${TEST_MEMORY:?}/left"; $LAST' '}' >leaves.bats
    for end in true "sleep 100"; do
        rm -f said
        BUILD=$PWD/built SAID=$PWD/said LAST=$end \
            "$top/scripts/test" "tests/$(realpath --relative-to="$top/tests" leaves.bats)" >out 2>&1 3>&- &
        until [ -e "$(cat said 2>/dev/null)/left" ] || ! kill -0 $! 2>/dev/null; do sleep 0.02; done
        [ "$end" = true ] || kill -TERM $!
        status=0
        wait $! || status=$?
        [ "$end" = true ] && assert_equal "$status" 0 || assert_equal "$status" 143
        [ -s said ] && [ ! -e "$(cat said)" ] || fail "$(cat said) is there: $(cat out)"
    done
}

@test "skips: a test in which a command fails is a failure, with its line" {
    printf '%s\n' "load $top/tests/cli/help" '@test "x" {' 'run echo a' 'assert_output b' true '}' >x.bats
    run -1 bats --tap x.bats
    assert_line 'not ok 1 x'
    assert_line --partial 'x.bats, line 4)'
}
