# Several ranks of this machine: states in files, workers that leave, what info and profile tell.

load ../cli/help
# ranks SERVERS WORKERS FILE: SERVERS 0 means that the workers serve.
ranks()
{
    local how="--oversubscribe --bind-to none" run="$build/kvctl"
    needs_mpi
    if [ "$1" -eq 0 ]; then
        run --separate-stderr timeout 60 mpirun $how -n "$2" "$run" -f "$3"
    else
        run --separate-stderr timeout 60 mpirun $how -x KVSTORE_SERVERS="$1" -n $(($1 + $2)) "$run" \
            launch-rank -f "$3"
    fi
}

# The rounds from $1 to $2 - 1, of a small key, one of several parts and one of all servers.
rounds()
{
    echo "for i in $1..$2 {
        push 3 ones(2,3)*(rank()+1)*0.1*i
        push 9 arange(90000)*0.00001*(rank()+1)*i
        push 70 arange(300000).reshape(500,600)*0.0000001*i*(1+rank())
    }
    pull 3,9,70 -> x"
}

# resumes OPTIMIZER TYPE SERVERS WORKERS SERVERS DTYPE [COMMAND]: six rounds in one job are three,
# states in a file, and three in another.
resumes()
{
    cat > one.kv <<END
create $2
$7
init 3 ones(2,3,dtype="$6"); init 9 ones(90000,dtype="$6"); init 70 ones(500,600,dtype="$6")
set-optimizer $1
$(rounds 1 4)
if rank() == 0 { pull * > half.safetensors }
save-states s.safetensors
barrier
$(rounds 4 7)
if rank() == 0 { pull * > one.safetensors }
END
    cat > two.kv <<END
create $2
$7
init 3 load("half.safetensors", name="3"); init 9 load("half.safetensors", name="9")
init 70 load("half.safetensors", name="70")
set-optimizer $1
load-states s.safetensors
$(rounds 4 7)
if rank() == 0 { pull * > two.safetensors }
END
    ranks "$3" "$4" one.kv
    assert_success
    ranks "$5" "$4" two.kv
    assert_success
    cmp one.safetensors two.safetensors
}

@test "states: every kind of them, from servers to others" {
    resumes "sgd --momentum 0.9" dist_sync 0 2 1 float32
    resumes nadam dist_sync 1 2 2 float32 # all keys share its schedule
    resumes groupadagrad dist_sync 2 2 3 float32 # one number a row
    resumes "adam --multi-precision true --lr-scheduler factor(step=2, factor=0.5)" dist_device_sync 2 2 0 float16
    resumes "sgd --momentum 0.9" dist_sync 2 2 1 float32 "set-gradient-compression 2bit --threshold 0.1"
    resumes adam dist_async 1 1 0 float32 # servers count by themselves
}

@test "states: servers that count by themselves tell the largest count, and that of each key" {
    printf '%s\n' 'create dist_async' 'init 3,5,7 [ones(2), ones(3), ones(4)]' 'set-optimizer nadam' \
        'if rank() == 0 { push 3 ones(2); for i in 1..4 { push 5 ones(3) }; push 7 ones(4); wait }' \
        'barrier' 'if rank() == 1 { info --states }' > s.kv
    for servers in 1 2 3; do
        ranks $servers 2 s.kv
        assert_success
        assert_output --partial 'optimizer nadam, num_update 4, learning_rate 0.001'
        assert_regex "$output" $'\n3 +m [^\n]* 1\n'
        assert_regex "$output" $'\n5 +m [^\n]* 4\n'
        assert_regex "$output" $'\n7 +m [^\n]* 1\n'
    done
}

@test "states: a file that is not there is an error of every rank" {
    printf '%s\n' 'create dist_sync' 'init 3 ones(2)' 'set-optimizer adam' \
        'expect-error io { load-states none.safetensors }' 'print "ok"' > s.kv
    ranks 0 2 s.kv
    assert_success
    assert_output "$(printf 'ok\nok')"
}

@test "states: rank 0 alone may save" {
    printf '%s\n' 'create dist_sync' 'init 3 ones(2)' 'set-optimizer adam' 'push 3 ones(2)' \
        'if rank() == 0 { save-states s.safetensors }' 'barrier' \
        'if rank() == 1 { info --states }' > s.kv
    ranks 1 2 s.kv
    assert_success
    [ -s s.safetensors ]
    assert_output --partial "mean   float32  (2,)"
}

@test "workers: one that is done leaves rounds and barriers to the others" {
    printf '%s\n' 'create dist_sync' 'init 3 ones(2)' 'push 3 ones(2); pull 3 -> x' \
        'assert x == 2' 'if rank() == 1 { done; expect-error value { push 3 ones(2) } }' 'barrier' \
        'if rank() == 0 { push 3 ones(2); pull 3 -> x; assert x == 1; barrier; info --cluster }' \
        > s.kv
    ranks 1 2 s.kv
    assert_success
    assert_regex "${lines[0]}" '^rank +role +host .* contributors$'
    assert_regex "${lines[2]}" '^1 +worker '
    assert_regex "${lines[3]}" '^2 +server .* 1 +8 +2 +0 +- +0 +1$'
}

