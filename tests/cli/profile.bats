# kvctl as a process: profiles of what a store does, and what it costs to do nothing.

load help

# Every line but the brackets is an object, followed by a comma unless it is the last.
assert_whole() {
    assert [ "$(head -n 1 "$1")" = "[" ]
    assert [ "$(tail -n 1 "$1")" = "]" ]
    gives -1 0 grep -cv -e '^{.*},$' -e '^{.*}$' -e '^[][]$' "$1"
    gives 1 grep -c '}$' "$1"
}

@test "profile: pushes and pulls of several keys" {
    run -0 kvctl -c 'profile p.json; init 3,5 [zeros(300,400)]*2; init 7 ones(2,3)
        for i in 0..19 { push [3, 5, 7] [ones(300,400), ones(300,400), ones(2,3)]; pull 5 -> w }
        pull 7; profile off; print "done"'
    assert_line done
    assert_whole p.json
    gives 20 grep -c '"cat":"run".*"name":"push 3, 5, 7".*"keys":\[3,5,7\],"nkeys":3' p.json
    gives 20 grep -c '"cat":"run".*"name":"pull 5"' p.json
    gives 1 grep -c '"cat":"part".*"name":"copy 7".*"key":7,"from":0,"elements":6,"bytes":24' p.json
    grep -q '"cat":"part".*"name":"sum 5"' p.json
    grep -q '"cat":"run".*"name":"init 3, 5"' p.json
}

@test "profile: parts of one key that write it never overlap" {
    kvctl -c 'profile p.json; init w zeros(100,100)
        for i in 0..49 { push w ones(100,100); pull w -> a }; profile off'
    # times as whole nanoseconds, ordered by their begin
    sed -n 's/.*"cat":"part".*"ts":\([0-9]*\)\.\([0-9]*\),.*"dur":\([0-9]*\)\.\([0-9]*\),.*/\1\2 \3\4/p' \
        p.json | sort -n >times
    gives 100 wc -l <times
    gives "" awk '$1 < end { print "overlap at", $1 } { end = $1 + $2 }' times
}

@test "profile: leaving kvctl writes the file, by whatever way" {
    kvctl -c 'profile a.json; init 3 ones(2)'
    assert_whole a.json
    run -3 kvctl -c 'profile b.json; init 3 ones(2); pull 4'
    assert_whole b.json
    run -9 kvctl -c 'profile c.json; init 3 ones(2); quit 9'
    assert_whole c.json
    run -0 sh -c 'printf "profile d.json\ninit 3 ones(2)\n" | kvctl -i'
    assert_whole d.json
    grep -q '"name":"init 3"' d.json
}

@test "profile: the old file stays until the new one is whole" {
    echo old >p.json
    gives old kvctl -c 'profile p.json; !cat p.json'
    assert_whole p.json
    gives -1 "" sh -c 'ls -A | grep -v p.json'
}

@test "profile: a write that fails is exit 5" {
    [ -w /dev/full ] || skip "no /dev/full"
    run -5 kvctl -c 'profile /dev/full; init 3 ones(2); profile off'
    assert_output --partial 'error[io]: cannot write "/dev/full": No space left on device'
    mentions -5 'cannot write "/dev/full": No space left on device' kvctl -c 'profile /dev/full; init 3 ones(2)'
    mentions -5 'cannot write "no/such/p.json": No such file or directory' kvctl -c 'profile no/such/p.json; print 1'
}

@test "profile: --dry-run and --safe write nothing" {
    says "dry run: would write p.json" kvctl --dry-run -c 'profile p.json; profile off'
    mentions -4 '--safe forbids writing "p.json"' kvctl --safe -c 'profile p.json'
    mentions -4 '--safe forbids writing "p.json"' kvctl --safe -c 'name = "p.json"; profile $name'
    mentions -3 'no profile is being taken' kvctl --safe -c 'profile off'
    assert [ ! -e p.json ]
}

@test "profile: with --json, stdout has one object a command" {
    run -0 kvctl --json -c 'profile p.json; init 3 ones(2); profile off'
    assert_equal "${#lines[@]}" 3
    assert_line --index 0 --partial '"cmd":"profile","ok":true'
    assert_line --index 2 --partial '"cmd":"profile","ok":true'
}

@test "idle: a store whose work is done uses no processor" {
    [ -r /proc/self/stat ] || skip "no /proc"
    mkfifo talk
    kvctl -q -i <talk >out 2>&1 3>&- &
    pid=$!
    exec 9>talk
    echo 'init 3 ones(1000,1000); push 3 [ones(1000,1000), ones(1000,1000)]; pull 3 -> a; print "done"' >&9
    for _ in $(seq 100); do
        grep -q done out && break
        sleep 0.1
    done
    grep -q done out
    ticks() { awk '{ print $14 + $15 }' "/proc/$pid/stat"; }
    before=-1
    until [ "$(ticks)" = "$before" ]; do # until what came behind "done" is over
        before=$(ticks)
        sleep 0.5
    done
    sleep 10
    after=$(ticks)
    exec 9>&-
    wait "$pid"
    # of 1000 in ten seconds and on one processor; one may be counted for what was before
    assert [ $((after - before)) -le 1 ]
}

@test "profile: the first 2^20 events are kept, and how many were not is said" {
    kvctl -c 'init 3 1; profile p.json; repeat 360000 { push 3 1 }' 2>err
    assert_regex "$(cat err)" '^warning: the profile has the first 1048576 events; the [0-9]+ behind them'
    assert_equal "$(tail -n 1 p.json)" ']'
}
