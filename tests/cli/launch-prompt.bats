# kvctl launch -i: a prompt for a job; launch -: a script on stdin for all of its ranks.

load help
load screen

setup_file()
{
    export KVCTL_HISTORY=off
    file_needs mpi || return 0
}

# Each rank has its row, also where its line was joined with that of others.
is_row()
{
    screen | each_rank | grep -qxF -- "$1"
}

on_screen()
{
    screen | sed 's/^\^C//' | each_rank | grep -qF -- "$1"
}

# What was printed, by ranks.
sorted()
{
    sort -s -k1,1 <<<"$output"
}

@test "launch -i: each entry goes to all ranks, @N to one; an error ends nothing" {
    run --separate-stderr kvctl launch -n 2 -i <<'END'
create dist_sync
init 3 zeros(2)
push 3 ones(2)*(rank()+1)
pull 3
@1 print "only", rank()
for i in 0..1 {
    print "block", i
}
@0 for i in 0..0:
    print "zero", i

@0 nope 3
@7 print 1
!printf "no newline"
print "on"
END
    assert_failure 2 # the code of the first error, as of kvctl -i
    assert_equal "$(sorted)" '[0] [3. 3.]
[0] block 0
[0] block 1
[0] zero 0
[0] no newline
[0] on
[1] [3. 3.]
[1] only 1
[1] block 0
[1] block 1
[1] no newline
[1] on'
    assert_equal "$stderr" '[0] <repl>:12:1: error[usage]: there is no command `nope`
[0]    12 : nope 3
[0]       : ^^^^
[0]  hint: `help` lists the commands
kvctl: error[usage]: rank 7 does not run here'
}

@test "launch -: a script for all ranks, with its words; the first error ends the job" {
    run --separate-stderr kvctl launch -n 2 - a --json <<<'print args
create dist_sync; init 1 zeros(2); push 1 ones(2); pull 1'
    assert_success
    assert_equal "$(sorted)" "[0] ['a', '--json']
[0] [2. 2.]
[1] ['a', '--json']
[1] [2. 2.]"
    run -1 kvctl launch -n 2 - <<<$'create dist_sync; print 1\nassert rank() == 1\nprint 3'
    assert_line "kvctl: rank 0 (worker) ended with exit code 1"
    refute_output --partial "] 3"
    run -1 --separate-stderr kvctl launch -n 2 -k - <<<$'create dist_sync; assert rank() == 1\nprint 3'
    assert_equal "$(sorted)" $'[0] 3\n[1] 3'
}

@test "launch -i: quit ends the job, also of one rank; a file runs before the entries" {
    echo 'create dist_sync; init 1 ones(2)' >begin.kv
    run -0 kvctl launch -n 2 -i begin.kv <<<$'@0 pull 1\nquit\nprint 2'
    assert_output '[0] [1. 1.]'
    run -2 kvctl launch -n 2 -i <<<$'@0 quit\nprint env("OMPI_COMM_WORLD_RANK")\n@0 print 3'
    assert_line '[1] 1'
    assert_line 'kvctl: error[usage]: rank 0 does not run here'
    run -3 kvctl launch -n 2 -i <<<$'quit 3\nprint 2'
    refute_output --partial '] 2'
}

@test "launch -i: what is wrong" {
    local names=([2]=usage [3]=value [4]=unsupported [5]=io)
    while IFS='|' read -r words code said; do
        run kvctl launch $words <<<''
        assert_failure "$code"
        assert_line --index 0 "kvctl: error[${names[code]}]: launch: $said"
    done <<'END'
-n 2 --launcher mpi -i|4|-i and - are for ranks of this machine, --launcher local
-n 2 --checkpoint c.kvs --checkpoint-every 2 --max-restarts 1 -i|2|--max-restarts runs a FILE again, and cannot type again
-n 2 -f - -c quit|2|- stands behind the other scripts
-n 2|2|which script? kvctl launch -n WORKERS FILE
END
}

@test "launch -i, launch -: input that cannot be read" {
    local word
    for word in -i -; do
        gives -5 'kvctl: error[io]: cannot read the standard input: Is a directory' bash -c "timeout 20 kvctl launch -n 2 $word <."
    done
}

