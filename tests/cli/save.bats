# save FILE and commit --disk: the store in a file while the script goes on.

load help

@test "save: what was saved is the store of that moment, and training goes on from it" {
    train='set-optimizer adam; for i in range(0, 6) { push 3 ones(2)*i; save f"r{i}.kvs" }; pull 3'
    run kvctl -c "init 3 zeros(2); $train"
    assert_success
    want=$output
    run kvctl -s r2.kvs -c 'for i in 3..5 { push 3 ones(2)*i }; pull 3'
    assert_output "$want"
    cmp <(kvctl -s r2.kvs -c 'pull 3') <(kvctl -s r5.kvs -c 'pull 3')
    kvctl -c 'begin; init 3 1; save b.kvs; rollback' # what is in a transaction, too
    run kvctl -s b.kvs -c 'pull 3'
    assert_output 1.0
}

@test "save: another tool's file stays one while it holds values alone" {
    kvctl -c 'init a,b ones(2); pull * > m.safetensors'
    kvctl -s m.safetensors -c 'push a [3, 4]; save v.safetensors; set-updater { stored += input }; save u.safetensors
        set-updater assign; push b row_sparse([1],[0],(2,)); save s.safetensors; push b ones(2)' || [ $? = 3 ]
    run grep -ac kvstore. v.safetensors u.safetensors s.safetensors
    assert_output "v.safetensors:0
u.safetensors:1
s.safetensors:1"
    run kvctl -s v.safetensors -c 'pull a'
    assert_output '[3. 4.]'
}

@test "save: what is wrong" {
    while IFS='|' read -r script code said; do
        run kvctl -s w.kvs -c "$script"
        assert_failure "$code"
        assert_output --partial "$said"
    done <<'END'
save s.kvs|3|error[value]: the store holds no keys
init 3 1; commit --disk; save w.kvs|2|"w.kvs" is the file of -s
init 4 1; save -|2|a store stands in a file, not in stdout
init 4 1; save no/s.kvs|5|cannot write "no/s.kvs"
create --name b; commit --disk|3|"w.kvs" keeps the store kv, and b is in use
END
    run kvctl -c 'init 3 1; commit --disk'
    assert_failure 3
    assert_line --index 0 --partial 'error[value]: there is no file of -s to be written'
    run kvctl --safe -c 'init 3 1; save s.kvs'
    assert_failure 4
    run kvctl --dry-run -s new.kvs -c 'init 3 1; save s.kvs; commit --disk'
    assert_success
    assert_line 'dry run: would write s.kvs'
    assert_line 'dry run: would write new.kvs'
    assert [ ! -e s.kvs -a ! -e new.kvs ]
}

@test "save: commit --disk writes the file of -s, and an error behind it takes nothing back" {
    run kvctl -s w.kvs -c 'init 3 1; commit --disk
!cp w.kvs 1.kvs
push 3 2; begin; push 3 5; commit --disk
!cp w.kvs 2.kvs
push 3 7
assert 1 == 2'
    assert_failure 1
    for file in 1:1.0 2:5.0 w:5.0; do
        run kvctl -s "${file%:*}.kvs" -c 'pull 3'
        assert_output "${file#*:}"
    done
    # a refusal leaves the transaction open
    run kvctl -k -s w.kvs -c 'create; begin; init 4 1; commit --disk; rollback; list; init 3 8'
    assert_failure 3
    assert_line --partial 'error[key]: 1 key of "w.kvs" would be gone: 3'
    run kvctl -s w.kvs -c 'pull 3; list'
    assert_output $'8.0\n3'
    # a file that was made here is a file like any other
    run kvctl -s new.kvs -c 'init 3 1; commit --disk; create; commit --disk'
    assert_failure 3
    run kvctl -s new.kvs -c list
    assert_output 3
}

@test "save: no change of several processes that commit is lost" {
    local p
    kvctl -s w.kvs -c 'init 3 1; set-updater { stored += input }'
    for p in 1 2 3 4; do
        (for _ in {1..4}; do
            kvctl -s w.kvs -c 'repeat 3 { push 3 1; commit --disk }' || touch failed
        done) 3>&- &
    done
    wait
    assert [ ! -e failed ]
    run kvctl -s w.kvs -c 'pull 3'
    assert_output 49.0
}

@test "save: kill -9 at any moment leaves the old file or the new one" {
    local i pid
    for ((i = 0; i < 20; i++)); do
        kvctl -c 'init 3 zeros(100000); set-updater { stored += input }
while true { push 3 ones(100000); save w.kvs; write i said.csv; i = 1 }' --set i=0 3>&- &
        pid=$!
        until [ -s said.csv ]; do sleep 0.01; done
        rm said.csv
        sleep "0.00$((RANDOM % 10))"
        kill -9 $pid
        wait $pid || true
        kvctl -s w.kvs -c 'pull 3 -> a; assert min(a) == max(a)'
    done
}