@test "workers: info tells what the type works with" {
    export KVSTORE_DEADLINE=2.5 KVSTORE_TIMEOUT=60 KVSTORE_AHEAD=4096
    printf '%s\n' 'create dist_async --staleness 2' 'if rank() == 0 { info }' > s.kv
    ranks 1 2 s.kv
    assert_success
    assert_line --partial ', servers 1, partition_bytes 262144, row_partition_bytes 1048576, spread_elements 1000000, ahead_bytes 4096, deadline_ms 2500, timeout_ms 60000, link memory, staleness 2'
    export KVSTORE_SHARED_MEMORY=0
    printf '%s\n' 'create dist_async; if rank() == 0 { info }' > s.kv
    ranks 0 2 s.kv
    assert_line --partial ', servers 2, '
    assert_line --partial ', link messages, staleness unbounded'
    printf '%s\n' 'create dist_sync; info' > s.kv
    ranks 0 1 s.kv
    assert_line --regexp ', timeout_ms 60000, link none$'
}

@test "workers: who waits for one that has ended is told" {
    printf '%s\n' 'create dist_sync' 'init 3 ones(2)' 'push 3 ones(2); pull 3 -> x' \
        'if rank() == 0 { push 3 ones(2); wait }' > s.kv
    ranks 1 2 s.kv
    assert_failure
    [[ $stderr == *"rank 1 has ended; key 3 waits for its push of round 2"* ]]
    printf '%s\n' 'create dist_sync' 'if rank() == 0 { barrier }' > s.kv
    ranks 1 2 s.kv
    assert_failure
    [[ $stderr == *"rank 1 has ended; the barrier waits for it"* ]]
}

@test "servers: commands and what rules print" {
    printf '%s\n' 'create dist_async --staleness 4' 'init 3 ones(2)' \
        'set-optimizer { print "seen"; stored += input }' 'push 3 ones(2); wait; barrier' \
        'if rank() == 0 { send-command 9 "any text" }' > s.kv
    ranks 1 2 s.kv
    assert_success
    assert_output "$(printf 'seen\nseen\ncommand 9: any text')"
}

@test "profile: a file for each rank" {
    printf '%s\n' 'profile p.json' 'create dist_sync' 'init 3 ones(2)' \
        'push 3 ones(2); pull 3 -> x' > s.kv
    ranks 0 2 s.kv
    assert_success
    [ ! -e p.json ]
    grep -q '"cat":"travel","pid":0,.*travel: push 3' p.rank0.json
    grep -q '"cat":"travel","pid":1,.*travel: pull 3' p.rank1.json
}

@test "states: rank 0 sets an optimizer when it is done, and the rounds of the others go on" {
    cat >job.kv <<'END'
create dist_sync
init a,b [zeros(4), zeros(4)]
set-optimizer sgd --learning-rate 1
barrier
if rank() == 0 { done; !sleep 0.3
set-optimizer sgd --learning-rate 10 } # rates are those of the lowest rank that pushes
if rank() == 1 { push a ones(4); for i in 0..4000000 { x = i * 2 } }
if rank() == 2 { !sleep 1
push a ones(4) }
if rank() > 0 { push b ones(4); pull a -> x; pull b -> y; print x[0], y[0]; done }
END
    KVSTORE_TIMEOUT=50 ranks 1 3 job.kv
    assert_success
    assert_output "$(printf -- '-2.0 -2.0\n-2.0 -2.0')"
}

@test "states: rank 0 sets an optimizer for which keys move when it is done, behind the rounds of the others" {
    # they end; they meet at a barrier first; they leave without done
    for then in '; done' '; barrier; push w ones(400000); pull w -> y; assert all(y == y); print "moved"; done' ''; do
        cat >job.kv <<END
create dist_sync
init w zeros(400000)
set-optimizer sgd --learning-rate 1
barrier
if rank() == 0 { done; !sleep 0.3
set-optimizer lamb --learning-rate 0.1; print "set" }
if rank() > 0 { for i in 0..4 { if rank() == 2 { !sleep 0.2
}; push w ones(400000) }
pull w -> x; print x[0], x[399999]$then }
END
        KVSTORE_TIMEOUT=50 ranks 2 3 job.kv
        assert_success
        assert_equal "$(grep -c -- '-10.0 -10.0' <<<"$output")" 2
        assert_line set
        [[ $then != *moved* ]] || assert_equal "$(grep -c moved <<<"$output")" 2
    done
}

@test "several machines: a type under a name of the program's own" {
    printf '%s\n' 'register mine --base dist; create mine; type' 'init a 0; push a rank()+1; pull a' > mine.kv
    ranks 1 2 mine.kv
    [ "$status" -eq 0 ]
    [ "$(grep -c '^3.0$' <<<"$output")" -eq 2 ]
    [ "$(grep -c '^mine$' <<<"$output")" -eq 2 ]
    printf '%s\n' 'register ring --base horovod; create ring' 'pushpull a [rank()+1]' > ring.kv
    ranks 0 2 ring.kv
    [ "$status" -eq 0 ]
    [ "$(grep -c '^\[3.\]$' <<<"$output")" -eq 2 ]
}
