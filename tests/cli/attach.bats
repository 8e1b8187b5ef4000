# kvctl attach and kvctl jobs: a look at jobs of this machine, through their sockets.

load help
load screen
needs=mpi

setup_job()
{
    export KVCTL_JOBS=$PWD/jobs
    cat >train.kv <<'END'
create dist_sync
init 3,5,9 [ones(2,3), zeros(300000), zeros(1)]
loss = []
name = "run"
table = {"a": 1}
e = 0
while max(e) == 0 {
  push 3,5,9 [ones(2,3), ones(300000), ones(1) * len(glob("end"))]
  pull 9 -> e
  pull 3 -> w
  loss.append(sum(w))
  !sleep 0.1
}
END
}

# begin_job WORD…: runs a job in the background, and waits until it answers.
begin_job()
{
    launch_job "$@"
    until_holds "no job runs" eval "kvctl jobs 2>/dev/null | grep -q ' runs  *[1-9]'" || { cat said; return 1; }
}

# launch_job WORD…: the same without a wait.
launch_job()
{
    export KVCTL_JOBS=$PWD/jobs
    timeout 300 kvctl launch "$@" >said 2>&1 3>&- &
    job=$!
}

# answers ENTRY: waits until the job answers it; the answer is in the file out.
answers()
{
    until_holds "no answer" eval "kvctl attach -c '$1' >out 2>&1"
}

end_job()
{
    touch end
    wait "$job"
}

teardown()
{
    touch end
    wait
}

@test "attach: every command of a look at a job" {
    setup_job
    begin_job -n 2 -s 1 --name train train.kv
    run kvctl jobs
    assert_output --regexp '^job +since +workers +servers +state +rounds +hosts +script'
    assert_line --regexp '^train +20[0-9-]+ [0-9:]+ +2 +1 +runs +[0-9]+ +[^ ]+ +train\.kv$'
    matches '^key +round +newest +ahead +pushed +missing$' kvctl attach -c rounds
    assert_line --regexp '^5 +[0-9]+ '
    run kvctl attach train -c info
    assert_line --partial 'type dist_sync, rank 0, num_workers 2'
    gives 1 kvctl attach train --rank 1 -c 'rank'
    run kvctl attach -c 'info --cluster'
    assert_line --regexp '^2 +server '
    kvctl help info >page
    for word in heard open contributors stalest; do
        [[ ${lines[0]} == *" $word"* ]]
        grep -q "# .*$word" page || fail "help info lacks $word"
    done
    gives $'3\n5\n9' kvctl attach -c list
    gives $'[[2. 2. 2.]\n [2. 2. 2.]]' kvctl attach -c 'pull 3'
    gives '[1.] [[1.]]' kvctl attach -c 'print topk([1, 3, 2]), eye(1)'
    run kvctl attach -c 'stat 3'
    assert_line --regexp '^3 +6 +2\.0 +2\.0 +2\.0 '
    run kvctl attach -c stat
    assert_line --regexp '^5 +300000 +2\.0 '
    mentions loss kvctl attach -c 'plot loss'
    if command -v gnuplot >/dev/null; then
        kvctl attach -c 'plot loss > live.svg' -c 'plot loss > live.png'
        grep -q '</svg>' live.svg
        [ "$(head -c 4 live.png | tail -c 3)" = PNG ]
    fi
    gives -5 'kvctl: error[io]: cannot write "none/live.txt": No such file or directory' kvctl attach -c 'plot loss > none/live.txt'
    run -5 kvctl attach -c 'profile none/p.json' -c 'profile off'
    kvctl attach -c 'plot --hist loss >> live.txt'
    grep -q loss live.txt
    run -2 kvctl attach -c 'plot loss > live.csv'
    gives 'run 12.0' kvctl attach -c 'print name, max(loss)'
    says -3 ' hint: kvctl jobs NAME shows the line of each rank; rounds names the one that a round lacks' kvctl attach -c status
    run kvctl attach -c 'mean(kv.pull(5))' -c 'help rounds'
    assert_line --partial 2.
    assert_line 'rounds'
    run kvctl attach -c 'explain push 3 w'
    assert_line '  4. the server waits until workers 0 and 1 have pushed this round, and adds their sums by rank'
    assert_line 'nothing was changed'
    run kvctl attach -c 'info --metrics'
    assert_line 'kvstore_workers{rank="0",store="kv"} 2'
    # rounds go by between the two
    (echo 'profile p.json'; until [ "$(sort -u out | wc -l)" -gt 3 ]; do echo 'print len(loss)'; sleep 0.1; done
        echo 'profile off') | kvctl attach >out
    grep -q '"cat":"enqueue"' p.json
    end_job
}

