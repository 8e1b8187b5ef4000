# GPUs that lack memory, are used by others, do not reach each other, or fail, over a driver of host
# memory (tests/device/fake_driver.cc).

load help

# kvctl on four such GPUs.
on_gpus()
{
    [ -e "$build/device/kvstore_cuda.so" ] || skip "the plugin over host memory is not built"
    KVSTORE_PLUGINS=$build/device FAKE_GPUS=${FAKE_GPUS:-4} run kvctl "$@"
}

# The lines of doctor about GPUs.
doctor_says()
{
    on_gpus -c doctor
    assert_success
    run grep '^gpu ' <<<"$output"
    assert_output "$1"
}

@test "gpus: doctor says which others each of them reaches" {
    FAKE_GPUS=2 doctor_says 'gpu        built: yes; usable: yes; CUDA 12.8, NVRTC 12.6
gpu        gpu(0): no GPU, but host memory, 64 MB, 64 MB of it unused, ability 9.0, reaches gpu 1
gpu        gpu(1): no GPU, but host memory, 64 MB, 64 MB of it unused, ability 9.0, reaches gpu 0'
    FAKE_GPUS=1 doctor_says 'gpu        built: yes; usable: yes; CUDA 12.8, NVRTC 12.6
gpu        gpu(0): no GPU, but host memory, 64 MB, 64 MB of it unused, ability 9.0'
    FAKE_GPUS=8 FAKE_GPU_ISLANDS='024 01 3567' on_gpus -c doctor
    assert_line 'gpu        gpu(0): no GPU, but host memory, 64 MB, 64 MB of it unused, ability 9.0, reaches gpu 1 2 4'
    assert_line 'gpu        gpu(7): no GPU, but host memory, 64 MB, 64 MB of it unused, ability 9.0, reaches gpu 3 5 6'
}

@test "gpus: one that cannot be used does not matter until it is used, and doctor says why" {
    FAKE_GPUS=2 FAKE_GPU_BUSY=1 doctor_says 'gpu        built: yes; usable: yes; CUDA 12.8, NVRTC 12.6
gpu        gpu(0): no GPU, but host memory, 64 MB, 64 MB of it unused, ability 9.0, reaches gpu 1
gpu        gpu(1): no GPU, but host memory, 64 MB, ability 9.0; cannot be used: CUDA-capable device(s) is/are busy or unavailable'
    # nor can one that loads no kernel, as one that is older than those that they are built for
    FAKE_GPUS=2 FAKE_GPU_FAIL=load:1 doctor_says 'gpu        built: yes; usable: yes; CUDA 12.8, NVRTC 12.6
gpu        gpu(0): no GPU, but host memory, 64 MB, ability 9.0; cannot load a kernel: out of memory
gpu        gpu(1): no GPU, but host memory, 64 MB, 64 MB of it unused, ability 9.0, reaches gpu 0'
    FAKE_GPU_BUSY=123 on_gpus -k <<'END'
create device
init 1 ones(3)
push 1 [ones(3)@gpu(0), ones(3)@gpu(0)]
push 1 [ones(3)@gpu(0), ones(3)@gpu(1)]
pull 1
END
    assert_failure 5
    assert_output '<stdin>:4:25: error[io]: gpu(1) cannot be used: CUDA-capable device(s) is/are busy or unavailable
    4 : push 1 [ones(3)@gpu(0), ones(3)@gpu(1)]
      :                         ^^^^^^^^^^^^^^
[2. 2. 2.]'
}

