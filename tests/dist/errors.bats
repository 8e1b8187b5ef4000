# Recorded mistakes in the types of several machines: where MXNet 1.9.1 aborts a server, hangs, or
# goes on with a wrong number, there is an error that names the key; what it refuses only because of
# how its servers are made works.

load ../cli/help

# ranks N ARGUMENT…
ranks()
{
    needs_mpi
    # without TCP, which one machine does not need and of which Open MPI 5 complains where there is no network
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=^tcp
    run timeout 60 mpirun --oversubscribe --bind-to none -n "$1" kvctl "${@:2}"
    # mpirun of Open MPI 4 crashes now and then itself, where it forwards standard input to ranks that end at once
    [[ $output != *orte_iof_hnp_read_local_handler* ]] ||
        run timeout 60 mpirun --oversubscribe --bind-to none -n "$1" kvctl "${@:2}"
}

# refuses CODE COMMANDS TEXT: of two ranks.
refuses()
{
    ranks 2 -c "create dist_sync; $2"
    assert_failure
    assert_output --partial "error[$1]: $3"
}

# says ARGUMENT… TEXT: a job of launch ends with this text.
says()
{
    needs_mpi
    run ! timeout 60 kvctl launch "${@:1:$#-1}"
    [[ $output == *"]: ${!#}"$'\n'* ]] || fail "not \"${!#}\" but $output"
}

@test "errors: what a type, a checkpoint or another rank does not allow" {
    local every=(--checkpoint c.kvs --checkpoint-every 1)
    says -n 1 "${every[@]}" -c 'create dist_async' \
        'a job with checkpoints needs the rounds of dist_sync or dist_device_sync; a store of type "dist_async" has none that could be kept'
    says -n 1 "${every[@]}" -c 'create dist_sync; set-gradient-compression 2bit; init 3 ones(2); push 3 ones(2); push 3 ones(2); pull 3' \
        'a job with checkpoints compresses gradients of an optimizer only'
    says -n 2 -c 'create dist_sync; set-optimizer sgd --clip-global-norm 1' \
        "clip_global_norm needs the sum of all workers' gradients for all keys, and each server of \"dist_sync\" has the sums of its keys only"
    says -n 2 -c 'create dist_sync; if rank() == 0 { init 3 ones(2) } else { init 3 ones(2).astype("float64") }' \
        'rank 0 initialised the key as float32, this value is float64'
    says -n 1 -c 'create dist_sync; init r tostype(zeros(4,2), "row_sparse"); x = tostype(zeros(4,2), "row_sparse")
        row-sparse-pull r --out x --row-ids [9]' 'row 9 is outside 0 to 3'
    says -n 1 -c 'create dist_async --staleness -1' 'staleness is a number from 0 on, not "-1"'
    says -n 1 -c 'create dist_sync; set-gradient-compression 2bit --pull; set-optimizer sgd' \
        'what is pulled is compressed, which goes without an updater only'
    says -n 1 -c 'create dist_sync; set-optimizer sgd; set-gradient-compression 2bit --pull' \
        'what is pulled is compressed without an updater only, and one is in use'
}

@test "errors: a rank that sees another checkpoint than the launcher" {
    ranks 1 -c 'create dist_sync' # skips
    run -0 timeout 60 env KVSTORE_CHECKPOINT=c.kvs KVSTORE_CHECKPOINT_EVERY=1 mpirun -n 1 \
        kvctl -c 'create dist_sync; init 3 1; push 3 1; push 3 1; pull 3'
    run ! timeout 60 env KVSTORE_CHECKPOINT=c.kvs KVSTORE_CHECKPOINT_EVERY=1 KVSTORE_CHECKPOINT_ROUND=5 mpirun -n 1 \
        kvctl -c 'create dist_sync'
    assert_output --regexp 'error\[value\]: the job goes on from round 5, and "c.kvs" on [^ ]+ is of round 2: all hosts must see the same file'
}

@test "errors: ranks that were told of other roles" {
    ranks 2 -c 'create dist_sync' # skips
    run ! timeout 60 mpirun --oversubscribe --bind-to none -n 2 sh -c 'KVSTORE_SERVERS=$OMPI_COMM_WORLD_RANK exec kvctl -c "create dist_sync"'
    # whichever rank says it first: mpirun of Open MPI 5 ends the other one before its line is forwarded
    assert_output --regexp 'error\[value\]: rank (0 was told of 0|1 was told of 1) servers, rank [01] of another number: KVSTORE_SERVERS differs'
    run ! timeout 60 mpirun --oversubscribe --bind-to none -x KVSTORE_SERVERS=1 -n 2 kvctl -c 'create dist_sync'
    assert_output --partial 'error[usage]: this rank is a server: it makes no stores'
    run -4 kvctl -c 'create dist_sync'
    assert_output --partial 'error[unsupported]: this process was not started as a rank of a job: OMPI_COMM_WORLD_SIZE is not set'
}