@test "launch -i: a terminal" {
    command -v tmux >/dev/null || skip "no tmux"
    terminal_with 90 40 kvctl launch -n 2 -i
    shows "kv[0..1]>"
    on_screen "@0 … goes to rank 0; Ctrl-D ends the job"
    enter "create dist_sync; init 3 zeros(2)"
    enter "if true {"
    shows "..>"
    enter "print 6 * 7 }" "[0] 42"
    row "[1] 42"
    enter 'print "begun"; while true { }' "[1] begun"
    row "[0] begun"
    press C-c
    shows "[0] interrupted"
    shows "[1] interrupted"
    # a rank that waits for another one goes on in the background, and its next entries wait for it; what it waits
    # for is told at once (KVSTORE_NOTICE: tests/dist/stalls.bats)
    enter '@1 print "told after", env("KVSTORE_NOTICE")' "[1] told after 1"
    enter "@0 push 3 ones(2); pull 3"
    shows "kvctl: rank 0 is still busy with line 6, which goes on; Ctrl-C ends it"
    shows "warning: round 1 of key 3 has ranks 0 and lacks 1; "
    enter '@0 print "queued"'
    enter "@1 push 3 ones(2)*4" "[0] [5. 5.]"
    row "[0] queued"
    # Ctrl-C ends the wait; what is typed meanwhile is not lost
    enter "@0 push 3 ones(2); pull 3"
    shows "kvctl: rank 0 is still busy with line 9, which goes on; Ctrl-C ends it"
    enter '@0 print "never"'
    type_text "@1 push 33"
    last_row "kv[0..1]> @1 push 33"
    press C-c
    last_row "kv[0..1]>"
    enter '@1 print "typed"' "[1] typed"
    press C-c
    shows "[0] interrupted"
    enter "@1 push 3 ones(2)*4; pull 3" "[1] [5. 5.]"
    refute on_screen "[0] never"
    enter 'print "alive", rank()' "[0] alive 0"
    row "[1] alive 1"
    tmux -S "$socket" set-buffer $'print "one"\nnope 7\nprint "three"'
    tmux -S "$socket" paste-buffer -p -t t
    shows 'print "three"'
    presses "the entries below it were not run" Enter
    refute is_row "[0] three"
    leave "kv[0..1]>"
    ended
}

@test "launch -i: Ctrl-C ends an entry, also soon after the Ctrl-C of another one" {
    command -v tmux >/dev/null || skip "no tmux"
    terminal_with 90 40 kvctl launch -n 1 -i
    shows "kv[0]>"
    for word in first second third; do
        enter "print \"$word\"; while true { }" "[0] $word"
        press C-c
        last_row "kv[0]>"
    done
    enter 'print "alive"' "[0] alive"
    leave "kv[0]>"
    ended
}

@test "launch -i: output of a rank in the background goes above what is typed" {
    command -v tmux >/dev/null || skip "no tmux"
    terminal_with 90 40 kvctl launch -n 2 -i
    shows "kv[0..1]>"
    enter '@0 !until [ -e go ]; do sleep 0.05; done; echo gone'
    shows "kvctl: rank 0 is still busy with line 1, which goes on; Ctrl-C ends it"
    type_text "@1 print 40 "
    shows "kv[0..1]> @1 print 40"
    : >go
    row "[0] gone"
    last_row "kv[0..1]> @1 print 40"
    enter "+ 2" "[1] 42"
    leave "kv[0..1]>"
    ended
}

@test "launch -i: Ctrl-D ends a job in which a rank waits" {
    command -v tmux >/dev/null || skip "no tmux"
    terminal_with 90 40 kvctl launch -n 2 -i
    shows "kv[0..1]>"
    enter "create dist_sync; assert rank(); barrier"
    shows 'error[assert]: rank() does not hold'
    shows "kvctl: rank 1 is still busy with line 1, which goes on; Ctrl-C ends it"
    enter '@1 print "waits"; 1'
    press C-d
    shows "kvctl: rank 1 did not begin line 2 and what follows"
    ended
}