@test "gpus: --gpus N is N virtual ones, whatever the machine has" {
    local where=$build/device
    [ -e "$where/kvstore_cuda.so" ] || skip "the plugin over host memory is not built"
    for plugins in "$where" nowhere; do
        KVSTORE_PLUGINS=$plugins FAKE_GPUS=4 run -0 kvctl --gpus 6 -c 'a = ones(2)@gpu(5); a'
        assert_output 'note: gpu(0) to gpu(5) are virtual, in the memory of the CPU
array([1., 1.], dtype=float32)'
        KVSTORE_PLUGINS=$plugins FAKE_GPUS=4 run -0 kvctl --gpus 1 -c 'a = ones(2)@gpu(0)'
        assert_output 'note: gpu(0) is virtual, in the memory of the CPU'
        KVSTORE_PLUGINS=$plugins FAKE_GPUS=4 run -4 kvctl --gpus 1 -c 'a = ones(2)@gpu(0)@gpu(1)'
        assert_output --partial 'error[unsupported]: there is no gpu(1): the virtual GPUs end at gpu(0)'
        assert_output --partial 'hint: kvctl --gpus 2 and kv_set_virtual_gpus(2) make more'
        KVSTORE_PLUGINS=$plugins FAKE_GPUS=4 run -4 kvctl --gpus 2 -c 'a = ones(2)@gpu(2)'
        assert_output --partial 'error[unsupported]: there is no gpu(2): the virtual GPUs end at gpu(1)'
        assert_output --partial 'hint: kvctl --gpus 3 …'
    done
    KVSTORE_PLUGINS=nowhere run -4 kvctl -c 'a = ones(2)@gpu(8)'
    assert_output --partial 'error[unsupported]: there is no gpu(8): this machine has no GPU, and 8 virtual ones'
    assert_output --partial 'hint: kvctl --gpus 9 …'
    on_gpus -c 'a = ones(2)@gpu(6)'
    assert_failure 4
    assert_output --partial 'error[unsupported]: there is no gpu(6): the last one here is gpu(3)'
    assert_output --partial 'hint: virtual GPUs (kvctl --gpus 7, kv_set_virtual_gpus) run on any machine'
    on_gpus --gpus 0 -c 'a = ones(2)@gpu(3); print a@cpu'
    assert_success
    assert_output '[1. 1.]'
}

@test "gpus: copies between those that do not reach each other" {
    FAKE_GPU_ISLANDS='02 13' on_gpus <<'END'
create device
init 1 ones(3)
push 1 [ones(3)@gpu(i) for i in 0..3]
pull 1 --ctx gpu(0..3) -> a
print a[1]@cpu, a[3]@cpu
END
    assert_success
    assert_output '[4. 4. 4.] [4. 4. 4.]'
}

@test "gpus: memory that a push lacks is found before anything has changed" {
    FAKE_GPU_MB=1 on_gpus -k <<'END'
create device
init 1,2 [zeros(3), zeros(60000)]
a = ones(60000)@gpu(0)
b = ones(60000)@gpu(1)
push 2 a
push 1,2 [ones(3), [a, b, b]]
pull 1 -> x
pull 2 -> y
print sum(x), sum(y)
push 2 b
pull 2 -> y
print sum(y * 2)
END
    assert_failure 3
    assert_output '<stdin>:6:6: error[memory]: gpu(0) has no 240000 bytes of memory: out of memory
    6 : push 1,2 [ones(3), [a, b, b]]
      :      ^^^
0.0 60000.0
120000.0'
}

# A push that is told to fail, and what it leaves.
fails()
{
    FAKE_GPUS=2 FAKE_GPU_FAIL=$1 on_gpus -k <<'END'
create device
init 1,2 [zeros(5), zeros(6)]
push 1,2 [[ones(5)@gpu(0), ones(5)@gpu(1)], ones(6)@gpu(1) * 3]
push 1,2 [[ones(5)@gpu(0), ones(5)@gpu(1)], ones(6)@gpu(1) * 3]
pull 1,2
END
    [ "$status" -ne 0 ] || fail "no call has failed"
    assert_line --partial "$2"
    refute_line --partial '<stdin>:4:'
    refute_line --partial '<stdin>:5:'
    assert_line '[2. 2. 2. 2. 2.]'
    assert_line '[3. 3. 3. 3. 3. 3.]'
}