# fields of a record by its number: `record 3 .ok .error.code`
record()
{
    local n=$1
    shift
    jq -c --argjson n "$n" "select(.seq == \$n) | $(IFS=,; echo "$*")" out | paste -sd ' '
}

@test "attach: --json answers with records, as of kvctl --json" {
    setup_job
    begin_job -n 2 -s 1 --name train train.kv
    kvctl --json attach --rank 1 train -c 'pull 3; rounds' -c 'pull [3, 9]' -c name -c 'print name, 1' \
        -c 'stat 3' -c list -c info -c 'info --cluster' -c 'info --metrics' -c rank -c 'explain push 3 w' \
        -c 'help rounds' -c version -c 'plot loss' -c 'plot loss > live.txt' -c '' -c 'profile p.json' -c 'profile off' >out
    jq -es 'map(.seq) == [range(1; length + 1)] and all(.v == 1 and .ok and .file == "<attach>" and .line == 1)' out
    assert_equal "$(record 1 .cmd .rank .keys .values[0].data)" '"pull" 1 [3] [[2,2,2],[2,2,2]]'
    assert_equal "$(record 2 .cmd '(.entries | map(.key))')" '"rounds" [3,5,9]'
    assert_equal "$(record 3 .keys '(.values | map(.key))')" '[3,9] [3,9]'
    assert_equal "$(record 4 .cmd .value)" '"expr" "run"'
    assert_equal "$(record 5 .out)" '["run 1"]'
    assert_equal "$(record 6 .entries[0].max)" 2
    assert_equal "$(record 7 '(.entries | length)')" 3
    assert_equal "$(record 9 '(.entries | map(.rank))')" '[0,1,2]'
    [[ $(record 15 .cmd .out) == '"plot" ["loss '* ]]
    assert_equal "$(record 16 .cmd .out)" '"plot" []'
    grep -q loss live.txt
    jq -e length p.json

    # errors: of the entry, of its text, of the files here, of the words; the first one is the exit code
    run -4 --separate-stderr kvctl attach --json -c 'push 3 1' -c top -c 'print (' -c 'pull 4' -c 'plot loss > none/x.txt' \
        -c 'print [i for i in 0..9*10**7-1]'
    echo "$output" >out
    jq -es 'map(.seq) == [range(1; length + 1)]' out
    assert_equal "$(record 1 .cmd .ok .error.code .error.hint)" \
        '"push" false "unsupported" "it runs info, list, pull, stat, plot, explain, profile, rounds, where and print"'
    assert_equal "$(record 2 .error.code .error.hint)" '"name" null'
    assert_equal "$(record 3 .cmd .error.code .error.col)" 'null "syntax" 7'
    assert_equal "$(record 4 .error.code .keys)" '"key" [4]'
    assert_equal "$(record 5 .ok)" true
    assert_equal "$(record 6 .file .error.message)" 'null "cannot write \"none/x.txt\": No such file or directory"'
    assert_equal "$(record 7 .error.code .error.hint)" '"memory" "an entry of attach has 256 MB"'
    [[ $stderr == *'error[unsupported]: attach reads only, and has no `push`'* ]]
    run -3 --separate-stderr kvctl attach --json -q -c top
    assert_equal "$stderr" ""
    run -3 --separate-stderr kvctl attach nojob --json -q -c rank
    assert_equal "$(jq -r .error.message <<<"$output")" 'no job of yours is called nojob here'
    assert_equal "$stderr" ""
    end_job
}

