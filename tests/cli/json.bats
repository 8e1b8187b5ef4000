# --json, --check and help --json as another program meets them.

load help
@test "json: stdout holds records and nothing else, stderr the text of errors" {
    run -3 --separate-stderr kvctl --json -c 'print 1; pull 3'
    [ "${#lines[@]}" -eq 2 ]
    [[ ${lines[0]} == '{"v":1,"seq":1,"file":"<cmd>","line":1,"cmd":"print","ok":true,'*'"out":["1"]}' ]]
    [[ ${lines[1]} == *'"ok":false'*'"error":{"code":"key","exit":3,'* ]]
    [[ $stderr == '<cmd>:1:15: error[key]: key 3 was never initialised'* ]]
}

@test "json: -q keeps the text of errors from stderr" {
    run -3 --separate-stderr kvctl --json -q -c 'pull 3'
    assert_equal "$stderr" ""
    assert_output --partial '"code":"key"'
}

@test "json: an error of the command line has a record, wherever --json stands" {
    for options in "--json --nope" "--nope --json"; do
        run -2 --separate-stderr kvctl $options
        assert_output '{"v":1,"seq":1,"file":null,"line":null,"cmd":null,"ok":false,"store":null,"rank":0,"error":{"code":"usage","exit":2,"message":"there is no option --nope","line":null,"col":null,"end":null,"hint":"kvctl -h lists the options"}}'
    done
    run -5 --separate-stderr kvctl --json -f missing.kv
    assert_output --partial '"file":null,"line":null,"cmd":null,"ok":false'
}

@test "json: a failed assert of large arrays has its first differences, not all elements" {
    run -1 --separate-stderr kvctl --json -c 'a = zeros(1000,100); b = zeros(1000,100); b[3,4] = 1; b[5,6] = -inf; b[7] = 2; assert a == b'
    assert_output --partial '"left":{"dtype":"float32","shape":[1000,100],"ctx":"cpu(0)","stype":"default"},"right":{"dtype":"float32","shape":[1000,100],"ctx":"cpu(0)","stype":"default"},"index":[3,4],"max_diff":"inf","differences":[[[3,4],0,1],[[5,6],0,"-inf"],[[7,0],0,2],[[7,1],0,2],[[7,2],0,2]],"error":'
    [ "${#output}" -lt 1500 ]
    run --separate-stderr kvctl --json -c 'assert allclose(ones(64), zeros(64))'
    assert_output --partial '"data":[1,1,'
    run --separate-stderr kvctl --json -c 'assert [0]*100 == ones(100)'
    assert_output --partial '"left":{'
}

@test "json: a script that cannot be read gives one record, and nothing runs" {
    run -2 --separate-stderr kvctl --json -c $'print 1\nnonsense 3\nprint (2'
    [ "${#lines[@]}" -eq 1 ]
    assert_output --partial '"line":2,"cmd":null'
}

@test "json: -e, -k, quit and stdin work as without" {
    run -1 --separate-stderr kvctl --json -e -c 'zeros(2)'
    run -0 --separate-stderr kvctl --json -e -c 'ones(2)'
    run -7 --separate-stderr kvctl --json -k -c 'pull 3; print 1; quit 7'
    [ "${#lines[@]}" -eq 3 ]
    run -0 --separate-stderr sh -c 'echo "print 5" | kvctl --json'
    assert_output --partial '"file":"<stdin>"'
}

@test "json: statements that arrive one by one each give their record" {
    run --separate-stderr sh -c 'printf "x = 1\nprint x\npull 9\nprint 2\n" | kvctl --json -i'
    [ "${#lines[@]}" -eq 3 ]
    [[ ${lines[1]} == *'"cmd":"pull","ok":false'* ]]
    [[ ${lines[2]} == *'"seq":3'* ]]
}

@test "json: a reader that leaves is no error" {
    run --separate-stderr sh -c 'kvctl --json -c "repeat 100000 { print 1 }"; echo $? >status' | head -1
    kvctl --json -c 'repeat 100000 { print 1 }' | head -1 >first
    mentions '"seq":1' cat first
}

@test "json: a failed write is io" {
    [ -e /dev/full ] || skip "no /dev/full"
    mentions -5 "error[io]" sh -c 'kvctl --json -c "print 1" >/dev/full'
}

