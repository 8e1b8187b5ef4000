# Calls of the C library that fail while kvctl writes files, and memory that ends: see fail_at.c.

load help

setup_file()
{
    ${CC:-cc} -D_GNU_SOURCE -shared -fPIC -o "$BATS_FILE_TMPDIR/fail_at.so" \
        "$BATS_TEST_DIRNAME/fail_at.c" -ldl
}

# failing VARIABLES… -- ARGUMENTS…: kvctl with a call that fails.
failing()
{
    local variables=()
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    env LD_PRELOAD="$BATS_FILE_TMPDIR/fail_at.so" "${variables[@]}" "$build/kvctl" "$@"
}

@test "faults: >> adds nothing to a file that it cannot look at" {
    kvctl -c 'write zeros(2,2) g.csv'
    cp g.csv before
    run failing FAIL=stat FAIL_PATH=g.csv -- -c 'init w ones(2,2); pull w >> g.csv'
    assert_failure 5
    assert_line --index 0 --partial 'error[io]: cannot read "g.csv": Input/output error'
    cmp g.csv before
    run failing FAIL=fgetc -- -c 'init w ones(2,2); pull w >> g.csv'
    assert_failure 5
    assert_line --index 0 --partial 'error[io]: cannot read "g.csv": Input/output error'
    cmp g.csv before
    run ls -A
    assert_output $'before\ng.csv'
    kvctl -c 'init w ones(2,2); pull w >> g.csv; pull w >> new.csv'
    run cat new.csv g.csv
    assert_output $'1,1\n1,1\n0,0\n0,0\n1,1\n1,1'
}

@test "faults: a state file that cannot be looked at is not taken for another" {
    kvctl -s w.kvs -c 'init 3 1'
    cp w.kvs before
    run timeout 20 env LD_PRELOAD="$BATS_FILE_TMPDIR/fail_at.so" FAIL=stat FAIL_PATH=w.kvs \
        "$build/kvctl" -s w.kvs -c 'push 3 2'
    assert_failure 5
    assert_output 'kvctl: error[io]: cannot read "w.kvs": Input/output error'
    cmp w.kvs before
}