@test "attach: what changes something is refused, and nothing reaches the job" {
    setup_job
    begin_job -n 2 train.kv
    local entry
    for entry in 'push 3 1' 'init 9 1' 'set-optimizer sgd' 'kv.push(3, w)' 'begin' 'barrier' 'done' 'create local' \
        'x = 1' 'loss.append(1); loss = []' 'loss.append(1)' 'print loss.pop()' '[].extend(loss)' '!touch evil' 'pull 3 > evil' 'pull 3 -> x' 'pull 3 | cat > evil' \
        'w > "evil.csv"' 'save evil' 'write 1 evil' 'for i in 1..2 { print i }' 'def f() { 1 }' '@/etc/passwd' \
        'pull 3 --ctx gpu(0)' 'pull 3 --out w' 'push 3 ones(2,3)@gpu(0)' 'send-command 1 x' 'explain on' 'quit 3; push 3 1' \
        'source "/etc/passwd"' 'table' 'ones(2)@gpu(0)' 'register M' 'set print.precision 3' 'doctor' 'profile off'; do
        run timeout 60 kvctl attach -c "$entry"
        [ "$status" -ne 0 ] || fail "$entry: $output"
        assert_output --partial 'error['
    done
    while IFS='|' read -r entry text; do
        run timeout 60 kvctl attach -c "$entry"
        assert_equal "${lines[0]#*error\[*\]: }" "$text"
    done <<'END'
pull 3 --out w|attach reads only: its pull has no --out
pull 3 --ctx gpu(0)|attach reads only: its pull has no --ctx
@/etc/passwd|attach reads what the job holds, no files
loss.append(1)|attach reads only: a copy is all that `.append()` would change
profile off|no profile is being taken from here
explain on|the script alone can say whether its calls are explained
table|a dict of the script cannot be looked at from here
ones(2)@gpu(0)|a look at a job makes no GPUs
END
    run -4 kvctl attach -c 'push 3 1'
    assert_output - <<'END'
<attach>:1:1: error[unsupported]: attach reads only, and has no `push`
    1 : push 3 1
      : ^^^^^^^^
 hint: it runs info, list, pull, stat, plot, explain, profile, rounds, where and print
END
    run kvctl attach -c 'x = 1'
    assert_line --partial 'error[unsupported]: attach reads only: it sets no variables'
    run kvctl attach -c '!ls'
    assert_line --partial 'error[unsupported]: attach reads only: it runs no commands of the shell'
    run kvctl attach -c top
    assert_line --partial 'error[name]: there is no variable `top`'
    refute_output --partial hint
    gives -5 'kvctl: error[io]: cannot read the standard input: Is a directory' bash -c 'timeout 60 kvctl attach <.'
    run kvctl attach -c 'pull 3 > evil.csv'
    assert_line --partial 'attach reads only: what it shows goes into no file, command or variable'
    [ ! -e evil ] && [ ! -e evil.csv ]
    run kvctl attach -c 'pull 4'
    assert_line --partial 'error[key]: there is no key 4'
    run -2 kvctl attach -c 'print ('
    run kvctl attach -c 'pull 3' -c 'print max(loss)'
    assert_line 12.0
    end_job
    [ ! -s said ]
}

@test "attach: 100 entries change no bit of a result, and no count" {
    setup_job
    cat >bits.kv <<'END'
create dist_sync
set-optimizer adam
init 3,5 [normal(2, 3), zeros(300000)]
for i in 1..60 {
  push 3,5 [normal(2, 3) * i, ones(300000) * normal(1)]
  pull 3,5 -> w
  v = w[0]
  if i == 30 { !until [ ! -e looked ] || grep -q "nothing was changed" looked || [ -e end ]; do sleep 0.05; done
  }
  !sleep 0.02
}
if rank() == 0 { print v; print sum(w[1]); write v bits.npy; info --states }
barrier
END
    timeout 100 kvctl launch -n 2 -s 1 bits.kv >without
    mv bits.npy without.npy
    : >looked
    begin_job -n 2 -s 1 bits.kv
    local i=0
    while kill -0 "$job" 2>/dev/null && [ $i -lt 10 ]; do
        timeout 60 kvctl attach \
            -c 'pull 3,5' -c stat -c rounds -c info -c 'plot v' -c 'print v, normal(3)' \
            -c 'info --cluster' -c 'explain push 3 v' -c list -c 'info --metrics' >>looked 2>&1 || true
        i=$((i + 1))
    done
    wait "$job"
    grep -q 'nothing was changed' looked
    cmp bits.npy without.npy
    diff said without
}

@test "attach: two at once, each sees its own" {
    setup_job
    begin_job -n 2 train.kv
    mkfifo a b
    kvctl attach <a >out.a 2>&1 &
    kvctl attach <b >out.b 2>&1 &
    exec 5>a 6>b
    for _ in 1 2 3; do
        echo 'print "a", sum(kv.pull(3))' >&5
        echo 'print "b", sum(kv.pull(3))' >&6
    done
    exec 5>&- 6>&-
    until_holds "no answers" eval '[ "$(cat out.a out.b | wc -l)" -eq 6 ]'
    run cat out.a
    assert_output $'a 12.0\na 12.0\na 12.0'
    run cat out.b
    assert_output $'b 12.0\nb 12.0\nb 12.0'
    end_job
}