@test "json: --format is about print, not about records" {
    for format in numpy repr csv raw json; do
        run -0 --separate-stderr kvctl --json --format $format -c 'ones(2); print ones(2)'
        assert_line --index 0 --partial '"data":[1,1]'
    done
    assert_line --index 1 --partial '"out":["[1,1]"]'
    gives $'"1152921504606846976"\n"inf"\n[1,"a"]' kvctl --format json -c 'print 2 ** 60; print inf; print [1, "a"]'
    gives $'[{"key":"a"},{"key":"b"}]\n[{"key":"a","hash":"93b4c0439fdbbce704468dd8d5f6ab38"},{"key":"b","hash":"8432471291eac1ca20dbe3169d63ddd3"}]' \
        kvctl --format json -c 'init a,b [ones(2), zeros(1)]; list; save m.safetensors; hash m.safetensors'
}

@test "json: a table or a value in a .json file is what --format json shows" {
    kvctl -s m.safetensors -c 'init a,b [ones(2), zeros(1)]'
    for call in list info vars rounds 'stat m.safetensors' 'ls m.safetensors m.safetensors' type 'help --json' \
        '"a"' '{"a": ones(2), "b": None}' '[ones(2), "x"]' 'keys()' '[]' 'cpu(0)'; do
        setup="init a,b [ones(2), zeros(1)]; n = \"x\""
        kvctl --format json -c "$setup; $call" >shown
        gives "$(cat shown)" sh -c 'kvctl -c "$1 > o.json" && cat o.json' - "$setup; $call"
    done
    gives '[1.5,{"a":2}]' sh -c 'kvctl -c "[mean([1, 2]), {\"a\": max(array([1, 2], dtype=\"int32\"))}] > o.json" && cat o.json'
    gives $'{"key":"a"}\n2' sh -c 'kvctl -c "init a 1; list > o.jsonl; [ones(2), ones(1)] > p.jsonl" && cat o.jsonl && kvctl -c "print len(@p.jsonl)"'
    gives '[[1,1],[0]]' sh -c 'kvctl -c "[ones(2), zeros(1)] > o.json" && cat o.json'
    gives $'{"key":"a"}\n{"key":"b"}\n{"key":"a"}\n{"key":"b"}' \
        sh -c 'kvctl -c "init a,b [ones(2), zeros(1)]; list >> o.ndjson; list >> o.ndjson" && cat o.ndjson'
    run -1 kvctl -c 'check m.safetensors > o.json'
    mentions '"key":"b"' cat o.json
}

@test "json: Ctrl-C has a record" {
    kvctl --json -q -c '!touch begun
while true { x = 1 }' >out &
    pid=$!
    for _ in {1..500}; do [ ! -e begun ] || break; sleep 0.02; done
    sleep 0.2
    kill -INT $pid || true
    status=0
    wait $pid || status=$?
    assert_equal "$status" 130
    mentions '"error":{"code":"interrupted"' tail -n 1 out
}

@test "json: every record of every session can be read" {
    command -v jq >/dev/null || skip "no jq"
    cp -R "$data" .
    for script in "$top"/tests/cli/*.kv "$top"/examples/*.kv; do
        kvctl --json -q -k "$script" </dev/null 2>/dev/null >"${script##*/}.records" || true
    done
    run -0 jq -rn 'reduce inputs as $r ({}; .[input_filename] += [$r]) | to_entries[] | .key as $file
                | .value | select((all(.v == 1 and (.ok | type) == "boolean"
                                       and (.ok == (.error == null)))
                                   and map(.seq) == [range(1; length + 1)]) | not) | $file' *.records
    assert_output ''
    [ "$(cat *.records | wc -l)" -gt 2000 ] || fail "there are few records"
}

