# The type nccl, over a driver of host memory and an NCCL of its own (tests/device/fake_nccl.cc).

load help

# kvctl on four such GPUs.
on_gpus()
{
    [ -e "$build/device/kvstore_cuda.so" ] || skip "the plugin over host memory is not built"
    KVSTORE_PLUGINS=$build/device FAKE_GPUS=4 run kvctl "$@"
}

@test "nccl: all keys of a call on the same GPUs are one group" {
    export FAKE_NCCL_LOG=$BATS_TEST_TMPDIR/groups
    on_gpus <<'END'
create nccl
init 1,2,3 [ones(3), ones(4), ones(5)]
push 1,2 [[ones(3)@gpu(0), ones(3)@gpu(2)], [ones(4)@gpu(0), ones(4)@gpu(2)]]
push 1,2,3 [[ones(3)@gpu(i) for i in 0..2], [ones(4)@gpu(i) for i in 1..2], [ones(5)@gpu(i) for i in 0..2]]
pull 1,2,3 --ctx gpu(0..3) -> a
pull 1 --ctx gpu(0) -> b
pull 1 -> c
END
    assert_success
    run cat "$FAKE_NCCL_LOG"
    assert_output 'sum 2 on 0 2
sum 2 on 0 1 2
sum 1 on 1 2
copy 3 on 0 1 2 3'
}

@test "nccl: it refuses what NCCL cannot do, and nothing has changed" {
    on_gpus -k <<'END'
create nccl
init 1,2 [ones(2,2), ones(3, dtype="bool")]
push 1 [ones(2,2)@gpu(1), ones(2,2)@gpu(1)]
push 1 [ones(2,2)@gpu(1), ones(2,2)]
push 2 [ones(3, dtype="bool")@gpu(0), ones(3, dtype="bool")@gpu(1)]
push 1 [ones(2,2, dtype="float16")@gpu(0), ones(2,2, dtype="float16")@gpu(1)]
init 3 row_sparse(ones(2,2))
push 1 row_sparse(ones(2,2))@gpu(0)
pull 1 -> a
row-sparse-pull 1 --row-ids [0] -> a
set-gradient-compression 2bit
is_capable("row_sparse")
is_capable("optimizer")
pull 1
END
    assert_failure 4
    assert_output '<stdin>:3:6: error[unsupported]: two values of key 1 are on gpu(1), and NCCL takes one of each GPU
    3 : push 1 [ones(2,2)@gpu(1), ones(2,2)@gpu(1)]
      :      ^
 hint: the type device sums values wherever they are
<stdin>:4:6: error[unsupported]: value 2 of key 1 is not on a GPU, and NCCL sums on GPUs
    4 : push 1 [ones(2,2)@gpu(1), ones(2,2)]
      :      ^
 hint: the type device sums values wherever they are
<stdin>:5:6: error[unsupported]: key 2 is bool, which NCCL cannot sum
    5 : push 2 [ones(3, dtype="bool")@gpu(0), ones(3, dtype="bool")@gpu(1)]
      :      ^
 hint: the type device sums values wherever they are
<stdin>:6:6: error[unsupported]: the values of key 1 have not all the dtype of the key, float32, in which NCCL sums
    6 : push 1 [ones(2,2, dtype="float16")@gpu(0), ones(2,2, dtype="float16")@gpu(1)]
      :      ^
 hint: the type device sums values wherever they are
<stdin>:7:6: error[unsupported]: the type "nccl" takes no row_sparse arrays, as for key 3
    7 : init 3 row_sparse(ones(2,2))
      :      ^
 hint: the type device does; dense(a) makes an array dense
<stdin>:8:6: error[unsupported]: the type "nccl" takes no row_sparse arrays, as for key 1
    8 : push 1 row_sparse(ones(2,2))@gpu(0)
      :      ^
 hint: the type device does; dense(a) makes an array dense
<stdin>:10:1: error[unsupported]: stores of type "nccl" have no pull of rows
   10 : row-sparse-pull 1 --row-ids [0] -> a
      : ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
<stdin>:11:1: error[unsupported]: stores of type "nccl" do not compress gradients
   11 : set-gradient-compression 2bit
      : ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
 hint: the type device does, between its contexts
False
True
[[1. 1.]
 [1. 1.]]'
}