@test "errors: a key twice in one init, one behind the other or not, makes nothing" {
    refuses key 'init 3,3 [ones(2),ones(2)]' 'key 3 stands twice in the call'
    ranks 1 -c 'create dist_sync; expect-error key { init 3,4,3 [ones(2),ones(2)*2,ones(2)*3] }
        expect-error key { pull 4 }; init 3,4 [ones(2)*7,ones(2)*8]; pull 3,4'
    assert_success
    assert_output --partial '[7. 7.]'
    assert_output --partial '[8. 8.]'
}

@test "errors: a key is initialised once" {
    refuses key 'init 3 ones(2); init 3 ones(2)*7' 'key 3 is initialised already'
    refuses key 'init a ones(2); init a ones(2)*7' 'key "a" is initialised already'
}

@test "errors: nothing is there to pull" {
    refuses key 'pull 3' 'key 3 was never initialised'
}

@test "errors: a rank inits a key that rank 0 does not make" {
    refuses key 'if rank() == 0 { init 3 ones(2) } else { init 4 ones(2) }' 'key 4 was never initialised'
    assert_output --partial ' hint: rank 0 makes the keys of all ranks, and its init has not named this one'
    refute_output --partial 'init it first'
}

@test "errors: keys that servers keep are neither deleted nor renamed" {
    refuses unsupported 'init 3 ones(2); delete 3' 'stores of type "dist_sync" have no delete or rename'
    assert_output --partial ' hint: types that have it: local, device'
    for type in dist_async horovod byteps; do
        ranks 1 -c "create $type; print is_capable('delete'); rename 3 4"
        assert_failure 4
        assert_output --partial "error[unsupported]: stores of type \"$type\" have no delete or rename"
        assert_line --partial False
    done
}

@test "errors: values of another size" {
    refuses shape 'init 3 ones(2); push 3 ones(3)' 'key 3 holds (2,), this value has shape (3,)'
}

@test "errors: what compression does not take" {
    refuses dtype 'set-gradient-compression 2bit; init 3 ones(2,dtype="float64")' \
        'key 3 is float64, gradient compression takes float32 keys'
    refuses value 'set-gradient-compression 2bit; init 3 row_sparse(ones(2,2))' \
        'key 3 is row_sparse, gradient compression takes default arrays'
}

@test "errors: dist_async needs an optimizer, dist-async is no type" {
    ranks 1 -c 'create dist_async; init 3 ones(2); push 3 ones(2)*5'
    assert_failure
    assert_output --partial \
        'error[value]: a push to a store of type "dist_async" needs an optimizer'
    ranks 1 -c 'create dist-async'
    assert_failure 4
    assert_output --partial 'error[unsupported]: there is no store type "dist-async"'
    assert_output --partial 'did you mean dist_async'
}