@test "gpus: a call of the driver that fails is an error of its push, and the next one works" {
    fails launch:1 'error[io]: gpu(0) cannot run a kernel: too many resources requested for launch'
    fails launch:2 'error[io]: gpu(1) cannot run a kernel: too many resources requested for launch'
    fails load:1 'error[io]: gpu(0) cannot load a kernel: out of memory'
    fails pin:7 'error[io]: gpu(1) cannot be opened: it cannot pin memory: out of memory'
    fails stream:4 'error[io]: gpu(1) cannot be opened: it cannot make a stream: invalid device context'
    fails alloc:7 'error[memory]: gpu(1) cannot be opened: it has no 65536 bytes of memory: out of memory'
    fails copy:1 'error[io]: gpu(0) cannot copy: unknown error'
    fails copy:5 'error[io]: gpu(0) cannot copy: unknown error'
    fails copy:6 'error[io]: gpu(1) cannot copy: unknown error'
    fails wait:12 'error[io]: gpu(0) cannot wait for another GPU: unknown error'
    fails record:13 'error[io]: gpu(0) cannot run a kernel: unknown error'
}

@test "gpus: what a GPU did not write is not read, and a rollback brings it back" {
    cat >fails.kv <<'END'
create device
init 1 ones(4)
set-updater { stored += input }
push 1 ones(4)@gpu(0)
pull 1 -> a
begin
push 1 ones(4)@gpu(0)
pull 1 -> b
rollback
pull 1 -> b
print b
set-updater assign
push 1 ones(4)@gpu(0) * 7
pull 1
END
    FAKE_GPU_FAIL=launch:2 on_gpus -k fails.kv
    assert_failure 5
    assert_output 'fails.kv:7:6: error[io]: gpu(0) cannot run a kernel: too many resources requested for launch
    7 : push 1 ones(4)@gpu(0)
      :      ^
fails.kv:8:6: error[io]: key 1 lost its value when a GPU failed in an earlier call
    8 : pull 1 -> b
      :      ^
 hint: a rollback or a stored file brings it back, as does a push without updater
[2. 2. 2. 2.]
[7. 7. 7. 7.]'
    FAKE_GPU_FAIL=launch:1 on_gpus -k fails.kv
    assert_failure 5
    assert_line --index 0 'fails.kv:4:6: error[io]: gpu(0) cannot run a kernel: too many resources requested for launch'
    for line in 5 7 8 10; do
        assert_line --regexp "^fails.kv:$line:6: error\[io\]: key 1 lost its value when a GPU failed in an earlier call$"
    done
    assert_line '[7. 7. 7. 7.]'
}

@test "gpus: a value in host memory is copied to the GPU of its key, which stays there" {
    FAKE_GPU_LOG=$BATS_TEST_TMPDIR/log on_gpus <<'END'
create device
init 1 zeros(1000)
set-optimizer adam
push 1 ones(1000)@gpu(0)
push 1 ones(1000)
push 1 [ones(1000)@gpu(0), ones(1000)]
END
    assert_success
    run grep -E '^(out|kv_rule) ' log
    assert_output 'out 0
kv_rule 3'
}

@test "gpus: the text of a rule names the options that it is compiled with, and with them its file" {
    mkdir "$BATS_TEST_TMPDIR/texts"
    export FAKE_GPU_TEXTS=$BATS_TEST_TMPDIR/texts XDG_CACHE_HOME=$BATS_TEST_TMPDIR
    on_gpus -c 'create device; init 1 zeros(3); set-optimizer sgd; push 1 [ones(3)@gpu(0), ones(3)@gpu(1)]; wait'
    assert_success
    run head -n 1 "$FAKE_GPU_TEXTS/0.cc"
    assert_output '// "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false", "--std=c++17"'
    # another process keeps its own beside it
    on_gpus -c 'create device; init 1 zeros(3); set-updater { stored -= input }; push 1 [ones(3)@gpu(0), ones(3)@gpu(1)]; wait'
    [ "$(echo "$FAKE_GPU_TEXTS"/*.cc)" = "$FAKE_GPU_TEXTS/0.cc $FAKE_GPU_TEXTS/1.cc" ]
}
