# Workers that run ahead of the others by more than they may, in different orders of keys: each is
# held for a while, and none for one that is held itself.

load ../cli/help

# ahead RANKS SCRIPT: with room for 100 numbers.
ahead()
{
    needs_mpi
    printf '%s\n' "$2" >job.kv
    run -0 timeout 100 mpirun --oversubscribe --bind-to none -x KVSTORE_TIMEOUT=60 \
        -x KVSTORE_AHEAD=400 -n "$1" kvctl -f job.kv
}

@test "ahead: keys in the opposite order" {
    for type in dist_sync byteps horovod; do
        ahead 2 "create $type
k = [3, 5]
for i in 0..1 { pushpull (k[(i+rank())%2]) ones(90) -> x }
wait; assert x == 2"
    done
}

@test "ahead: in a ring of three, behind keys that nobody else has begun" {
    ahead 3 'create dist_sync
init 0..5 [zeros(90) for i in 0..5]
r = rank()
for i in [r, 3 + r, (r + 1) % 3, 3 + (r + 1) % 3, (r + 2) % 3, 3 + (r + 2) % 3] {
    push (i) ones(90)
}
pull 0..5 -> x; for i in 0..5 { assert x[i] == 3 }'
}

@test "ahead: the others wait at a barrier, or for a store" {
    ahead 2 'create dist_sync
init 3,5 [zeros(90), zeros(90)]
if rank() == 1 { barrier }
push 3 ones(90); push 5 ones(90)
if rank() == 0 { barrier }
pull 5 -> x; assert x == 2
a = 3
if rank() == 1 { create dist_sync --name other; use kv }
push 3 ones(90); push 5 ones(90)
if rank() == 0 { create dist_sync --name other; use kv }
pull 5 -> x; assert x == 2'
}

@test "ahead: a bound on staleness" {
    ahead 2 'create dist_async --staleness 1
init 3,5 [zeros(90), zeros(90)]
set-optimizer test
k = [3, 5]
for j in 0..1 { for i in 0..3 { push (k[(j+rank())%2]) ones(90) } }
barrier; pull 3 -> x; assert x == 8'
}

@test "ahead: more operations than may be under way" {
    ahead 2 'create dist_sync
init 0..2999 [zeros(2) for i in 0..2999]
for i in 0..2999 { push (abs(2999*rank()-i)) ones(2) }
pull 0..2999 -> x; for i in 0..2999 { assert x[i] == 2 }'
}
