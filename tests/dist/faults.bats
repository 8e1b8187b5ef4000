# Ranks of a job that fail: killed, stopped, ended by an error, interrupted, at each phase. The
# others end in time with one sentence that names the rank, launch has the exit code, and nothing
# stays behind.

load ../cli/help
load jobs
needs=mpi
JOB_OPTIONS='--deadline 200'

# The sentence, once a rank that was there to say it. Before a store is made, the others may still be in
# MPI_Init, where Open MPI ends them without a word.
assert_named()
{
    local rank
    assert_line "kvctl: $1"
    shift
    [ "${phase:-}" != create ] || return 0
    for rank in "$@"; do
        assert_equal "$(grep -cF "[$rank] " <<<"$(grep -F 'signal' <<<"$output")")" 1
    done
}

# kill_server: a shell command for a script: kills rank 2, the server of a job of two workers, once
# it is there.
kill_server="until grep -qs '^2 start ' \$KVSTORE_RUN_DIR/events; do sleep 0.1; done; awk '\$1 == 2 && \$2 == \"start\" { print \$3 }' \$KVSTORE_RUN_DIR/events | xargs kill -9"

phases=(create init push mid-push pull mid-pull barrier)

# script PHASE CONDITION COMMAND: a script in which a rank runs a shell command at a phase. Rank 0
# and rank 2, where it is a worker, find out at what comes next. mid-push and mid-pull: right behind
# the call, which nobody has waited for.
script()
{
    local phase
    echo "rank0 = env(\"OMPI_COMM_WORLD_RANK\")"
    for phase in "${phases[@]}"; do
        if [ "$phase" = "$1" ]; then
            printf 'if rank0 == "%s" {\n    !%s\n}\n' "$2" "$3"
        fi
        case $phase in
        create) echo "create dist_sync" ;;
        init) echo "init 3,4 [zeros(100000), zeros(5000000)]" ;;
        push) echo "push 3,4 [ones(100000), ones(5000000)]" ;;
        pull) echo "x = zeros(100000); pull 3 --out x; push 3 x; pull 3 --out x
            y = zeros(5000000); pull 4 --out y" ;;
        barrier) echo "repeat 3 barrier" ;;
        esac
    done
}

# Whoever is killed, the start of MPI, which sim/ does not run, and each other phase once or twice: sim/ draws all.
@test "faults: a worker is killed" {
    for phase in create push mid-pull; do
        script "$phase" 1 "kill -9 \$PPID" >job.kv
        job -6 -n 3 job.kv
        assert_named "rank 1 (worker) was killed by signal 9" 0 2
    done
}

@test "faults: the first rank is killed" {
    for phase in create init mid-push barrier; do
        script "$phase" 0 "kill -9 \$PPID" >job.kv
        job -6 -n 2 -s 1 job.kv
        assert_named "rank 0 (worker) was killed by signal 9" 1
        refute_line --regexp '^\[s0\] kvctl: ' # a server has nothing to add to what launch says
    done
}

@test "faults: a server is killed" {
    for phase in create mid-push pull; do
        script "$phase" 1 "$kill_server" >job.kv
        job -6 -n 2 -s 1 job.kv
        assert_named "rank 2 (server) was killed by signal 9" 0 1
    done
}

# Rank 0, rank 1 and the server, which is rank 2, in turns; the others have not stopped.
@test "faults: a stopped rank is found by its silence" {
    local rank stop other
    for rank in 0 1 2; do
        stop="kill -STOP \$PPID"
        [ $rank -lt 2 ] || stop=${kill_server/kill -9/kill -STOP}
        script push $((rank % 2)) "$stop" >job.kv
        job -6 -n 2 -s 1 --deadline 10 job.kv
        assert_line --regexp "^kvctl: rank $rank on .* has not been heard for 10 s$"
        for other in 0 1; do
            [ $other = $rank ] ||
                assert_line --regexp "^\[$other\] .*: rank $rank on .* has not been heard for 10 s$"
        done
        refute_line --regexp '^\[s0\] .*has not been heard'
    done
}

