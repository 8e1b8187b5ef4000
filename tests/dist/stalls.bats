# Calls that wait for a rank which does not do its part: what waits is told, and given up with the
# ranks that are missing.

load ../cli/help

setup_file()
{
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

# stall SCRIPT: two ranks, of which the second sleeps longer than the timeout, within which both must have joined.
stall()
{
    needs_mpi
    printf '%s\n' "$1" >job.kv
    run timeout 60 mpirun --oversubscribe --bind-to none -x KVSTORE_TIMEOUT="${TIMEOUT:-10}" -n 2 \
        kvctl -f job.kv
}

sleeps=$'if rank() == 1 {\n!sleep ${PAUSE:-25} >/dev/null 2>&1\n}'

@test "stalls: a round of a sum lacks a rank" {
    for type in horovod byteps; do
        stall "create $type
$sleeps
pushpull 3 ones(70000) -> x
wait"
        assert_failure
        assert_line --regexp 'job.kv:6:1: error\[timeout\]: gave up: round 1 of .*key.* has ranks 0 and lacks 1$'
    done
}

@test "stalls: a push lacks a rank" {
    stall "create dist_sync
init 3 zeros(70000)
$sleeps
push 3 ones(70000)
wait"
    assert_failure
    assert_output --partial 'error[timeout]: gave up: round 1 of key 3 has ranks 0 and lacks 1'
}

@test "stalls: of a pull that fails, what had come is there" {
    stall "create dist_sync
init 3,4 [ones(2),ones(2)*2]
xs = [zeros(2),zeros(2)]
$sleeps
if rank() == 0 {
push 4 ones(2)
expect-error timeout { pull 3,4 --out xs; wait }
print xs[0]
print xs[1]
}"
    assert_failure
    assert_line '[1. 1.]'
    assert_output --partial 'what this array waits for did not come'
}

@test "stalls: create and a barrier lack a rank" {
    stall "create dist_sync
$sleeps
create horovod"
    assert_failure
    assert_output --partial 'error[timeout]: gave up: create of a store of type "horovod" has ranks 0 and lacks 1'
    stall "create dist_sync
$sleeps
barrier"
    assert_failure
    assert_output --partial 'error[timeout]: gave up: a barrier has ranks 0 and lacks 1'
}

@test "stalls: states that are saved lack a rank" {
    stall "create dist_sync
set-gradient-compression 2bit; set-optimizer test
init 3 zeros(7)
$sleeps
save-states s.safetensors"
    assert_failure
    assert_output --partial 'error[timeout]: gave up: rank 0 waits for rank 1 to save or load states'
    stall "create dist_sync
set-optimizer test; init 3 zeros(7)
${sleeps/1/0}
save-states s.safetensors"
    assert_failure
    assert_output --partial 'error[timeout]: gave up: rank 1 waits for rank 0 to save or load states'
}

@test "stalls: a server does not answer" {
    TIMEOUT=15 stall 'create dist_sync
barrier
if rank() == 1 {
!echo $PPID >pid; kill -STOP $PPID
}
!until [ -s pid ] && ! grep -L "^State:.T" /proc/$(cat pid)/task/*/status | grep -q .; do sleep 0.05; done
send-command 9 "any"'
    assert_failure
    assert_line --regexp 'rank 1 has not answered send-command; ([5-9]|1[0-4]) s so far$'
    assert_output --partial 'error[timeout]: gave up after 15 s: rank 1 has not answered send-command'
}

@test "stalls: KVSTORE_NOTICE tells a wait sooner, where a worker waits" {
    export KVSTORE_NOTICE=0
    # without it a wait is told after 5 s
    stall "create dist_sync
init 3 zeros(7)
barrier
$sleeps
push 3 ones(7)
pull 3"
    assert_failure
    assert_output --regexp 'warning: round 1 of key 3 has ranks 0 and lacks 1; [0-4] s so far'
    assert_output --partial 'error[timeout]: gave up: round 1 of key 3 has ranks 0 and lacks 1'
    # nobody waits for the round of a push; a barrier waits
    stall "create dist_sync
init 3 zeros(7)
barrier
$sleeps
push 3 ones(7)
sleep(1)
barrier"
    assert_failure
    refute_output --partial 'warning: round 1'
    assert_output --partial 'warning: a barrier has ranks 0 and lacks 1; '
}

@test "stalls: a sum that waits is told, and then goes on" {
    export PAUSE=8
    TIMEOUT=60 stall "create horovod
$sleeps
pushpull 3 ones(2) -> x
print x"
    assert_success
    assert_output --regexp 'round 1 of key 3 has ranks 0 and lacks 1; [5-9] s so far'
    assert_equal "$(grep -c '\[2. 2.\]' <<<"$output")" 2
}

@test "stalls: a rank that ends is missed at once" {
    stall 'create dist_sync
if rank() == 0 { create dist_sync --name b }'
    assert_failure
    assert_output --partial 'error[peer]: rank 1 has ended, and create waits for it'
    stall 'create horovod
if rank() == 0 { pushpull 3 ones(2) -> x; wait }'
    assert_failure
    assert_output --partial 'error[peer]: key 3: rank 1 has ended, and a sum waits for its values'
}

@test "stalls: a rank that ends without joining is missed at once" {
    needs_mpi
    printf '%s\n' 'if env("OMPI_COMM_WORLD_RANK") == "0" { create dist_sync }' >job.kv
    says -6 "kvctl: rank 1 has ended without joining" timeout 60 kvctl launch -n 2 job.kv
    assert_line --partial "[0] job.kv:1:48: error[peer]: rank 1 has ended without joining"
}

# deadlock OPTIONS SCRIPT: a job of two workers.
deadlock()
{
    needs_mpi
    printf '%s\n' "$2" >train.kv
    run timeout 90 kvctl launch -n 2 $1 train.kv
}

@test "stalls: ranks that wait for each other are ended, with the place of each" {
    local all="deadlock: all ranks wait for each other; rank" servers
    for servers in "" "-s 1" "-s 2"; do
        deadlock "$servers" $'create dist_sync\ninit w ones(2)
if rank() == 0 { barrier } else {\npush w ones(2)\npull w }'
        assert_failure 6
        assert_line "kvctl: $all 0: barrier, train.kv:3; rank 1: pull w, round 1 lacks rank 0, train.kv:5"
        assert_line --partial "[0] train.kv:3:18: error[peer]: $all 0: barrier, train.kv:3; rank 1"
        assert_line --partial "[1] train.kv:5:1: error[peer]: $all 0: barrier, train.kv:3; rank 1"
    done
    # each pushes a key that the other one does not push
    deadlock "" $'create dist_sync\ninit a,b ones(2)
if rank() == 0 { push a ones(2); wait }\npush b ones(2); x = kv.pull("b"); print x'
    assert_failure 6
    assert_line "kvctl: $all 0: wait, round 1 of key \"a\" lacks rank 1, train.kv:3; rank 1: print, round 1 of key \"b\" lacks rank 0, train.kv:4"
    deadlock "-s 1" $'create dist_sync\nif rank() == 0 { barrier }\ncreate dist_sync --name b'
    assert_failure 6
    assert_line "kvctl: $all 0: barrier, train.kv:2; rank 1: create, train.kv:3"
}

@test "stalls: without a launcher a deadlock ends the ranks as well" {
    stall $'create dist_sync\ninit w ones(2)\nif rank() == 0 { barrier }\npush w ones(2); wait'
    assert_failure
    assert_line --partial 'error[peer]: deadlock: all ranks wait for each other; rank 0: barrier, job.kv:3; rank 1: wait, round 1 of key "w" lacks rank 0, job.kv:4'
}

@test "stalls: --no-deadlock only warns" {
    deadlock "--no-deadlock --env KVSTORE_TIMEOUT=12" $'create dist_sync\ninit w ones(2)
if rank() == 0 { barrier }\npush w ones(2); wait'
    assert_failure
    assert_line --partial 'warning: deadlock: all ranks wait for each other; rank 0: barrier, train.kv:3; rank 1: wait, round 1 of key "w" lacks rank 0, train.kv:4'
    assert_line --partial 'error[timeout]: gave up: '
}

@test "stalls: ranks that wait for one that works are in no deadlock" {
    # a shell command, and work of the rank's own, each longer than a proof takes
    deadlock "-s 1" $'create dist_sync\ninit w ones(2)\nif rank() == 1 {\n!sleep 5\n}
barrier; barrier\npush w ones(2)
if rank() == 0 { n = 0; repeat 4000000 { n += 1 } }\npull w; barrier'
    assert_success
    refute_output --partial deadlock
    assert_line "[0] [2. 2.]"
    # a rank that is stopped is the deadline's to find
    deadlock "--deadline 10" $'create dist_sync\nbarrier\nif rank() == 1 {\n!kill -STOP $PPID\n}
barrier'
    assert_failure 6
    refute_output --partial deadlock
    assert_line --regexp '^kvctl: rank 1 .*has not been heard for'
}

@test "stalls: a watcher or an mpirun that is stopped is found by the deadline" {
    needs_mpi
    local depth who
    # the rank's parent is its watcher, and the watcher's parent is mpirun
    for depth in 1 2; do
        printf '%s\n' 'create dist_sync' 'barrier' 'if rank() == 1 {' \
            "!p=\$PPID; for i in \$(seq $depth); do p=\$(ps -o ppid= -p \$p | tr -d ' '); done; kill -STOP \$p; sleep 60 >/dev/null 2>&1" \
            '}' 'barrier' >train.kv
        run -6 timeout 100 kvctl launch -n 2 --deadline 10 train.kv
        who="the watcher of rank 1 \(worker\)"
        [ $depth -eq 1 ] || who=mpirun
        assert_line --regexp "^kvctl: $who has not been heard for [0-9]+ s$"
    done
}
