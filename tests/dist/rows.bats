# Several ranks of this machine: large keys that are cut where rows end, with rules that look at rows
# and with pushes of some rows, have the bits of one process.

load ../cli/help
# The key 7 is cut by rows over all servers. The rows of 1 are too long for that. 8 is row_sparse.
scripts()
{
    needs_mpi
    cat > keys.kv <<'END'
init 7 uniform((7003, 170), low=-1, seed=1)
init 1 uniform((3, 400000), low=-1, seed=2)
init 8 row_sparse(uniform((7003, 170), low=-1, seed=3))
init 9 row_sparse([[i, -i] for i in 0..10])
END
    cat > rounds.kv <<'END'
for i in 0..1 {
    push 7 [uniform((7003, 170), low=-1, seed=i*10+r) for r in who]
    push 7 [row_sparse(uniform((5, 170), low=-1, seed=i*10+r), [i, 40*r+5, 40*r+6, 6000, 7002], (7003, 170)) for r in who]
    push 1 [row_sparse(uniform((1, 400000), low=-1, seed=i*10+r), [1], (3, 400000)) for r in who]
    push 8 [row_sparse(uniform((5, 170), low=-1, seed=i*10+r), [i, 40*r+5, 40*r+6, 6000, 7002], (7003, 170)) for r in who]
}
pull 7 -> a
pull 1 -> b
w = row_sparse(zeros(7003, 170))
v = row_sparse(zeros(11, 2))
row-sparse-pull 9,8,9 --row-ids [[5, 2, 5], [7002, 3, 6000, 41, 3, 3500], [9]] --out [v, w, v]
row-sparse-pull 8 --row-ids [[1, 3501, 3, 7002, 6000]] --out [w] # as many rows as w has
END
}

# same OPTIMIZER SERVERS WORKERS: SERVERS 0 means that the workers serve.
same()
{
    scripts
    local how="--oversubscribe --bind-to none" run="$build/kvctl"
    {
        cat keys.kv
        echo "who = [r for r in 0..$(($3 - 1))]; set-optimizer $1"
        cat rounds.kv
        echo 'write a a1.npy; write b b1.npy; write dense(w) w1.npy; write dense(v) v1.npy'
    } > one.kv
    {
        echo 'create dist_sync'
        cat keys.kv
        echo "who = [rank()]; set-optimizer $1"
        cat rounds.kv
        echo 'if rank() == 0 { write a a2.npy; write b b2.npy; write dense(w) w2.npy; write dense(v) v2.npy }'
    } > two.kv
    run -0 "$run" -f one.kv
    if [ "$2" -eq 0 ]; then
        run timeout 60 mpirun $how -n "$3" "$run" -f two.kv
    else
        run timeout 60 mpirun $how -x KVSTORE_SERVERS="$2" -n $(($2 + $3)) "$run" launch-rank -f two.kv
    fi
    assert_success
    cmp a1.npy a2.npy
    cmp b1.npy b2.npy
    cmp w1.npy w2.npy
    cmp v1.npy v2.npy
}

@test "rows: optimizers, lazily, on several servers, or on workers that serve" {
    same "sgd --momentum 0.9" 2 2
    same adam 0 3
    same groupadagrad 3 2 # one history a row
    same lamb 2 2 # keys that were cut move to one server
    same sgld 0 2 # to one worker
}