@test "attach: a script that has made no store yet" {
    launch_job -n 1 --name early -c $'begun = 1\nwhile len(glob("end")) == 0 { !sleep 0.02\n}'
    answers 'print begun'
    run cat out
    assert_output 1
    for entry in list rounds 'pull 3'; do
        opens -3 'error[value]: the script has made no store yet' kvctl attach -c "$entry"
    done
    end_job
}

@test "attach: a worker whose script has not begun, a spare, does not listen yet" {
    launch_job -n 1 -s 1 --spares 1 --name spare -c 'create dist_sync; init w ones(1)
while len(glob("end")) == 0 { !sleep 0.02
}'
    answers list
    run -6 kvctl attach --rank 1 -c list
    assert_output 'kvctl: error[peer]: job spare: worker 1 does not listen yet: it does when its script begins'
    end_job
}

@test "attach: a script in a long statement, and in what it does itself" {
    cat >busy.kv <<'END'
create local
init 3 ones(2)
while len(glob("own")) == 0 { !sleep 0.02
}
profile own.json
!touch begun
while len(glob("long")) == 0 { !sleep 0.02
}
profile off
x = max([sum(normal(shape=(100000,))) for i in 0..10000000])
END
    launch_job -n 1 --name busy busy.kv
    answers 'pull 3'
    run cat out
    assert_output '[1. 1.]'
    run -4 kvctl attach -c 'explain push 3 ones(2)'
    assert_line --index 0 --partial 'a call of a store of type "local" is explained by making it and taking it back, which the script would see'
    : >out
    (printf 'profile p.json\nprint 7\n'; until grep -q 7 out; do sleep 0.05; done; touch own
        until [ -e begun ]; do sleep 0.05; done; echo 'profile off') | kvctl attach >out 2>&1 || true
    run cat out
    assert_line --partial 'error[value]: the script has begun a profile of its own, which ended this one'
    touch long
    until_holds "no long statement" eval "kvctl attach -c 'print x' 2>&1 | grep -q 'is in the midst'"
    run -6 kvctl attach -c 'print x'
    assert_line --index 0 --partial 'error[busy]: the script is in the midst of a statement, and its variables can be read between two of them'
    assert_line ' hint: where, rounds, info --cluster, pull and stat answer all the same'
    run -0 kvctl attach -c where
    gives '[1. 1.]' kvctl attach -c 'pull 3'
    kill -TERM "$job"
    wait "$job" || true
}

@test "attach: a job that ends while somebody looks" {
    setup_job
    begin_job -n 2 --name short train.kv
    (echo rounds; while [ ! -s out ]; do sleep 0.1; done; touch end
        while kill -0 "$job" 2>/dev/null; do sleep 0.1; done; echo rounds) | kvctl attach >out 2>&1 || code=$?
    assert_equal "$code" 6
    run cat out
    assert_output --partial 'kvctl: error[peer]: job short has ended, or this worker has'
    wait "$job"
    gives 'kvctl: no job of yours runs here' kvctl jobs
    says -3 'kvctl: error[name]: no job of yours runs here' kvctl attach
    run ls -A jobs
    assert_output ''
}

# A rank in a loop that never ends answers no entry about its variables, and one that waits is in a
# call: both places are known all the same.
@test "attach: where each rank is, also one that is busy" {
    cat >busy.kv <<'END'
create dist_sync
init w zeros(2)
def spin(x) {
    y = x
    while rank() == 1 and len(glob("end")) == 0 { y += 1 }
}
spin(0)
push w ones(2); pull w
END
    launch_job -n 2 -s 1 --name busy busy.kv
    until_holds "rank 0 does not wait" eval "kvctl jobs busy 2>/dev/null | grep -qE ' 8 +[1-9][0-9]* +pull w'"
    until_holds "rank 1 tells nothing" eval "kvctl jobs busy >out && grep -q ' 8 .* pull w' out && grep -q ' 5 .* y += 1' out"
    run cat out
    assert_line --regexp '^0     worker  [0-9]+ +busy.kv  8     [0-9]+ +pull w$'
    assert_line --regexp '^1     worker  [0-9]+ +busy.kv  5     [0-9]+ +y \+= 1$'
    assert_line --regexp '^2     server  [0-9]+ +-        -     -  +-$'
    matches '^1     worker  [0-9]+ +busy.kv  5     [0-9]+ +y \+= 1$' kvctl attach -c where
    # with --json it is one record, numbered like those of the worker; so is that of stdin
    kvctl attach --json -q -c rounds -c ' where' -c $'where\t' -c list >records || true
    jq -es 'map(.seq) == [1, 2, 3, 4] and .[2].cmd == "where" and .[2].ok and
        (.[2].entries | .[0].statement == "pull w" and .[1].line == 5 and .[1].pid > 1 and .[2].rank == 2)' records
    kvctl attach busy -c where --json | jq -es 'length == 1 and .[0].entries[1].line == 5'
    echo where | kvctl attach --json | jq -es 'length == 1 and .[0].entries[1].line == 5'
    # which job it is, where several entries go to one without a name
    run -0 --separate-stderr kvctl attach -c where -c list
    assert_equal "$stderr" 'note: job busy, busy.kv'
    run -0 --separate-stderr kvctl attach busy -c where -c list
    assert_equal "$stderr" ''
    kvctl jobs busy --json >ranks
    jq -e '.jobs[0].ranks | .[0].statement == "pull w" and .[0].seconds >= 1 and .[1].line == 5 and
        .[2].role == "server" and .[2].file == null' ranks
    for pid in $(jq '.jobs[0].ranks[].pid' ranks); do
        grep -q kvctl "/proc/$pid/cmdline"
    done
    end_job
}

