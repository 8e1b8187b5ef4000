# pull --since in jobs: with checkpoints, what it costs in memory, and what a script sees of it.
# tests/dist/since.c compares bits over random updates.

load ../cli/help
needs=mpi

job()
{
    export TMPDIR=$BATS_TEST_TMPDIR
    run timeout 100 kvctl launch "$@"
}

# script ROUNDS [EVENT]: weights that are kept from round to round, beside whole ones; EVENT stands in
# front of each round.
script()
{
    cat <<END
create dist_sync
set-optimizer adam --learning-rate 1e-5 --multi-precision true
init w,b [normal((400, 30), scale=0.02, seed=1), ones(7)]
half = zeros(400, 30, dtype="bfloat16")
init h array(normal((400, 30), scale=0.02, seed=2), dtype="bfloat16")
v = [zeros(400, 30), zeros(7)]
r = none
q = none
for i in range(rounds(), $1) {
    pull w,b --out v --since r -> r
    pull h --out half --since q -> q
    assert r == [i, i] and q == i
$2
    push w,b [normal((400, 30), seed=i * 10 + rank()), ones(7) * i]
    push h normal((400, 30), seed=i * 10 + rank())
}
pull w,b --out v --since r -> r
pull h --out half --since q -> q
pull w,b,h -> whole
assert v[0] == whole[0]
assert v[1] == whole[1]
assert half == whole[2]
assert r == [$1, $1]
if rank() == 0 { write v[0] w.npy; write array(half, dtype="float32") h.npy }
END
}

@test "since: a job that begins again from a checkpoint knows its rounds" {
    script 30 "" >job.kv
    job -n 2 -s 1 --checkpoint c.kvs --checkpoint-every 10 job.kv
    assert_success
    # the next job begins with round 30, and whoever holds an older one gets all of it
    cat >next.kv <<'END'
create dist_sync
set-optimizer adam --learning-rate 1e-5 --multi-precision true
init w,b [zeros(400, 30), zeros(7)]
init h zeros(400, 30, dtype="bfloat16")
assert rounds() == 30
half = zeros(400, 30, dtype="bfloat16")
pull h --out half --since 29 -> q
assert q == 30
pull h -> all
assert half == all
expect-error value { pull h --out half --since 31 }
half = zeros(400, 30, dtype="bfloat16")
pull h --out half --since 30 # which says that it has them
assert half == 0
END
    job -n 2 --checkpoint c.kvs --checkpoint-every 10 next.kv
    assert_success
}

@test "since: a worker that is lost, and the job begins again" {
    script 30 "" >whole.kv
    job -n 2 whole.kv
    assert_success
    mkdir whole
    mv w.npy h.npy whole
    script 30 "if i == 23 and rank() == 0 {
        !test -e done || (touch done; kill -9 \$PPID)
    }" >job.kv
    job -n 2 --checkpoint c.kvs --checkpoint-every 10 --max-restarts 2 job.kv
    assert_success
    [ -e done ]
    cmp w.npy whole/w.npy
    cmp h.npy whole/h.npy
}

# memory FROM SINCE: by how many KB a server with 64 MB of bfloat16 grows over 12 rounds, of which the
# worker pulls those behind FROM with these words.
memory()
{
    cat >now <<'END'
server=$(awk '$1 == 1 && $2 == "start" { print $3 }' "$KVSTORE_RUN_DIR/events")
grep VmRSS "/proc/$server/status"
END
    cat >memory.kv <<END
create dist_sync
set-optimizer sgd --learning-rate 1e-3
init w zeros(32000000, dtype="bfloat16")
g = array(ones(32000000), dtype="bfloat16")
x = zeros(32000000, dtype="bfloat16")
r = none
for i in range(15) {
    if i == 3 { !sh ./now
    }
    if i >= $1 { pull w --out x $2 }
    push w g
}
wait
!sh ./now
END
    # freed blocks go back to the system, so that they do not hide new ones
    MALLOC_MMAP_THRESHOLD_=65536 job -n 1 -s 1 memory.kv
    assert_success
    grown=$(awk '/VmRSS/ { n++; kb[n] = $(NF - 1) } END { print n == 2 ? kb[2] - kb[1] : "none" }' <<<"$output")
    echo "grew by $grown KB"
}

@test "since: a server keeps less for changes than a key has, and nothing without them" {
    memory 0 ""
    [ "$grown" -lt 12000 ] # what is on its way
    memory 4 "--since r -> r" # marks of one byte for two, and the copies of some parts
    [ "$grown" -gt 30000 ]
    [ "$grown" -lt 45000 ]
}

@test "since: a patch of a job's store in the middle of a run" {
    cat >patch.kv <<'END'
create dist_sync
set-optimizer adam --learning-rate 1e-6 --multi-precision true
init w array(normal((1100, 1000), scale=0.02, seed=1), dtype="bfloat16")
init b ones(5)
if rank() == 0 { save old.safetensors }
for i in range(6) {
    push w normal((1100, 1000), seed=i)
    push b ones(5)
    if rank() == 0 and i == 3 { save step3.patch --patch-from old.safetensors; save step3.safetensors }
    if rank() == 0 and i == 5 { save step5.patch --patch-from step3.safetensors; save step5.safetensors }
}
END
    job -n 2 -s 2 patch.kv
    assert_success
    kvctl apply step3.patch step5.patch old.safetensors --out out.safetensors
    cmp out.safetensors step5.safetensors
    [ "$(($(wc -c <step5.patch) * 8))" -lt "$(wc -c <step5.safetensors)" ]
}

@test "since: dist_async, and what info tells" {
    cat >async.kv <<'END'
create dist_async
set-optimizer sgd --learning-rate 0.1
init w zeros(100000)
x = zeros(100000)
pull w --out x --since none -> r
for i in range(5) { push w ones(100000) * (uniform(100000, seed=i) < 0.01); pull w --out x --since r -> r }
wait; barrier
pull w --out x --since r -> r
pull w -> y
assert x == y
assert r == 10
info
END
    job -n 2 async.kv
    assert_success
    assert_line --regexp '^\[0\] type dist_async.*, since_bytes [0-9]{6}, whole_bytes 2800000, '
}
