# kvctl as a process: stdin and stdout, pipes, exit codes, full disks, signals.

load help
@test "process: a script on stdin, in -c, in -f and as a file are one thing" {
    echo 'print 2 + 2' >four.kv
    for how in "kvctl -c 'print 2 + 2'" "kvctl -f four.kv" "kvctl four.kv" "kvctl <four.kv" \
        "kvctl - <four.kv" "cat four.kv | kvctl"; do
        gives 4 sh -c "$how"
    done
}

@test "process: sources run in the order given, in one session" {
    echo 'print x' >show.kv
    gives $'1\n2' kvctl -c 'x = 1' -f show.kv -c 'x = x + 1' -f show.kv
}

@test "process: arguments behind FILE are args" {
    echo 'print args' >show.kv
    mentions "one" kvctl show.kv one two
    assert_output --partial "two"
}

@test "process: #! makes a script runnable" {
    printf '#!/usr/bin/env kvctl\nprint 7\n' >seven.kv
    chmod +x seven.kv
    gives 7 ./seven.kv
}

@test "process: results to stdout, errors to stderr" {
    gives -3 1 sh -c "kvctl -c 'print 1; pull 3' 2>err"
    opens "<cmd>:1:15: error[key]:" cat err
}

@test "process: exit codes" {
    codes=("0|print 1" "1|assert 1 == 2" "2|print (1" "2|nonsense 3" "3|pull 3" "3|print nobody"
        "4|create nothing-like-this" "5|print @missing.csv" "9|quit 9")
    for pair in "${codes[@]}"; do
        run kvctl -c "${pair#*|}"
        assert_equal "$status: ${pair#*|}" "${pair%%|*}: ${pair#*|}"
    done
}

@test "process: a mistake in the words is found before anything runs" {
    run -2 sh -c "kvctl -c 'print 1
nonsense 3' 2>/dev/null"
    assert_output ""
}

@test "process: -k goes on after every error, also of the words and of files" {
    run -5 --separate-stderr kvctl -k -c 'nope 3' -c 'print 1; pull 9' -f missing.kv -c 'print 2'
    assert_output $'1\n2'
    assert_equal "$stderr" 'kvctl: error[io]: cannot read "missing.kv": No such file or directory
<cmd>:1:1: error[usage]: there is no command `nope`
    1 : nope 3
      : ^^^^
 hint: `help` lists the commands
<cmd>:1:15: error[key]: key 9 was never initialised
    1 : print 1; pull 9
      :               ^
 hint: init it first'
    run -2 --separate-stderr sh -c 'printf "nope 3\nprint 4\n" | kvctl -k'
    assert_output 4
}

@test "process: after a create that failed nothing uses another store" {
    cat >class.kv <<'END'
create dist_sync
push 3 ones(2)
expect-error value { info }
create nosuch
kv.push(3, ones(2))
create --name b; init 3 ones(2)
create nosuch; pull 3
use b; pull 3
begin; create --name b
commit
expect-error unsupported { create nosuch }
pull 3
END
    run ! --separate-stderr kvctl -k class.kv
    assert_output $'[1. 1.]\n[1. 1.]'
    assert_equal "$(grep -c 'error\[value\]: no store is in use, as the last `create` failed' <<<"$stderr")" 3
    assert_equal "$(grep -c 'hint: make one: create local$' <<<"$stderr")" 2
    assert_equal "$(grep -c 'hint: make one: create local; use b goes back to that$' <<<"$stderr")" 1
    assert_equal "$(grep -c 'error\[value\]: a transaction is open in the store b' <<<"$stderr")" 1
    refute [ "$(grep -c 'no transaction is open' <<<"$stderr")" -gt 0 ]
}

@test "process: the excerpt of an error is of its own -c" {
    run -3 kvctl -c 'pull 9' -c 'print 2'
    assert_line --index 1 '    1 : pull 9'
}

@test "process: a script stops at the first error, -k goes on and keeps its code" {
    gives -3 1 sh -c "kvctl -c 'print 1; pull 3; print 2' 2>/dev/null"
    gives -3 $'1\n2' sh -c "kvctl -k -c 'print 1; pull 3; print 2; print @missing.csv' 2>/dev/null"
}

@test "process: -e asks for a value that holds" {
    run -0 kvctl -e -c '1 == 1'
    run -1 kvctl -e -c '1 == 2'
}

@test "process: a closed pipe is no error and changes nothing" {
    kvctl -c 'repeat 20000 { print "line" }; write ones(2) "done.csv"' | head -n 1 >first
    local codes=("${PIPESTATUS[@]}")
    assert_equal "${codes[0]}" 0
    gives line cat first
    [ -e done.csv ]
}

@test "process: a full disk is an error" {
    [ -w /dev/full ] || skip "no /dev/full"
    mentions -5 "No space left on device" sh -c "kvctl -c 'print ones(3)' >/dev/full"
}