@test "json: codes that a script alone does not show" {
    run -6 --separate-stderr kvctl --json -q --timeout 0.2 -c 'while true { x = 1 }'
    assert_output --partial '"cmd":"while","ok":false,"store":null,"rank":0,"error":{"code":"timeout","exit":6,'
    run -3 --separate-stderr kvctl --json -q -c 'zeros(1000000, 1000000, 1000)'
    assert_output --partial '"error":{"code":"memory","exit":3,'
    run -1 --separate-stderr kvctl --json -q -c $'print 1\nexpect <<END\n2\nEND'
    assert_output --partial '"error":{"code":"expect","exit":1,'
    assert_output --partial '"detail":['
    kvctl -s store.kvs -c 'init 3 1'
    kvctl -s store.kvs -c $'push 3 1\n!touch locked; while [ -e locked ]; do sleep 0.05; done' &
    while [ ! -e locked ]; do sleep 0.05; done
    run -6 --separate-stderr kvctl --json -q --set store.wait=0.1 -s store.kvs -c 'push 3 1'
    assert_output --partial '"error":{"code":"busy","exit":6,'
    rm locked
    wait
}

@test "json: expect compares what would have been shown" {
    run -0 --separate-stderr kvctl --json -c $'init 3 ones(2); pull 3\nexpect <<END\n[1. 1.]\nEND\nprint 2\nexpect <<END\n2\nEND'
    [ "${#lines[@]}" -eq 5 ]
}

@test "json: a dry run and a state file have nothing else on stdout" {
    run -0 --separate-stderr kvctl --json --dry-run -s new.kvs -c 'init 3 1; write ones(2) a.csv; !echo hi'
    [ "${#lines[@]}" -eq 3 ]
    run -5 --separate-stderr kvctl --json -q -s no/such/new.kvs -c 'init 3 1'
    [ "${#lines[@]}" -ge 1 ]
    assert_output --partial '"error":{"code":"io"'
}

@test "check: errors of all inputs, and the exit code of the first" {
    echo 'wrong 1' >a.kv
    mentions -2 'a.kv:1:1: error[usage]: there is no command `wrong`' kvctl -n -f a.kv -c 'also 2' -f missing.kv
    assert_output --partial '<cmd>:1:1: error[usage]: there is no command `also`'
    assert_output --partial 'error[io]: cannot read "missing.kv"'
    run -5 kvctl -n -f missing.kv -f a.kv
}

@test "check: later inputs know the functions of earlier ones" {
    echo 'def f(a) = a' >a.kv
    gives "" kvctl --check -f a.kv -c 'print f(1)'
    run -0 sh -c 'echo "print f(1)" | kvctl --check a.kv -'
}

@test "check: files that source each other end, with one error" {
    printf 'source b.kv\nsource b.kv\n' >a.kv
    printf 'source a.kv\nsource a.kv\nprint (\n' >b.kv
    run -3 timeout 20 kvctl --check a.kv
    [ "$(grep -c 'error\[value\]: files source each other' <<<"$output")" -eq 1 ]
}

@test "check: a file that is no script ends soon" {
    head -c 300000 /dev/urandom >noise
    run -2 timeout 60 kvctl --check --json -q noise
    yes 'x = )' | head -n 5000 >wrong.kv
    mentions -2 "note: only the first 1000 errors are shown" kvctl --check wrong.kv
}

@test "help: --json is one object, of all or of one; --help behind a command" {
    run -0 kvctl -c 'help wait --json'
    assert_output '{"v":1,"commands":[{"name":"wait","usage":"wait","summary":"wait until all queued work is done","args":[],"options":[],"params":false,"gives":false,"examples":[{"input":"wait","about":null}],"see":["push","pull"],"fails":[]}],"functions":[]}'
    gives "$(kvctl -c 'help wait')" kvctl -c 'wait --help'
    gives "$(kvctl -c 'help push')" kvctl -c 'push 3 --help'
    mentions -3 'there is no command or function `pulll`' kvctl -c 'help pulll --json'
    assert_output --partial 'hint: did you mean pull or full?'
    mentions -3 'did you mean set-optimizer?' kvctl -c 'help optimizer --json' # a page is no row of the tables
    mentions -2 'help --json takes one word' kvctl --json -c 'help optimizer adam --json'
    run kvctl -c 'help --json'
    [ "${#lines[@]}" -eq 1 ]
    command -v jq >/dev/null || skip "no jq"
    run jq -r '[.commands[], .functions[]] | all(.name and .usage and .summary)' <<<"$output"
    assert_output true
}
