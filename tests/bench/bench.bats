# The benchmark as its user meets it: options, rows, exit codes. What it measures means nothing here;
# the sizes are those of --quick.

load ../cli/help
@test "bench: a table with a row for each operation and number of values" {
    run -0 --separate-stderr kvbench bench W1 --quick --runs 2 --op push,pull,adam --values 2,4
    [ "${#lines[@]}" -eq 7 ]
    assert_regex "${lines[0]}" '^workload op +values data +min ms +median +p95 +GB/s +limit +fraction$'
    assert_regex "${lines[1]}" '^W1 +push +2 float32 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ [ps] +[0-9.]+$'
    assert_regex "${lines[6]}" '^W1 +adam +4 float32 '
}

@test "bench: without words the arrays of ResNet-50" {
    run -0 --separate-stderr kvbench bench --quick --runs 1
    [ "${#lines[@]}" -eq 19 ]
    assert_regex "${lines[1]}" '^W1 +push +1 '
    assert_regex "${lines[18]}" '^W1 +push\+adam\+pull +2 '
}

@test "bench: all workloads run and compute what they should" {
    run -0 --separate-stderr kvbench bench all --quick --runs 1
    for name in W1 W2 W3 W4 W5 W7 W8; do
        assert_output --partial "$name "
    done
    for data in float32 float16 bfloat16 2bit 1bit; do
        assert_output --partial " $data "
    done
}

@test "bench: every optimizer of the library is an operation" {
    run -0 --separate-stderr kvbench bench W4 --size 3 --quick --runs 1 --op optimizers --format csv
    kvctl -c 'help optimizer' >list
    for name in $(sed -n 's/^  \([a-z]*\) .*/\1/p' list); do
        grep -q "^W4,$name,1," <<<"$output" || fail "$name is not measured"
    done
}

@test "bench: an optimizer with random numbers runs on halves" {
    run -0 --separate-stderr kvbench bench W7 --quick --runs 1 --op sgld --format csv
    [ "${#lines[@]}" -eq 3 ]
}

@test "bench: --json gives the samples, the limit and what was checked" {
    run -0 --separate-stderr kvbench --json bench W1 --quick --runs 3 --op push --values 2
    [ "${#lines[@]}" -eq 1 ]
    assert_regex "$output" '"cmd":"bench","ok":true,.*"about":\{"runs":3,"threads":[0-9]+,"limit_drift":[-0-9.e]+\}'
    assert_regex "$output" '"rows":\[\{"workload":"W1","op":"push","values":2,"data":"float32","arrays":161,'
    assert_regex "$output" '"checked":[1-9][0-9]*,"samples_us":\[[0-9.]+,[0-9.]+,[0-9.]+\],"limit_samples_us":\['
}

@test "bench: the arrays of the workloads are those of the networks" {
    sizes()
    {
        kvbench --json bench "$@" --op pull --values 1 --runs 1 |
            grep -o '"arrays":[0-9]*,"elements":[0-9]*,"bytes":[0-9]*'
    }
    assert_equal "$(sizes W1)" '"arrays":161,"elements":25557032,"bytes":204456256'
    assert_equal "$(sizes W2)" '"arrays":205,"elements":64497832,"bytes":515982656'
    assert_equal "$(sizes W3 --quick | cut -d, -f1)" '"arrays":32'
    assert_equal "$(sizes W4 --size 7)" '"arrays":7,"elements":112,"bytes":896'
}

@test "bench: CSV, in a file too" {
    run -0 --separate-stderr kvbench bench W5 --size 1000 --op push --runs 1 --format csv
    assert_equal "${lines[0]}" "workload,op,values,data,arrays,elements,bytes,min_us,median_us,p95_us,gb_s,limit,limit_us,limit_gb_s,fraction"
    assert_regex "${lines[1]}" '^W5,push,2,float32,1,1000,12000,'
    kvbench -c 'bench W5 --size 1000 --op push --runs 1 --format csv > rows.txt'
    assert_regex "$(tail -n 1 rows.txt)" '^W5,push,2,float32,1,1000,12000,'
}