@test "attach: several jobs, names, and what is wrong with words" {
    setup_job
    begin_job -n 1 --name one train.kv
    local first=$job
    for script in train.kv train; do
        run -0 kvctl jobs $script
        assert_line --index 0 --partial 'rank'
    done
    gives -3 $'kvctl: error[name]: no job of yours is called rain here\n hint: jobs that run here: one' kvctl jobs rain
    gives 7 kvctl attach train print 3 + 4
    launch_job -n 1 --name two train.kv
    local second=$job
    until_holds "one job runs" eval '[ "$(kvctl jobs | grep -c " runs  *[1-9]")" -eq 2 ]'
    says -3 'kvctl: error[name]: which job? 2 run here' kvctl attach -c list
    assert_line ' hint: jobs that run here: one, two'
    run -0 kvctl attach two -c list
    run kvctl attach three -c list
    assert_line 'kvctl: error[name]: no job of yours is called three here'
    run kvctl attach rounds
    assert_line ' hint: kvctl attach -c rounds runs it beside the job'
    run kvctl attach two --rank 4 -c list
    assert_line 'kvctl: error[peer]: job two: there is no worker 4: they are 0 to 0'
    run kvctl launch -n 1 --name one train.kv
    assert_line 'kvctl: error[busy]: a job called one runs already'
    run kvctl launch -n 1 --name ../x train.kv
    assert_line 'kvctl: error[usage]: --name needs letters, digits, -, _ and ., and not only digits, not "../x"'
    gives -2 $'kvctl: error[usage]: attach: there is no option --frob\n hint: kvctl attach --help' kvctl attach --frob
    run -3 kvctl attach one two
    assert_line '<attach>:1:1: error[name]: there is no variable `two`'
    gives -3 $'kvctl: error[name]: no job of yours is called train.kv here\n hint: jobs that run here: one, two' kvctl jobs train.kv
    gives -3 $'kvctl: error[name]: no job of yours is called x here\n hint: jobs that run here: one, two' kvctl jobs x
    run kvctl jobs one two
    assert_line 'kvctl: error[usage]: jobs takes one job, and here is "two"'
    kvctl jobs two --json | jq -e '.jobs | map(.name) == ["two"] and (.[0].ranks | length) == 1'
    until_holds "a job tells no rounds" eval "kvctl --json jobs | jq -e '.jobs | all(.rounds > 0)'"
    kvctl --json jobs | jq -e --arg host "$(hostname)" '.jobs | map(.name) == ["one", "two"] and
        all(.began | test("^20[0-9-]+T[0-9:]+Z$")) and all(.workers == 1 and .servers == 0) and
        all(.state == "runs" and .hosts == [$host] and .script == "train.kv") and
        all((.pid | type) == "number")'
    [ "$(ps -o ppid= -p "$(kvctl jobs --json | jq '.jobs[0].pid')" | tr -d ' ')" = "$first" ] # its timeout
    run -0 kvctl -q attach one -c 'list'
    # an entry of 65,536 bytes, and a longer one
    gives 7 kvctl attach one -c "print 7$(printf '%65529s' '')"
    gives -2 'kvctl: error[usage]: an entry has at most 65536 bytes' kvctl attach one -c "print 7$(printf '%65530s' '')"
    touch end
    wait "$first" "$second"
}