@test "nccl: virtual GPUs are none of NCCL's" {
    on_gpus --gpus 2 -c 'create nccl'
    assert_failure 4
    assert_output '<cmd>:1:8: error[unsupported]: the type "nccl" wants GPUs of this machine, these are virtual
    1 : create nccl
      :        ^^^^
 hint: the type device works with virtual GPUs'
}

@test "nccl: without the library it says so, where types are listed too" {
    FAKE_NCCL=none on_gpus -c 'create nccl'
    assert_failure 4
    assert_line '<cmd>:1:8: error[unsupported]: NCCL (libnccl.so.2) cannot be loaded'
    FAKE_NCCL=none on_gpus -c doctor
    assert_line 'nccl       not available: NCCL (libnccl.so.2) cannot be loaded'
    assert_line 'type       nccl is not available: NCCL (libnccl.so.2) cannot be loaded'
    on_gpus -c doctor
    assert_line 'nccl       2.28.9'
    assert_line 'type       nccl'
    FAKE_NCCL=none on_gpus --version
    assert_line --regexp '^types: local device teststore .*; not available: nccl$'
}

@test "gpus: a profile tells of the lists of keys that a GPU was given" {
    on_gpus <<'END'
create nccl
init 1,2 [ones(30), ones(10)]
set-updater { stored += input }
profile p.json
push 1,2 [[ones(30)@gpu(0), ones(30)@gpu(1)], ones(10)@gpu(1)]
pull 1,2 --ctx gpu(0..1) -> a
pull 1 --ctx gpu(0) -> a
profile off
END
    assert_success
    run sed -n 's/.*"cat":"gpu".*"name":"\([^"]*\)".*"device":"\([^"]*\)","elements":\([0-9]*\).*/\1: \2, \3/p' p.json
    assert_output 'sum together 1: gpu(0), 30
update 1: gpu(0), 30
update 2: gpu(1), 10
copy 1: gpu(0), 30
copy 2: gpu(1), 10
copy together 1: gpu(0), 30
copy together 2: gpu(1), 10
copy 1: gpu(0), 30'
    on_gpus <<'END'
create device
init 1,2 [row_sparse(ones(4,3)), row_sparse(ones(2,3))]
set-updater { stored += input }
push 1,2 [row_sparse(ones(4,3))@gpu(1), row_sparse(ones(2,3))@gpu(2)]
profile p.json
push 1,2 [row_sparse(ones(4,3))@gpu(1), row_sparse(ones(2,3))@gpu(2)]
profile off
END
    assert_success
    run sed -n 's/.*"cat":"gpu".*"name":"\([^"]*\)".*"device":"\([^"]*\)","elements":\([0-9]*\).*/\1: \2, \3/p' p.json
    assert_output 'update 1: gpu(1), 12
update 2: gpu(2), 6'
}

@test "nccl: a library that does not say its version says why" {
    [ -e "$build/gpu_nccl_library" ] || skip "the CUDA Toolkit is not there"
    cd "$BATS_TEST_TMPDIR"
    { for name in CommInitAll CommAbort GroupStart GroupEnd Reduce Broadcast; do
        echo "int nccl$name(void) { return 0; }"
    done
    echo 'int ncclGetVersion(int *out) { (void)out; return 2; }'
    echo 'const char *ncclGetErrorString(int code) { return code == 2 ? "out of order" : ""; }'
    } >nccl.c
    ${CC:-cc} -shared -fPIC -o libnccl.so.2 nccl.c
    LD_LIBRARY_PATH=$PWD says -1 'not ok 1 - NCCL 0.0.0: NCCL does not start: out of order' "$build/gpu_nccl_library"
}