@test "bench: behind the word --format is its own, and takes what it can show" {
    run -0 --separate-stderr kvbench bench w5 --size 1000 --op push --runs 1 --format table
    assert_regex "${lines[1]}" '^W5 +push '
    run -2 kvbench bench W5 --size 1000 --op push --runs 1 --format=json
    assert_output --partial 'error[usage]: bench knows the formats table and csv, not "json"'
    run --separate-stderr kvbench --format csv bench W5 --size 1000 --op push --runs 1
    assert_regex "${lines[1]}" '^W5,push,'
}

@test "bench: below --min-fraction it exits 1, with every row shown" {
    run -1 --separate-stderr kvbench bench W1 --quick --runs 1 --op push,pull --values 1 --min-fraction 1000
    [ "${#lines[@]}" -eq 3 ]
    assert_regex "$stderr" 'error\[assert\]: 2 of 2 rows are below 1000 of the limit; the least is [0-9.]+, W1 pu(sh|ll) of 1 \(float32\)'
    run -1 --separate-stderr kvbench --json bench W1 --quick --runs 1 --op push --values 1 --min-fraction 1000
    assert_regex "$output" '"ok":false.*"rows":\[\{.*"error":\{"code":"assert","exit":1'
    run -0 kvbench bench W1 --quick --runs 1 --op push --values 1 --min-fraction 0.0001
}

# The plugin of GPUs over a driver of host memory.
on_gpus()
{
    [ -e "$build/device/kvstore_cuda.so" ] || skip "the plugin over host memory is not built"
    export KVSTORE_PLUGINS=$build/device FAKE_GPUS=4 FAKE_GPU_MB=512 FAKE_GPU_OPEN=1
}

@test "bench: on a GPU, beside copies within it, all data computes what it should" {
    on_gpus
    run -0 --separate-stderr kvbench bench W1 W4 W7 W8 --quick --runs 1 --op push,pull --values 1,2 --ctx 'gpu(0)'
    assert_equal "${lines[0]}" "values on gpu(0) (no GPU, but host memory), keys on gpu(0); limit: c copies of as many bytes"
    assert_regex "${lines[2]}" '^W1 +push +1 float32 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ c +[0-9.]+$'
    [ "${#lines[@]}" -eq 26 ]
    for data in float16 bfloat16 2bit 1bit; do
        assert_output --partial " $data "
    done
}

@test "bench: on a GPU rules run there, and what they make is compared" {
    on_gpus
    run -0 --separate-stderr kvbench bench W5 --size 10007 --runs 2 --op sgd,momentum,adam,push+adam+pull,lamb --ctx gpu
    [ "${#lines[@]}" -eq 7 ]
}

@test "bench: on several GPUs each has some of the values" {
    on_gpus
    run -0 --separate-stderr kvbench bench W1 --quick --runs 2 --op push,pull,pushpull --values 3 --ctx='gpu(1..2)'
    assert_equal "${lines[0]}" "values on gpu(1), gpu(2) (no GPU, but host memory), keys on gpu(1); limit: c copies of as many bytes"
    [ "${#lines[@]}" -eq 5 ]
    run -0 --separate-stderr kvbench --json bench W5 --size 100 --runs 1 --op push --ctx 'gpu(1..2)'
    assert_output --partial '"about":{"ctx":["gpu(1)","gpu(2)"],"device":"no GPU, but host memory","type":"device","runs":1,'
    assert_output --partial '"limit":"copy"'
}

@test "bench: keys that stay on the CPU are measured beside transfers" {
    on_gpus
    run -0 --separate-stderr kvbench bench W1 --quick --runs 2 --type local --op push,pull,pushpull,push+adam+pull --values 1 --ctx 'gpu(0)'
    assert_equal "${lines[0]}" "values on gpu(0) (no GPU, but host memory), keys on cpu(0); limit: t transfers, the host's memory pinned"
    assert_regex "${lines[5]}" '^W1 +push\+adam\+pull .* t +[0-9.]+$'
    run --separate-stderr kvbench bench W5 --size 100 --runs 1 --op push --type local --ctx 'gpu(0)' --format csv
    assert_regex "${lines[1]}" '^W5,push,2,.*,transfer,'
}

@test "bench: what a GPU does not hold is refused" {
    on_gpus
    run -3 kvbench bench W5 --ctx 'gpu(0)' --size 30000000 --runs 1 --op push
    assert_output --regexp 'error\[memory\]: W5 \(one array\) needs [0-9]+ MB, and gpu\(0\) has 512 MB to give'
    run -4 kvbench bench W5 --ctx 'gpu(4)' --size 100 --runs 1 --op push
    assert_output --partial 'error[unsupported]: there is no gpu(4): the last one here is gpu(3)'
}