# elsewhere NAME WORD…: a job whose launcher runs on another host than its workers: their folder of jobs is `here`.
elsewhere()
{
    KVCTL_JOBS=$PWD/there.$1 timeout 300 kvctl launch --env-worker KVCTL_JOBS="$PWD/here" "${@:2}" >"said.$1" 2>&1 3>&- &
}

@test "attach: jobs of one name, whose launchers are on several hosts" {
    setup_job
    export KVCTL_JOBS=$PWD/here
    elsewhere a -n 2 --name train --set part=1 train.kv
    until_holds "it does not run" eval "kvctl jobs | grep -q '^train .* runs  *[1-9]'"
    gives 1 kvctl attach train -c 'print part'
    gives -6 'kvctl: error[peer]: job train does not answer' kvctl launch --grow train
    elsewhere b -n 2 --name train --set part=2 train.kv
    until_holds "not both run" eval '[ "$(kvctl jobs | grep -c "^train:.* runs  *[1-9]")" -eq 2 ]'
    local names parts
    names=$(kvctl jobs --json | jq -r '.jobs[].name')
    parts=$(for name in $names; do kvctl attach "$name" -c 'print part'; done)
    assert_equal "$(sort <<<"$parts")" $'1\n2'
    says -3 'kvctl: error[name]: no job of yours is called train here' kvctl attach train -c list
    assert_line " hint: jobs that run here: ${names/$'\n'/, }"
    # that of a launcher here has the plain name
    KVCTL_JOBS=$PWD/here timeout 300 kvctl launch -n 1 --name train --set part=3 train.kv >said 2>&1 3>&- &
    until_holds "the third does not run" eval "kvctl jobs | grep -q '^train  .* runs  *[1-9]'"
    gives 3 kvctl attach train -c 'print part'
    assert_equal "$(kvctl jobs --json | jq -c '.jobs | map(.name)')" "$(jq -cn '["train"] + $ARGS.positional' --args $names)"
    touch end
    wait
    assert_equal "$(cat said said.*; ls -A here)" ''
}

@test "attach: of a worker elsewhere that was killed no socket stays" {
    setup_job
    export KVCTL_JOBS=$PWD/here
    elsewhere a -n 2 --name train train.kv
    until_holds "it does not run" eval "kvctl jobs | grep -q '^train .* runs  *[1-9]'"
    kill -9 "$(KVCTL_JOBS=$PWD/there.a kvctl jobs train --json | jq '.jobs[0].ranks[0].pid')"
    wait
    grep -q 'was killed by signal 9' said.a
    assert_equal "$(ls -A here)" ''
}

# Asked one after the other, the first worker would wait here for the question to the second.
@test "attach: the workers of a job are asked at once, and one of a job elsewhere" {
    command -v python3 >/dev/null || skip "no python3"
    mkdir -m 700 jobs
    export KVCTL_JOBS=$PWD/jobs
    timeout 100 python3 -c 'if True:
        import select, socket, struct, threading
        def listen(name):
            s = socket.socket(socket.AF_UNIX)
            s.bind("jobs/" + name)
            s.listen(16)
            return s
        def asked(s):
            c = s.accept()[0]
            n, kind = struct.unpack("II", c.recv(8, socket.MSG_WAITALL))
            return c, c.recv(n).decode() if n else ""
        def tell(c, text):
            c.sendall(struct.pack("II", len(text), ord("i")) + text.encode())
        def launch(s):
            while True:
                c, number = asked(s)
                tell(c, number or "folder /tmp/kvctl-abcdef\nworkers 2\nservers 0\nstate runs\npids 7 8\n")
        near, first, second, far, farther = map(listen, ("near", "near:abcdef:0000", "near:abcdef:0001", "far:fedcba:0002", "far:fedcba:0010"))
        threading.Thread(target=launch, args=(near,), daemon=True).start()
        print("all", flush=True)
        tell(asked(far)[0], "state runs\n")
        tell(asked(first)[0], "rounds 1\n")
        one, two = asked(first)[0], asked(second)[0]
        tell(one, "line 1\n")
        tell(two, "line 2\n")
        print(len(select.select([farther], [], [], 0)[0]), "more")' >held 2>&1 3>&- &
    until_holds "nobody listens" grep -qx all held
    run -0 kvctl jobs near
    assert_line --regexp '^0 +worker +7 +- +1 '
    assert_line --regexp '^1 +worker +8 +- +2 '
    wait
    grep -qx '0 more' held
}

