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

@test "faults: a signal that ends a write to stdout loses nothing" {
    run failing FAIL=write -- -c 'print 1; print 2'
    assert_success
    assert_output $'1\n2'
}

@test "faults: the time limit ends a write to a pipe that nobody reads" {
    mkfifo x.csv
    run timeout 20 kvctl --timeout 0.3 -c 'write ones(9) x.csv' # waits for a reader
    assert_failure 6
    assert_line --index 0 --partial 'error[timeout]: gave up after 0.3 s (--timeout)'
    sleep 30 <x.csv 3>&- &
    run timeout 20 kvctl --timeout 0.5 -c 'write ones(300000) x.csv'
    kill $!
    assert_failure 6
    assert_line --index 0 --partial 'error[timeout]: gave up after 0.5 s (--timeout)'
}

# Whatever allocation is the first of those that fail: what was to be done is done, or there is a
# sentence, and no file is left half written.
@test "faults: without memory there is always a sentence" {
    local n=0 status seen
    kvctl -s w.kvs -c 'init 3 ones(2)'
    cp w.kvs before
    while IFS='|' read -ra arguments; do
        for ((n = 1; ; n += 7)); do
            cp before w.kvs
            status=0
            failing FAIL=memory FAIL_FROM=$n -- "${arguments[@]}" >out 2>err || status=$?
            [ $status != 0 ] || break
            seen="$n ${arguments[*]}: $status $(cat err)"
            [[ $status = [35] && $(cat err) = *error\[*memory* ]] || { echo "$seen"; return 1; }
            cmp w.kvs before
            assert_equal "$(ls -A)" $'before\nerr\nout\nw.kvs'
        done
        [ "$n" -gt 1 ]
    done <<'END'
-c|init 3 ones(2,3); push 3 ones(2,3); pull 3
--json|-c|init 3 ones(2,3); push 3 ones(2,3); pull 3
-s|w.kvs|-c|set-optimizer adam; push 3 ones(2)
-s|w.kvs|-c|init 4,5 ones(2); begin; rename 3 9; delete 4,5; commit
-h
-c|init 3,4,7 ones(2); save m.safetensors 3 [45] --dtype bf16 --metadata a=b
END
}
