# explain on several machines: who waits for whom.

load ../cli/help
needs=mpi

# Runs the script of stdin as a job, and shows what worker 1 said.
worker_1()
{
    cat >s.kv
    timeout 60 kvctl launch "$@" s.kv >all 2>&1 || fail "$(cat all)"
    each_rank all | sed -n 's/^\[1\] //p'
}

@test "explain: a round of dist_sync waits for every worker" {
    run worker_1 -n 3 -s 1 <<'END'
create dist_sync
init 3 zeros(2)
explain init 4 ones(2)
explain push 3 [ones(2)*2, ones(2)]
explain pull 3
a = zeros(2)
explain pull 3 --out a --since none
explain barrier
END
    assert_output - <<'END'
init 4, following element [0] of (2,) float32:
  1. the value of worker 0 counts, and goes to the server that keeps the key
  2. workers 1 and 2 wait until it is there
nothing was changed
push 3, following element [0] of (2,) float32:
  1. 2 values come in: 2 from cpu(0), 1 from cpu(0)
  2. they are summed from left to right: 2 + 1 = 3
  3. worker 1 sends the sum to the server that keeps the key, and goes on
  4. the server waits until workers 0, 1 and 2 have pushed this round, and adds their sums by rank
  5. no updater is set, so the sum replaces what was stored
  6. a pull of worker 1 waits for the end of this round, so for workers 0 and 2
nothing was changed
pull 3:
  1. worker 1 waits for the end of the round of its last push, so for workers 0 and 2
  2. the server sends what it stores
  3. what is stored is copied to cpu(0)
nothing was changed
pull 3:
  1. worker 1 waits for the end of the round of its last push, so for workers 0 and 2
  2. the server sends the elements whose bits changed since that round if it knows them, else all
  3. what is stored is copied to cpu(0)
nothing was changed
barrier:
  1. worker 1 waits until workers 0 and 2 are here, too
nothing was changed
END
}

@test "explain: nothing is sent, and explain on changes no result" {
    run -0 worker_1 -n 2 <<'END'
create dist_sync
init 3 zeros(2)
if rank() == 0 { explain push 3 ones(2)*100 }
explain on
push 3 ones(2)
pull 3
END
    assert_line '[2. 2.]'
    assert_line '  6. a pull of worker 1 waits for the end of this round, so for worker 0'
}

@test "explain: dist_async waits for nobody, horovod for all" {
    run worker_1 -n 2 <<'END'
create dist_async
init 3 zeros(2)
explain push 3 ones(2)
explain pull 3
END
    assert_line '  3. worker 1 sends the sum to the server that keeps the key, and goes on'
    assert_line '  5. the server does so for each push as it comes, and nobody waits'
    assert_line "  1. worker 1 waits for its own pushes of the key, not for others'"
    run worker_1 -n 2 <<'END'
create dist_async --staleness 4
init 3 zeros(2)
explain push 3 ones(2)
END
    assert_line '  5. the server does so for each push as it comes, and nobody waits, but for a worker that is more than 4 pushes ahead of the slowest'
    run worker_1 -n 2 <<'END'
create horovod
broadcast 3 zeros(2) -> v
explain broadcast 4 ones(2)
explain pushpull 3 ones(2)
END
    assert_line '  1. the value of worker 0 counts, and all get it'
    assert_line '  2. worker 1 waits for it'
    assert_line '  3. workers 0 and 1 wait until each has its sum; the sums are added by rank, and all get the result'
    assert_line '  4. nothing is stored, the sum is copied to cpu(0)'
}

@test "time: a pull into a variable takes as long as a straggler" {
    run worker_1 -n 3 <<'END'
create dist_sync
init w zeros(2)
if rank() == 1 { !touch there
}
if rank() == 2 { !until [ -e there ]; do sleep 0.05; done; sleep 3
}
push w ones(2)
time { pull w -> x }
END
    [[ $output =~ ^time:\ ([5-9][0-9][0-9]\ ms|[0-9.]+\ s)$ ]] || fail "$output"
}