@test "attach: a folder that is not this user's alone is not used" {
    setup_job
    touch end
    mkdir -m 755 jobs
    run -0 timeout 60 kvctl launch -n 1 train.kv
    assert_output --partial "kvctl: the job runs, and nobody can attach to it: \"$PWD/jobs\" is open to other users: its mode is 755, not 700"
    mentions -5 'is open to other users' kvctl jobs
    rmdir jobs
    mkdir -m 700 real
    ln -s real jobs
    says -5 "kvctl: error[io]: \"$PWD/jobs\" is a link or a file, not a folder" kvctl jobs
    rm jobs
    if [ "$(id -u)" -eq 0 ]; then
        mkdir -m 700 jobs
        chown nobody jobs
        run kvctl jobs
        assert_line "kvctl: error[io]: \"$PWD/jobs\" belongs to another user"
    fi
}

@test "attach: dead sockets are tidied away, and other things are left alone" {
    setup_job
    mkdir -m 700 jobs
    python3 - <<'END' || skip "no python3"
import socket
socket.socket(socket.AF_UNIX).bind("jobs/dead")
END
    mkfifo jobs/pipe
    ln -s /etc/passwd jobs/link
    gives 'kvctl: no job of yours runs here' kvctl jobs
    [ ! -e jobs/dead ]
    [ -p jobs/pipe ]
    [ -L jobs/link ]
    run kvctl attach link
    assert_line 'kvctl: error[name]: no job of yours is called link here'
    run kvctl launch -n 1 --name link -c 'print 1'
    assert_line 'kvctl: the job runs, and nobody can attach to it: "link" in the folder of jobs is not a socket'
    [ -L jobs/link ]
    begin_job -n 1 --name good train.kv
    [ "$(stat -c %a jobs)" = 700 ]
    [ "$(stat -c %a jobs/good)" = 600 ]
    end_job
}

@test "attach: a script that waits for another rank still shows who is missing" {
    cat >hang.kv <<'END'
create dist_sync
init 3 ones(2)
barrier
if rank() == 1 {
  while len(glob("end")) == 0 {
    !sleep 0.05
  }
}
push 3 ones(2)
pull 3 -> w
barrier
END
    launch_job -n 2 -s 1 --name hang hang.kv
    until_holds "no rank is missed" eval "kvctl attach -c rounds 2>/dev/null | grep -qE '^3 +0 +0 +1 +0 +1$'"
    gives '[1. 1.]' kvctl attach -c 'pull 3'
    mentions -6 'error[busy]: the script is in a call of the store, and waits there' kvctl attach -c info
    run kvctl attach -c 'print w'
    [ "$status" -ne 0 ]
    end_job
}

@test "attach: the variables of a script that waits, in its store, for the shell and in sleep" {
    setup_job
    cat >waits.kv <<'END'
create dist_sync
init 3 ones(2)
push 3 ones(2)
pull 3 -> w
step = 7
found = ["first", [1.5, ones(2)]]
def train(x) {
  y = x + 1
  push 3 ones(2) * y
  pull 3 -> w
  w[0] = 5
  return w
}
if rank() == 1 {
  !touch there; until [ -e asked ] || [ -e end ]; do sleep 0.05; done
}
print train(step), w
!true
step = 8
sleep(100000)
END
    begin_job -n 2 -s 1 --name waits waits.kv
    until_holds "rank 1 runs no command" [ -e there ]
    until_holds "rank 0 does not wait" eval "kvctl attach -c rounds | grep -q '^3  *1  *1  *1  *0  *1'"
    run -0 kvctl attach waits -c 'print step, found, y, x' -c 'print y + found[1][0]'
    assert_output "7 ['first', [1.5, array([1., 1.], dtype=float32)]] 8 7
9.5"
    opens -6 'error[busy]: the script waits in a call that uses this array' kvctl attach -c 'print w'
    gives '7 [2. 2.]' kvctl attach --rank 1 -c 'print step, w'
    touch asked
    until_holds "rank 0 does not go on" eval "[ \"\$(kvctl attach -c 'print step')\" = 8 ]"
    gives '8 [2. 2.]' kvctl attach -c 'print step, w' # it sleeps now
    until_holds "the array was not written" grep -qF '[0] [ 5. 16.] [2. 2.]' said
    kill -TERM "$job"
    wait "$job" || true
}

# The end of a job that somebody looks at: the script is done a second after its last line at most, whatever an
# entry does and whether its client reads, is stopped, or is gone.