@test "errors: what works here, on one rank and on two" {
    cat >works.kv <<'END'
create dist_sync        # pushes make keys where nothing updates
w = num_workers()
push 3 ones(2)*5; pull 3 -> x; assert x == 5*w
push 5 ones(2,dtype="int32")*5; pull 5 -> x; assert x == 5*w
pushpull 6 ones(2) -> x; assert x == w
create dist_sync        # any integer is a key
init 215330,-1 [ones(2),ones(2)]
push -1 ones(2)*5; push 215330 ones(2)*6
pull -1 -> x; assert x == 5*w
pull 215330 -> x; assert x == 6*w
create dist_sync        # pushpull is push and pull
set-gradient-compression 2bit
init 3 ones(2); pushpull 3 ones(2) -> x; assert x == 0.5*w
create dist_sync
init 3 ones(2); o = zeros(2,dtype="float64"); pushpull 3 ones(2) --out o; assert o == w
init 4 row_sparse(ones(2,2)); pushpull 4 row_sparse(ones(2,2)) -> x; assert x == w
o = zeros(2); pull 3 --out o --ignore-sparse false; assert o == w
create dist_sync        # rows, for several devices, and of a key that has none
init 3,4 [row_sparse(ones(2,2)), row_sparse(zeros(2,2))]
row-sparse-pull 3 --row-ids [[0],[1]] --ctx cpu(0..1) -> x
assert dense(x[0]) == [[1,1],[0,0]]; assert dense(x[1]) == [[0,0],[1,1]]
row-sparse-pull 3 --row-ids [1] --ctx cpu(0..1) -> x
assert dense(x[0]) == [[0,0],[1,1]]; assert dense(x[1]) == [[0,0],[1,1]]
pull 4 -> x; assert x == 0
create dist_sync        # a sum replaces all rows
init 3 row_sparse(ones(4,1)); push 3 row_sparse([[0],[5],[0],[0]])
row-sparse-pull 3 --row-ids [1,2] -> x
assert dense(x) == [[0],[5*w],[0],[0]]
create dist_sync        # a rule runs on the servers, and a pull writes its out alone
set-updater { stored += input * 100 }
a = ones(2)*5; init 3 ones(2); push 3 a; pull 3 -> x; assert x == 1+500*w; assert a == 5
o = zeros(2); pushpull 3 a --out o; assert o == 1+1000*w; assert a == 5
a = ones(2); init 4 a; a = a*9; pull 4 -> x; assert a == 9
save-states s.safetensors
barrier
send-command 9 "x"
create dist_device_sync
init 3 ones(2); push 3 [ones(2)*5, ones(2)]; pull 3 -> x; assert x == 6*w
print "fine"
END
    for n in 1 2; do
        ranks $n -f works.kv
        assert_success
        assert_equal "$(grep -c fine <<<"$output")" $n
    done
}

@test "errors: rank 0 alone sets an optimizer for which keys move, behind which the others go on" {
    ranks 2 -c 'create dist_sync; init 3,5 [zeros(200000),zeros(2)]
        if rank() == 0 { set-optimizer lamb }
        push 3 ones(200000); pull 3 -> x'
    assert_failure
    assert_output --partial 'error[value]: rank 1 pushes and does not set this optimizer, for which key 3 has to move'
    assert_output --partial 'hint: set it before init, on all ranks, or while the others are at a barrier'
}

@test "errors: rank 0 alone sets an optimizer for which keys move, while the others are at a barrier" {
    cat >alone.kv <<'END'
create dist_sync --name all
init 3 ones(200000); push 3 ones(200000)
set-optimizer lamb
for i in 1..3 { push 3 ones(200000)*i }
pull 3 -> want; assert want[0] != 1
create dist_sync --name alone
init 3 ones(200000); push 3 ones(200000)
if rank() == 0 { set-optimizer lamb }
barrier
for i in 1..3 { push 3 ones(200000)*i }
pull 3 -> x; assert x == want
if rank() == 0 { set-optimizer lamb --learning-rate 0.5 }
barrier
push 3 ones(200000)
set-optimizer sgd       # all ranks again
push 3 ones(200000); pull 3 -> y; assert y == y
print "fine"
END
    for n in 2 3; do
        ranks $n -f alone.kv
        assert_success
        assert_equal "$(grep -c fine <<<"$output")" $n
    done
}

@test "errors: a job makes as many stores as records can name, and no more" {
    ranks 2 -c 'for i in range(0, 400) { create dist_sync; init 3 ones(2); push 3 ones(2)*i; pull 3 -> a }
        print a'
    assert_success
    assert_line '[798. 798.]'
    ranks 1 -c 'for i in range(0, 65536) { create dist_sync }; print "all"
        expect-error unsupported { create dist_sync }; create dist_sync'
    assert_failure 4
    assert_line all
    assert_output --partial 'error[unsupported]: a job makes at most 65536 stores'
}

@test "errors: a variable that holds no number, or as many servers as ranks" {
    while IFS='|' read -r name value text; do
        export "$name=$value"
        ranks 2 -c 'create dist_sync'
        unset "$name"
        assert_failure 3
        assert_output --partial "error[value]: $text"
    done <<'END'
KVSTORE_TIMEOUT|soon|KVSTORE_TIMEOUT takes a number from 0 on, not "soon"
KVSTORE_DEADLINE|-1|KVSTORE_DEADLINE takes a number from 0 on, not "-1"
KVSTORE_DEADLINE|inf|KVSTORE_DEADLINE takes a number from 0 on, not "inf"
KVSTORE_SERVERS|1.5|KVSTORE_SERVERS takes a whole number from 0 on, not "1.5"
KVSTORE_NOTICE|-1|KVSTORE_NOTICE takes a number from 0 on, not "-1"
KVSTORE_DEADLOCK|off|KVSTORE_DEADLOCK takes 0 or 1, not "off"
KVSTORE_SHARED_MEMORY|no|KVSTORE_SHARED_MEMORY takes 0 or 1, not "no"
KVSTORE_TRACE|yes|KVSTORE_TRACE takes 0 or 1, not "yes"
KVSTORE_AHEAD|1 MB|KVSTORE_AHEAD takes a whole number from 1 on, not "1 MB"
KVSTORE_SERVERS|2|KVSTORE_SERVERS is 2, which leaves no worker among 2 ranks
END
    KVSTORE_TIMEOUT='' ranks 2 -c 'create dist_sync; init 3 ones(2); pull 3'
    assert_success
}