@test "bench: virtual GPUs only when --gpus asks for them, and the output says what they are" {
    mentions -4 'error[unsupported]: there is no gpu(0): ' kvbench bench --quick --ctx 'gpu(0)'
    assert_output --partial 'hint: --gpus 1 makes virtual ones, which are host memory'
    run -0 --separate-stderr kvbench bench W1 --quick --runs 1 --op push,pull --values 2 --gpus 2 --ctx 'gpu(0..1)'
    assert_equal "$stderr" "note: gpu(0) to gpu(1) are virtual, in the memory of the CPU"
    assert_equal "${lines[0]}" "values on gpu(0), gpu(1) (virtual: host memory), keys on gpu(0); limit: loops in host memory"
    assert_regex "${lines[2]}" '^W1 +push +2 .* [ps] +[0-9.]+$'
    run --separate-stderr kvbench --json --gpus 1 bench W5 --size 100 --runs 1 --op push --ctx gpu
    assert_output --partial '"about":{"ctx":["gpu(0)"],"device":"virtual","type":"device",'
    run -4 kvbench bench --quick --gpus 2 --ctx 'gpu(0..2)'
    assert_output --partial 'error[unsupported]: there is no gpu(2): the virtual GPUs end at gpu(1)'
}

@test "bench: --gpus measures virtual ones where there are GPUs, too" {
    on_gpus
    run -0 --separate-stderr kvbench bench W1 --quick --runs 1 --op push --gpus 2 --ctx 'gpu(0..1)'
    assert_equal "${lines[0]}" "values on gpu(0), gpu(1) (virtual: host memory), keys on gpu(0); limit: loops in host memory"
}

@test "bench: devices that are none" {
    run -2 kvbench -c 'bench --quick --ctx [cpu(0), gpu(0)]' --gpus 1
    assert_output --partial 'error[usage]: the values of a benchmark lie on cpus or on gpus, not on both'
    mentions -3 'error[value]: a benchmark takes 1 to 8 devices, not 9' kvbench bench --quick --ctx 'cpu(0..8)'
    mentions -3 'error[dtype]: a device such as gpu(1) is needed here, not an integer' kvbench bench --quick --ctx 3
    mentions -2 'error[usage]: bench knows the types device and local, not "horovod"' kvbench bench --quick --type horovod
    run ! kvbench bench --quick --ctx 'gpu(0); !echo no'
    refute_line no
    run -0 --separate-stderr kvbench bench W1 --quick --runs 1 --op push --values 1 --ctx 'cpu(0..1)' --type device
    assert_equal "${lines[0]}" "values on cpu(0), cpu(1), keys on cpu(0); limit: loops in host memory"
}

@test "bench: words that are none" {
    mentions -2 'error[usage]: there is no workload `W9`' kvbench bench W9
    assert_output --partial 'hint: W1 to W5, W7, W8, or all'
    mentions -2 'error[usage]: there is no operation `psuh`' kvbench bench --op psuh
    assert_output --partial 'hint: did you mean push?'
    run -2 kvbench bench --op push+adm+pull
    run kvbench bench all all all all all
    assert_line --index 0 '<cmd>:1:23: error[usage]: a benchmark takes at most 32 workloads'
    run kvbench bench --op optimizers,optimizers,optimizers,optimizers
    assert_line --index 0 '<cmd>:1:12: error[usage]: a benchmark takes at most 48 operations'
    run kvbench bench --values 1,1,1,1,1,1,1,1,1
    assert_line --index 0 '<cmd>:1:16: error[usage]: a benchmark takes at most 8 counts of values'
    mentions -3 'error[value]: a key gets 1 to 8 values, not 9' kvbench bench --values 1,9
    mentions -3 'error[value]: the runs lie in 1 .. 1000, 0 does not' kvbench bench --runs 0
    run -2 kvbench bench --format xml
    mentions -2 'error[usage]: `bench` has no option --nope' kvbench bench W1 --nope 3
}

@test "bench: what does not go together" {
    mentions -2 'error[usage]: none of the workloads has a --size' kvbench bench W1 --size 100
}