# begin_short WORD…: a job that goes on until "end" is there; its last line writes "ended".
begin_short()
{
    cat >short.kv <<'END'
create dist_sync
init 3 ones(2)
while len(glob("end")) == 0 {
  push 3 ones(2)
  pull 3 -> x
  !sleep 0.02
}
!touch ended
END
    begin_job "$@" --name short short.kv
}

# The launcher has ended within seconds of "ended", and an entry would take many minutes.
job_ends()
{
    touch end
    until_holds "the script does not end" [ -e ended ]
    until_holds "launch does not end" eval '! kill -0 "$job" 2>/dev/null'
    wait "$job"
}

long_entry='print max([sum(normal(shape=(1000000,))) for i in 0..1000000])'

# begin_entry ENTRY: a client in the background whose long entry is under way. It is $client.
begin_entry()
{
    kvctl attach -c 'print "begun"' -c "$1" >out 2>&1 3>&- &
    client=$!
    until grep -q begun out; do
        kill -0 "$client"
        sleep 0.05
    done
    sleep 0.3
}

@test "attach: a launcher that is stopped, or has its socket full, is silent and not gone" {
    setup_job
    begin_job -n 1 --name train train.kv
    launcher=$(kvctl jobs --json | jq '.jobs[0].pid')
    kill -STOP "$launcher"
    matches '^train .* silent ' kvctl jobs
    run kvctl jobs --json
    assert_output --partial '"name":"train","pid":null'
    for word in "" train; do
        gives -6 'kvctl: error[peer]: job train does not answer' kvctl attach $word -c rounds
    done
    gives -6 'kvctl: error[peer]: job train does not answer' kvctl launch --grow train
    kill -CONT "$launcher"

    # 60 clients that say nothing: those that ask come in all the same
    python3 -c 'if True:
        import socket, sys
        held = []
        for i in range(60):
            held.append(socket.socket(socket.AF_UNIX))
            held[-1].connect("jobs/train")
        print("all", flush=True)
        sys.stdin.read()' < <(until [ -e end ]; do sleep 0.1; done) >held 2>&1 3>&- &
    until_holds "not all are connected" grep -qx all held
    gives 0 kvctl attach train -c rank
    end_job
}

@test "attach: a stopped client holds no job" {
    begin_short -n 1
    local client
    begin_entry "$long_entry"
    kill -STOP "$client"
    job_ends
    kill -KILL "$client"
    wait "$client" 2>/dev/null || true
}

@test "attach: a client that does not read holds no job" {
    begin_short -n 1
    mkfifo slow
    kvctl attach -c 'print "x" * 30000000' >slow 2>&1 3>&- &
    local client=$!
    exec 7<slow
    sleep 1.5
    job_ends
    exec 7<&-
    wait "$client" || true
}

@test "attach: an entry ends with its client, also inside of one function, and by Ctrl-C, and has 256 MB" {
    begin_short -n 1
    local entry client
    for entry in "$long_entry" 'print sum([sorted(normal(shape=(1000000,)))[0] for i in 0..10000])' \
        'print sum([sum(dot(ones(4000, 4000), ones(4000, 4000))) for i in 0..1000])' \
        'print sum([max(list(zeros(500000))) for i in 0..100000])'; do
        begin_entry "$entry"
        kill -KILL "$client"
        wait "$client" 2>/dev/null || true
        # soon another entry is answered: one after the other they run
        run timeout 60 kvctl attach -c 'pull 3'
        assert_output '[1. 1.]'
    done

    set -m # background processes of a script ignore SIGINT
    for _ in 1 2 3 4 5; do # on a busy machine the client may not have sent it yet
        begin_entry "$long_entry"
        kill -INT "$client"
        wait "$client" || true
        ! grep -q interrupted out || break
    done
    set +m
    grep -q interrupted out
    run timeout 60 kvctl attach -c 'pull 3'
    assert_output '[1. 1.]'

    for entry in 'print [i for i in 0..10**8-1]' 'print len([[i] for i in 0..10**8-1])' 'print sum(zeros(10**8))' \
        'print len("x" * 10**9)' 'print {i: i for i in 0..10**8-1}'; do
        run ! timeout 60 kvctl attach -c "$entry"
        assert_output --partial 'error[memory]: out of memory'
        assert_line ' hint: an entry of attach has 256 MB'
    done
    gives 0.0 kvctl attach -c 'print sum(zeros(10**7))'
    job_ends
}