@test "process: a failed write leaves the old file as it was" {
    echo old >x.csv
    run -3 kvctl -c 'write ones(2) "x.csv"; pull 3 > x.csv'
    run cat x.csv
    refute_output old
    echo old >x.csv
    run -3 kvctl -c 'pull 3 > x.csv'
    gives old cat x.csv
    gives x.csv ls -A
}

@test "process: Ctrl-C ends a script with 130, SIGTERM with 143" {
    # Background children of a script ignore SIGINT, so a shell with job control starts it.
    for pair in INT:130 TERM:143; do
        run bash -c "set -m
            kvctl -c '!touch begun
while true { x = 1 }' >out 2>err &
            for _ in {1..500}; do [ ! -e begun ] || break; sleep 0.02; done
            sleep 0.2; rm begun
            kill -${pair%:*} \$!; wait \$!"
        assert_failure "${pair#*:}"
    done
}

@test "process: arrays pass through pipes as CSV and JSON" {
    gives $'[[2. 4.]\n [6. 9.]]' sh -c "kvctl -c 'write [[1, 2], [3, 4.5]] -' | kvctl -c 'print @- * 2'"
    gives 10.0 sh -c "echo '[[1, 2], [3, 4]]' | kvctl -c 'print sum(@-)'"
}

@test "process: stdin holds a file of any kind" {
    kvctl -c 'a = [[1, 2], [3, 4]]; init w a
        for kind in ["csv", "tsv", "json", "ndjson", "npy"] { write a f"x.{kind}" }; pull w > x.safetensors'
    for kind in csv tsv json ndjson npy safetensors; do
        for how in "<x.$kind" "< <(cat x.$kind)"; do
            run -0 bash -c "kvctl -c 'x = load(\"-\", format=\"$kind\")
                if \"$kind\" == \"ndjson\" { x = x[0] }
                print x' $how"
            assert_output $'[[1. 2.]\n [3. 4.]]'
        done
    done
    gives '[[1.]]' bash -c "printf ' \n [[1]]' | kvctl -c 'print @-'"
    gives '[[7. 8.]]' bash -c "printf ' \n 7,8' | kvctl -c 'print @-'"
    gives '[[7. 8.]]' bash -c "printf ' 7,8' | kvctl -c 'print @-'"
    run bash -c "printf 'a,b\n1,x\n' | kvctl -c 'print @-'"
    assert_line ' hint: load("-", cats=["b"]) makes codes of its texts; cols=["a"] leaves it out'
    gives '[[1.]]' bash -c "printf 'a,b\n1,x\n' | kvctl -c 'print load(\"-\", cols=[\"a\"])'"
    begins -5 '<stdin>:1:7: error[format]: stdin: the file is empty' bash -c "echo 'print @-' | kvctl"
}

@test "process: help and version" {
    run -0 kvctl -V
    assert_line --index 0 --partial "kvctl $(sed -n 's/^.define KV_VERSION "\(.*\)"/\1/p' "$top/src/kvstore.h")"
    assert_line --index 1 --regexp '^(gcc|clang) [0-9].*, 64-bit, with(out)? GNU Readline$'
    assert_line --index 2 --regexp '^types: local device teststore.*; not available: nccl'
    run -0 kvctl -h
    [ "${#lines[@]}" -le 24 ]
    cp "$build/kvctl" "$build/libkvstore.so.0" . # without the plugin of several machines
    run ./kvctl -c version
    assert_line --index 2 "types: local device teststore; not available: nccl dist_sync dist_async \
dist_device_sync dist_device_async horovod byteps"
}

@test "process: an unknown option says so" {
    mentions -2 "did you mean --format?" kvctl --frmat csv
}

@test "process: --check asks all texts for the names that one reads" {
    echo 'def g() = below * 2' >a.kv
    echo 'below = 1' >b.kv
    run -0 kvctl --check -f a.kv -f b.kv -c 'print g(), below'
    says -2 'a.kv:1:11: error[usage]: nothing sets the variable `below`' kvctl --check -f a.kv -c 'print g()'
    assert_line ' hint: one from outside: kvctl --set below=…'
    mentions -2 'error[usage]: --set needs NAME=VALUE, not "below"' kvctl --set below -f a.kv
    mentions -2 'error[usage]: --set cannot make a variable called "2"' kvctl --set 2=2 -f a.kv
    run -0 kvctl --check --set below=2 -f a.kv
    # what cannot be read may set it
    run kvctl --check -f a.kv -c 'below = (1'
    refute_output --partial "nothing sets"
    run kvctl --check -f a.kv -f missing.kv
    refute_output --partial "nothing sets"
    run -0 kvctl --check -f a.kv -c 'f = "x.kv"; source $f'
}

@test "process: only a prompt loads Readline" {
    case $(ldd "$build/kvctl") in
    *libreadline*) fail "a session without a prompt starts with Readline" ;;
    esac
}
