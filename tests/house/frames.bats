# The way of a push: how many functions stand on the stack between kv_push and the kernel that sums.

load ../cli/help

setup_file()
{
    file_needs gdb || return 0
    gdb -batch -ex run --args true 2>&1 | grep -q 'exited normally' || skip_file "gdb may not run programs here"
}

# The number of frames from `sum_elements` in lib/cpu/sum.c to `kv_push`, both counted, functions that the
# compiler has put into others as well.
frames()
{
    gdb -batch -ex 'break main' -ex run -ex 'break sum_elements if nsrc == 2' -ex continue -ex bt \
        --args "$build/kvctl" -c "$1" 2>&1 | sed -n '/^#0 /,/ kv_push (/p' | grep -c '^#'
}

@test "frames: a push has at most 12 frames between kv_push and the kernel that sums, 8 of small arrays, 14 with a rule" {
    while read -r most script; do
        run -0 frames "$script" </dev/null
        [ "$output" -ge 5 ]
        [ "$output" -le "$most" ]
    done <<'END'
12 create; init 3 ones(20,30); push 3 [ones(20,30), ones(20,30)]
8 create; init 3 ones(2,3); push 3 [ones(2,3), ones(2,3)]
14 create; init 3 ones(2,3); set-optimizer sgd; push 3 [ones(2,3), ones(2,3)]
END
}

# The functions of src/ on the stacks of gdb's output, less the loop that drives: that of the net's thread, or of
# the thread that waits for the push.
functions()
{
    sed -n 's/^#[0-9]* *\(0x[0-9a-f]* in \)\?\([a-z_]*\) (.* at src\/.*/\2/p' | grep -vE '^(run_thread|kv_wait|drive)$'
}

@test "frames: a push on several machines passes at most 20 functions of src" {
    needs_mpi
    run -0 timeout 100 mpirun --oversubscribe --bind-to none -x KVSTORE_SERVERS=1 -x KVSTORE_DEADLINE=0 \
        -n 2 "$top/tests/house/gdb/rank" "$build/kvctl" -c 'create dist_sync; init 3 zeros(8); push 3 ones(8); wait'
    passed=$(functions <<<"$output" | sort -u)
    for name in kv_push send_push rounds_push server_add_up server_flush request_look_at_end; do
        grep -qx $name <<<"$passed"
    done
    [ "$(wc -l <<<"$passed")" -le 20 ]
}
