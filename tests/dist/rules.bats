# Rules on several machines: variables that they read, sums of rows and columns, the norm of a push.

load ../cli/help

ranks()
{
    needs_mpi
    run timeout 60 kvctl launch "$@"
}

@test "rules: variables that a rule reads are followed on the servers, by rank 0's value" {
    cat >job.kv <<'END'
create dist_sync
init 3 zeros(2); init 9 zeros(90000)
rate = 0.5
def update(key, grad, weight):
    weight += rate * grad * lr
kv._set_updater(update)
lr = 1
push 3 ones(2); pull 3 -> a
assert a == num_workers() * 0.5
rate = 0.25 * (1 + rank())
push 3 ones(2); pull 3 -> a
assert a == num_workers() * 0.75
for e in 0..2 {
    lr = 0.5 ** e
    push [3, 9] [ones(2), ones(90000)]
}
pull [3, 9] -> both
assert both[0] == num_workers() * (0.75 + 0.25 * 1.75)
assert both[1] == num_workers() * 0.25 * 1.75
if rank() == 0 { info }
END
    for how in "-n 1" "-n 2" "-n 2 -s 1"; do
        ranks $how job.kv
        assert_success
        assert_output --partial "reads rate 0.25, lr 0.25"
    done
}

# A rule of columns needs all of a key, which lives on one server then; one of rows needs none.
@test "rules: by rows and columns a job gives the bits of one process, and its states go on" {
    cat >rule.kv <<'KV'
updater factored {
  state row r; state col c
  squares = input * input + 1e-8
  r += rowmean(squares); c += colmean(squares)
  u = input / sqrt(r / mean(r) * c)
  if max(abs(u)) > 100 { skip }
  stored -= lr * (u + matmul(u, matmul(T(stored), stored)) * 1e-6)
}
updater largest { state row r; r = maximum(r, rowmax(abs(input))); stored += rowsum(input) / r }
KV
    cat >one.kv <<'KV'
source rule.kv
create local
init w reshape(cos(arange(6000)), (100, 60)); init v ones(60, 70)
set-optimizer factored --learning-rate 0.1
for k in 1..3 { g = sin(arange(6000) * k).reshape(100, 60); push w [g, g * 2]; push v [ones(60, 70) * k, ones(60, 70)] }
set-optimizer largest
for k in 1..3 { push w [g, g * k] }
pull w > one.npy
KV
    run -0 kvctl one.kv
    cat >job.kv <<'KV'
source rule.kv
create dist_sync
init w reshape(cos(arange(6000)), (100, 60)); init v ones(60, 70)
set-optimizer factored --learning-rate 0.1
for k in 1..2 { g = sin(arange(6000) * k).reshape(100, 60); push w g * (1 + rank()); push v ones(60, 70) * (k if rank() == 0 else 1) }
save-states half.states --dump-optimizer
pull [w, v] -> held
if rank() == 0 { write held[0] half-w.npy; write held[1] half-v.npy }
KV
    sed -n '1,/^set-optimizer/p' job.kv | sed 's/reshape(cos.*60));/@half-w.npy;/; s/init v .*/init v @half-v.npy/' >rest.kv
    cat >>rest.kv <<'KV'
load-states half.states
for k in [3] { g = sin(arange(6000) * k).reshape(100, 60); push w g * (1 + rank()); push v ones(60, 70) * (k if rank() == 0 else 1) }
set-optimizer largest
for k in 1..3 { push w g * (1 if rank() == 0 else k) }
pull w -> x
assert all(x == @one.npy)
KV
    export MXNET_KVSTORE_BIGARRAY_BOUND=100
    ranks -n 2 job.kv
    assert_success
    ranks -n 2 -s 3 rest.kv
    assert_success
}

@test "rules: clip_global_norm of one worker, whose gradients are all there are" {
    cat >job.kv <<'END'
create dist_sync
init [3, 9] [zeros(2), zeros(90000)]
set-optimizer sgd --learning-rate 1 --clip-global-norm 151
push [3, 9] [[1, 1] * ones(2), ones(90000)]  # norm sqrt(90002): about twice as much
pull [3, 9] -> a
scale = 151 / sqrt(90002)
assert allclose(a[0], -scale * ones(2)), allclose(a[1], -scale * ones(90000))
push [3, 9] [ones(2), zeros(90000)]
pull 3 -> b
assert allclose(b, a[0] - 1)
save-states s.states
END
    for how in "-n 1" "-n 1 -s 2"; do
        ranks $how job.kv
        assert_success
    done
}

@test "rules: clip_global_norm of several workers is refused, also when it comes later" {
    ranks -n 2 -c 'create dist_sync; init 3 ones(2); set-optimizer sgd --clip-global-norm 1'
    assert_failure
    assert_output --partial "error[unsupported]: clip_global_norm needs the sum of all workers' gradients"
    ranks -n 2 -c 'create dist_sync; init 3 ones(2); set-optimizer sgd; set-optimizer --update --clip-global-norm 1'
    assert_failure
    assert_output --partial "error[unsupported]: clip_global_norm needs the sum of all workers' gradients"
}