@test "bench: a workload that the memory does not hold is refused before anything runs" {
    run -3 --separate-stderr kvbench bench W4 W5 --size 1000000000000
    assert_output ""
    assert_regex "$stderr" 'error\[memory\]: W[45] \(.*\) needs [0-9]+ MB, and this machine has [0-9]+ MB to give'
}

# A copy of one array would be seen: each is 96 MB.
@test "bench: what a script pushes and pulls is not copied on the way" {
    if grep -qE '__(a|t|ub)san_' "$build/kvctl"; then
        skip "memory is not counted with a sanitizer"
    fi
    run -0 kvctl -c 'n = 25165824; a = ones(n); b = ones(n); c = ones(n); d = ones(n); init 3 a
        repeat 5 { push 3 [a, b, c, d] }
        repeat 5 { pull 3 --out a }
        v = [c, d]; c = 0; d = 0
        repeat 5 { pushpull 3 v }
        repeat 5 { pushpull 3 [a, b] --out v }
        wait
        !grep VmHWM /proc/$PPID/status | tr -dc 0-9'
    # four values, the store and 64 MB
    assert [ "$output" -lt $((5 * 96 * 1024 + 64 * 1024)) ]
}

@test "bench: a word of the subcommand is no command of the language" {
    mentions -2 'there is no workload `W1; !echo no`' kvbench bench 'W1; !echo no'
    mentions 'bench [WORKLOAD...] [--op LIST]' kvbench bench --help
    echo 'print "a file"' >bench
    run kvbench ./bench
    assert_output "a file"
}

# The links of a job; what they measure is only checked for its sign and order.
in_job()
{
    needs_mpi
    run --separate-stderr timeout 60 kvbench launch "$@"
}

@test "bench --link: L, o and G of the link to each rank that serves" {
    in_job -n 1 -s 2 -c 'bench --link --runs 3 --quick'
    assert_success
    [ "${#lines[@]}" -eq 3 ]
    assert_regex "${lines[0]}" '^\[0\] rank +host +link +L ns +o ns +G ns/byte +pull ns +of many ns +push ns +switch ns +wake ns +post ns$'
    for rank in 1 2; do
        assert_regex "${lines[$rank]}" "^\[0\] $rank +[^ ]+ +memory +[0-9.]+ "
    done
}

@test "bench --link: the keys of --json, and numbers that fit each other" {
    in_job -n 2 -c 'bench --link --runs 5 --format csv'
    assert_success
    assert_equal "${lines[0]}" '[0] rank,host,link,latency_ns,overhead_ns,gap_ns,alone_ns,one_ns,push_ns,switch_ns,wake_ns,post_ns'
    awk -F, 'NR == 2 { ok = $4 > 0 && $5 > 0 && $6 > 0 && $5 < $7 && $4 < $7
                       d = $7 / 2 - 2 * $5 - $4; exit !(ok && d < 1 && d > -1) }' <<<"$output"
    awk -F, 'NR == 2 { exit !($9 > 0 && $10 > 0 && $11 >= 0 && $12 >= 0) }' <<<"$output"
    in_job -n 1 -s 1 --json -c 'bench --link --runs 2 --quick'
    assert_success
    for name in rank host link latency_ns overhead_ns gap_ns alone_ns one_ns push_ns switch_ns wake_ns post_ns; do
        assert_output --partial "\"$name\":"
    done
    assert_output --partial '"links":[{"rank":1,'
}

@test "bench --link: where ranks share no memory, messages" {
    KVSTORE_SHARED_MEMORY=0 in_job -n 2 -c 'bench --link --runs 2 --quick'
    assert_success
    assert_regex "${lines[1]}" '^\[0\] 1 +[^ ]+ +messages '
}

@test "bench --link: without a job, without another rank that serves, with options of workloads" {
    mentions -4 'error[unsupported]: bench --link measures in a job of several ranks' kvbench bench --link
    assert_output --partial "hint: kvbench launch -n 1 -s 1 -c 'bench --link'"
    in_job -n 1 -c 'bench --link'
    assert_failure 4
    assert_regex "$stderr" 'there is no link to measure: no other rank of the job serves'
    mentions -2 'error[usage]: --link measures links, without --op' kvbench bench --link --op push
    mentions -2 'error[usage]: --link measures links, and no workload' kvbench bench W1 --link
}