# A copy of the plugin in which the text that begins the number of a build is another one, as after a change of
# what records mean.
@test "errors: ranks of two builds do not talk" {
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    mkdir old
    cp "$build/kvctl" "$build/kvstore_mpi.so" old/
    cp -P "$build"/libkvstore.so* old/
    LC_ALL=C sed -i 's/kvstore records [1-9]/kvstore records 0/' old/kvstore_mpi.so
    cmp -s "$build/kvstore_mpi.so" old/kvstore_mpi.so && fail "nothing was changed"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=^tcp
    printf 'create dist_sync\ninit 3 ones(2)\n' >job.kv
    printf '#!/bin/sh\n[ $OMPI_COMM_WORLD_RANK != 2 ] || exec env -u KVSTORE_PLUGINS old/kvctl "$@"\nexec kvctl "$@"\n' >either
    chmod +x either
    run ! timeout 60 mpirun --oversubscribe --bind-to none -n 3 ./either -f job.kv
    # each rank names the first other one that it hears
    assert_output --regexp 'error\[peer\]: rank (2 on [^ ]+ runs another build of kvstore than rank [01]|[01] on [^ ]+ runs another build of kvstore than rank 2) on '
    assert_output --partial 'install the same version of kvctl and its plugin on all hosts'
}

@test "errors: ranks know their numbers before a store joins them, and say so if none does" {
    local number='if rank() == 1 { print rank(), num_workers() }'
    ranks 2 -c "$number; create dist_sync; $number"
    assert_success
    assert_output $'1 2\n1 2'
    ranks 2 -c "create local; print rank(), num_workers()"
    assert_success
    assert_line '0 1'
    refute_output --partial '1 2'
    ranks 3 -c 'init 3 ones(2); push 3 ones(2)'
    assert_success
    assert_output 'note: 3 ranks ran alone: create dist_sync joins them'
    KVSTORE_RANK_PID="1 another job" ranks 2 -c 'x = 1' # a rank of that one has started mpirun
    assert_output 'note: 2 ranks ran alone: create dist_sync joins them'
    echo "$number" >alone.kv
    run -0 timeout 60 kvctl launch -n 2 alone.kv
    assert_line '[1] 1 2'
    assert_line '[0] note: 2 ranks ran alone: create dist_sync joins them'
    [ "${#lines[@]}" -eq 2 ]
    echo 'create dist_sync' >>alone.kv
    run timeout 60 kvctl launch -n 2 -s 1 alone.kv
    assert_output '[1] 1 2'
    ranks 1 -c 'print rank(), num_workers()'
    assert_output '0 1'
    run env PMIX_RANK=2 SLURM_STEP_NUM_TASKS=4 kvctl -c 'print rank(), num_workers()'
    assert_output '2 4'
    # a script of sbatch is no rank, and a variable may hold anything
    run env SLURM_PROCID=0 SLURM_NTASKS=4 OMPI_COMM_WORLD_RANK=x OMPI_COMM_WORLD_SIZE=2 kvctl -c 'print rank(), num_workers()'
    assert_output '0 1'
}

@test "errors: a rank that sets another optimizer than rank 0 is named" {
    cat >two.kv <<'END'
create dist_sync
init w ones(2)
set-optimizer sgd --learning-rate (rank() + 1)
push w ones(2)
pull w
set-optimizer sgd --learning-rate 2
push w ones(2)
pull w
END
    run -0 timeout 60 kvctl launch -n 3 two.kv
    assert_line '[0] [-2. -2.]'
    assert_line '[2] [-8. -8.]'
    assert_line '[0] warning: rank 1 sets another optimizer than rank 0: that of rank 0 is used'
    assert_line '[0] warning: rank 2 sets another optimizer than rank 0: that of rank 0 is used'
    [ "$(grep -c warning <<<"$output")" = 2 ]
}
