# info --metrics: the text of Prometheus, read by a parser of our own, and rounds.

load help

# prometheus FILE: reads the text format 0.0.4 and prints a line `NAME LABEL=VALUE… NUMBER` for each
# sample, values unescaped. What the format does not allow is named, with exit status 1: samples
# without HELP and TYPE above them, metrics in two places, a label twice, a sample twice.
prometheus()
{
    awk '
    function bad(why) { printf "%s:%d: %s: %s\n", FILENAME, FNR, why, $0; wrong = 1; exit 1 }
    /^# HELP / { if ($3 in help) bad("HELP twice"); help[$3] = 1; next }
    /^# TYPE / {
        if (!($3 in help) || $3 in type || NF != 4 || $4 !~ /^(counter|gauge)$/) bad("no TYPE")
        if (($4 == "counter") != ($3 ~ /_total$/)) bad("a counter ends in _total")
        type[$3] = $4; now = $3; next
    }
    {
        line = $0
        if (!match(line, /^[a-zA-Z_:][a-zA-Z0-9_:]*/)) bad("no name")
        name = substr(line, 1, RLENGTH); line = substr(line, RLENGTH + 1)
        if (name != now) bad("not below its TYPE")
        split("", had); out = name
        if (sub(/^\{/, "", line)) {
            while (line !~ /^\}/) {
                if (!match(line, /^[a-zA-Z_][a-zA-Z0-9_]*="/)) bad("no label")
                label = substr(line, 1, RLENGTH - 2); line = substr(line, RLENGTH + 1); text = ""
                if (label in had) bad("a label twice")
                had[label] = 1
                while (line !~ /^"/) {
                    if (line == "") bad("no end of a text")
                    c = substr(line, 1, 1); line = substr(line, 2)
                    if (c == "\\") {
                        c = substr(line, 1, 1); line = substr(line, 2)
                        if (c == "n") c = "\n"
                        else if (c != "\\" && c != "\"") bad("no escape")
                    }
                    text = text c
                }
                line = substr(line, 2); sub(/^,/, "", line)
                out = out " " label "=" text
            }
            line = substr(line, 2)
        }
        if (line !~ /^ -?[0-9]+(\.[0-9]+)?$/) bad("no number")
        if (out in samples) bad("a sample twice")
        samples[out] = 1
        print out line
    }
    END { exit wrong }' "$1"
}

@test "metrics: the stores of a session" {
    kvctl -c 'init 3,5 [ones(2)]*2; push 3,5 [ones(2)]*2; push 3 ones(2); create --name b; init w ones(3)' \
        -c 'info --metrics' >text
    says 'kvstore_keys rank=0 store=kv 2' prometheus text
    assert_line 'kvstore_keys rank=0 store=b 1'
    assert_line 'kvstore_bytes rank=0 store=kv 16'
    assert_line 'kvstore_pushes_total rank=0 store=kv 3'
    assert_line 'kvstore_rounds_total rank=0 store=kv 2'
    assert_line 'kvstore_waits rank=0 store=kv 0'
    assert_line 'kvstore_info rank=0 store=b type=local updater=assign compression=none 1'
    assert_line --regexp '^kvstore_memory_bytes rank=0 [1-9][0-9]+$'
}

@test "metrics: a session without a store, an optimizer, and JSON" {
    kvctl -c 'info --metrics' >text
    says 'kvstore_keys rank=0 store=kv 0' prometheus text
    kvctl -c 'set-optimizer adam; info --metrics' >text
    says 'kvstore_info rank=0 store=kv type=local updater=adam compression=none 1' prometheus text
    mentions '"# TYPE kvstore_keys gauge","kvstore_keys{rank=\"0\",store=\"kv\"} 0",' kvctl --json -c 'info --metrics'
    kvctl -c 'info --metrics > m.txt'
    run -0 prometheus m.txt
}

@test "metrics: names of keys are escaped" {
    kvctl -c 'init "a\"b\\c\nd" ones(2); init "ä" 1; push "ä" 2' -c 'info * --metrics' >text
    says 'kvstore_key_pushes_total rank=0 store=kv key=ä 1' prometheus text
    assert_output --partial 'kvstore_key_bytes rank=0 store=kv key=a"b\c
d 8'
    run ! kvctl -c 'init 3 1; info 4 --metrics'
    assert_output --partial 'error[key]'
    mentions -2 'the ranks of --cluster tell of all their keys together' kvctl -c 'init 3 1; info 3 --cluster --metrics'
    mentions -4 'stores of type "local" have one rank' kvctl -c 'info --cluster --metrics'
    assert_output --partial 'hint: a store of all ranks of a job is of type dist_sync, or another dist_…'
}

@test "metrics: the parser finds what the format does not allow" {
    local text
    for text in 'a 1' '# HELP a x\n# TYPE a gauge\na{b="1",b="2"} 1' '# HELP a x\n# TYPE a gauge\na 1\na 1' \
        '# HELP a x\n# TYPE a counter\na 1' '# HELP a x\n# TYPE a gauge\na{b="1} 1' \
        '# HELP a x\n# TYPE a gauge\na{b="\\x"} 1' '# HELP a x\n# TYPE a gauge\na x'; do
        printf "$text\n" >text
        run ! prometheus text
    done
}

@test "metrics: ranks, their servers, and whom a round lacks" {
    needs_mpi
    cat >s.kv <<'END'
create dist_sync
init 3,5 [ones(2)]*2
init 7 ones(1500000)
push 3 ones(2); pull 3 -> x
if rank() == 1 { push 5,7 [ones(2), ones(1500000)] }
barrier
if rank() == 1 { rounds; info --cluster --metrics }
if rank() == 0 { info --metrics }
barrier
if rank() == 0 { push 5,7 [ones(2), ones(1500000)] }
barrier
pull 5 -> x; assert x == 2
pull 7 -> x; assert x == 2
if rank() == 0 { rounds }
END
    timeout 60 kvctl launch -n 2 -s 2 s.kv >all
    sed -n 's/^\[1\] //p' all >one
    run sed /#/,\$d one
    assert_output - <<'END'
key  round  newest  ahead  pushed  missing
3    1      1       0      -       -
5    0      0       1      1       0
7    0      0       1      1       0
END
    sed -n '/#/,$p' one >text
    says 'kvstore_server_keys rank=2 store=kv 2' prometheus text
    assert_line 'kvstore_server_missed rank=3 store=kv worker=0 1'
    assert_line --regexp '^kvstore_silence_seconds rank=2 store=kv role=server host=[^ ]+ [0-9.]+$'
    sed -n 's/^\[0\] //p' all >zero
    sed -n '/#/,/^key/p' zero | sed '/^key/,$d' >text
    says 'kvstore_workers rank=0 store=kv 2' prometheus text
    run sed -n '/^key/,$p' zero
    assert_output - <<'END'
key  round  newest  ahead  pushed  missing
3    1      1       0      -       -
5    1      1       0      -       -
7    1      1       0      -       -
END
}

@test "rounds: dist_async tells the fastest and the slowest worker" {
    needs_mpi
    cat >s.kv <<'END'
create dist_async
init 3 ones(2)
set-optimizer sgd
barrier
if rank() == 1 { for i in 1..3 { push 3 ones(2) }; pull 3 -> x; assert x == x }
barrier
if rank() == 0 { rounds }
END
    says '[0] 3    3      3       3      1       0' timeout 60 kvctl launch -n 2 -s 1 s.kv
}