@test "launch -i: a pull of a key that is not there ends on all ranks" {
    # rank 1 waits for an init by rank 0, which has failed
    run -3 --separate-stderr timeout 60 kvctl launch -n 2 --deadline 10 -i <<'END'
create dist_sync
pull nokey
init 3 ones(2)
push 3 ones(2)
pull 3
END
    assert_equal "$(sorted)" $'[0] [2. 2.]\n[1] [2. 2.]'
    [[ $stderr == *'[0] <repl>:2:6: error[key]: key "nokey" was never initialised'* ]]
    [[ $stderr == *'[1] interrupted'* ]]
}

@test "launch -i: the prompt comes when all ranks have begun" {
    command -v tmux >/dev/null || skip "no tmux"
    echo '!test "$OMPI_COMM_WORLD_RANK" = 0 || until [ -e go ]; do sleep 0.05; done' >begin.kv
    terminal_with 90 40 kvctl launch -n 2 -i begin.kv
    shows "kvctl: rank 1 has not begun yet; Ctrl-C ends the job"
    refute on_screen "kv[0..1]>"
    type_text 'print "read"'
    press Enter
    : >go
    row "[1] read"
    leave "kv[0..1]>"
    ended
}

@test "launch -i: a killed rank ends the prompt, a stopped one is named at its end" {
    command -v tmux >/dev/null || skip "no tmux"
    for signal in KILL STOP; do
        rm -f pid.*
        terminal_with 90 40 kvctl launch -n 2 --deadline 100 -i
        shows "kv[0..1]>"
        enter '!echo "$PPID" >pid.$OMPI_COMM_WORLD_RANK; echo noted' "[1] noted"
        kill -$signal "$(cat pid.1)"
        if [ $signal = STOP ]; then
            leave "kv[0..1]>"
            shows "kvctl: rank 1 has not ended yet; Ctrl-C ends the job"
            kill -KILL "$(cat pid.1)"
        fi
        shows "kvctl: rank 1 (worker) was killed by signal 9"
        ended
    done
}

# Begins a prompt of two ranks, whose entries are what is written to 7; pid.N is the process of rank N.
begin_piped()
{
    mkfifo entries
    kvctl launch -n 2 -i <entries >said 2>&1 3>&- &
    launch=$!
    exec 7>entries
    echo '!echo "$PPID" >pid.$OMPI_COMM_WORLD_RANK' >&7
    until_holds "no rank began" test -s pid.1
}

@test "launch -i: a stopped rank takes an entry of megabytes later, and holds nothing up" {
    begin_piped
    kill -STOP "$(cat pid.1)"
    { printf 'print len("' && head -c 4000000 /dev/zero | tr '\0' a && echo '")'; } >&7
    until_holds "the entry of rank 1 holds rank 0 up" grep -qx '\[0\] 4000000' said
    kill -CONT "$(cat pid.1)"
    until_holds "rank 1 did not get it" grep -qx '\[1\] 4000000' said
    exec 7>&-
    wait $launch
}

@test "launch -i: a rank that can open no file takes entries" {
    command -v prlimit >/dev/null || skip "no prlimit"
    run -0 timeout 60 kvctl launch -n 1 -i <<<$'!prlimit --pid $PPID --nofile=3\nprint "still"'
    assert_output '[0] still'
}

@test "launch -i: a job that is lost ends the prompt, a prompt that is lost ends the job" {
    begin_piped
    kill -9 "$(cat pid.1)"
    code=0
    wait $launch || code=$?
    assert_equal "$code" 6
    run grep -c 'rank 1 (worker) was killed by signal 9' said
    assert_output 1
    exec 7>&-
    rm pid.*
    kvctl launch -n 2 -i <entries >said 2>&1 3>&- &
    launch=$!
    exec 7>entries
    echo '!echo "$PPID" >pid.$OMPI_COMM_WORLD_RANK' >&7
    until_holds "no rank began" test -s pid.1
    kill -9 $launch
    wait $launch || true # else the shell may say at the end of the test that it was killed
    until_holds "a rank stays" eval '! kill -0 "$(cat pid.1)" 2>/dev/null'
    exec 7>&-
}