@test "faults: a script that fails ends the job with its exit code" {
    cat >job.kv <<'END'
create dist_sync
init 3 zeros(4)
if rank() == 1 {
    push 3 ones(4)
    assert 1 == 2
}
barrier
END
    job -1 -n 2 job.kv
    assert_line "kvctl: rank 1 (worker) ended with exit code 1"
    assert_line --partial "[0] job.kv:7:1: error[peer]: rank 1 (worker) ended with exit code 1"
}

@test "faults: a rank whose watcher is killed is lost" {
    script push 1 'kill -9 $(ps -o ppid= -p $PPID)' >job.kv
    job -6 -n 2 job.kv
    assert_line --regexp '^kvctl: rank 1 \(worker\) was killed'
}

# The ranks do not miss one that has not joined, and launch has no pid to look for on other hosts.
# The other rank joins later: it would end the job too, ten seconds after it begins to wait.
@test "faults: a rank of several hosts whose watcher is killed before it joins is lost" {
    cat >job.kv <<'END'
!if [ $OMPI_COMM_WORLD_RANK = 1 ]; then kill -9 $(ps -o ppid= -p $PPID); sleep 30; else sleep 8; fi
create dist_sync
END
    job -6 --launcher mpi -n 2 --deadline 10 job.kv
    assert_line --regexp '^kvctl: rank 1 \(worker\) on .* has not been heard for [0-9]+ s$'
}

@test "faults: mpirun is killed" {
    script push 1 'kill -9 $(ps -o ppid= -p $(ps -o ppid= -p $PPID))' >job.kv
    job -6 -n 2 job.kv
    assert_line "kvctl: mpirun was killed by signal 9"
}

@test "faults: mpirun is told to end, and no rank is to blame" {
    script push 1 'kill $(ps -o ppid= -p $(ps -o ppid= -p $PPID))' >job.kv
    job -6 -n 2 job.kv
    assert_line "kvctl: mpirun ended with exit code 1"
}

@test "faults: Ctrl-C and SIGTERM end every rank" {
    for pair in INT:130 TERM:143; do
        cat >job.kv <<END
create dist_sync
barrier
if rank() == 0 {
    !kill -${pair%:*} \$(ps -o ppid= -p \$(ps -o ppid= -p \$(ps -o ppid= -p \$PPID)))
}
if rank() == 1 { barrier }
while true { x = 1 }
END
        job -n 2 -s 1 job.kv
        assert_failure "${pair#*:}"
        assert_line --regexp "^kvctl: the job was ended by signal"
    done
}

@test "faults: a job that takes too long is ended" {
    echo 'while true { sleep 0.1 }' >job.kv
    job -6 -n 2 --timeout 1 job.kv # it is over, whatever the deadline would allow
    assert_line "kvctl: the job did not end within 1 s"
}

@test "faults: an assignment that meets what never came names the rank" {
    cat >job.kv <<'END'
create dist_sync
init 3 zeros(1000)
barrier
if rank() == 1 {
    !until [ -e there ]; do sleep 0.05; done; sleep 0.3; kill -9 $PPID
}
push 3 ones(1000)
pull 3 -> x
!touch there
s = sum(x)
END
    job -6 -n 2 job.kv
    assert_line "[0] job.kv:10:1: error[peer]: rank 1 (worker) was killed by signal 9"
    assert_line "[0]  hint: a command before this failed in the background; the last was \`pull 3 -> x\`, job.kv:8"
    refute_output --partial "did not come"
}

@test "faults: a worker that is done waits for one that computes beyond the deadline" {
    cat >job.kv <<'END'
create dist_sync
init 3 zeros(2)
push 3 ones(2)
if rank() == 0 {
!sleep 16
pull 3 -> x
print x
}
END
    job -0 -n 2 --deadline 10 job.kv # within which the job must also have begun
    assert_line "[0] [2. 2.]"
}
