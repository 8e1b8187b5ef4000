# `make bench`: that every line of its table can be measured, not what the figures are.

load ../cli/help

@test "bench: the table, from small inputs" {
    make_here "$build/kvbench" "$build/bench/pairs" "$build/bench/peer"
    BUILD=$build run -0 "$top/scripts/bench" --smoke
    refute_output --partial "failed"
    assert_equal "$(grep -cE '\| (met|missed|-) +\|$' <<<"$output")" 12
    assert_line --regexp '^[0-9]+ met, [0-9]+ missed, [0-9]+ not measured$'
}

@test "bench: a command that fails ends it" {
    make_here "$build/bench/pairs"
    gives -1 "pairs: false failed" "$build/bench/pairs" 2 false --- true
    # The one is longer by half a second, because a busy machine may hold up the other for 10 ms.
    run -0 "$build/bench/pairs" 3 sleep 0.52 --- sleep 0.02
    awk '{ exit !(NF == 6 && $1 > 1 && $2 >= 520 && $3 >= 20 && $4 > 0 && $5 > 0) }' <<<"$output" ||
        fail "$output"
}

@test "bench-rows: calls of a store whose rows are what they should be" {
    make_here "$build/bench_rows"
    run -0 "$build/bench_rows" 40000 10 2 1 16
    for width in 1 16; do
        for what in "push of 1" "push of 2" "sgd of 1" "adam of 1" "pull of 1" "pull of 2"; do
            assert_line --regexp "^$what, +$width floats, ascending +[0-9.]+ +[0-9.]+ +[0-9.]+\$"
        done
        assert_line --regexp "^pull of 1, +$width floats, any order +[0-9.]+ +[0-9.]+ +[0-9.]+\$"
    done
}

@test "bench-growth: a row for each job, and curves" {
    [ -e "$build/kvstore_mpi.so" ] && command -v mpirun >/dev/null || skip "built without MPI"
    make_here "$build/growth_mpi"
    BUILD=$build run -0 "$top/tests/bench/growth" --quick "$PWD/growth"
    run cut -d, -f1-5 growth/growth.csv
    for row in mpi,4,0,0,163840 ranks,4,0,10,163840 workers,4,2,10,163840 keys,8,0,1000,64000 bytes,1,1,1,4194304; do
        assert_line "$row"
    done
    # every field of a row is there: the last is the load
    awk -F, 'NR > 1 && !(NF == 16 && $7 >= $8 && $8 > 0 && $9 > $10 && $10 > 0 && $13 >= 1 && $16 != "") { exit 1 }' growth/growth.csv ||
        fail "$(cat growth/growth.csv)"
    [ "$(find growth -name '*.svg' | wc -l)" = 8 ] || ! command -v gnuplot
}

@test "bench-small: calls of many keys and of one, whose sums are what they should be" {
    make_here "$build/bench_small"
    run -0 "$build/bench_small" --quick
    for what in "push of 2" "pull to 2" "push of 2, arrays all over the memory" "pull to 2, arrays all over the memory"; do
        assert_line --regexp "^$what +[0-9.]+ ns a key +[0-9.]+ in the loop on (one thread|all threads) +[0-9.]+ of its speed\$"
    done
    for what in "push of one key" "pull of one key" "push of one text key" "pull of one text key"; do
        assert_line --regexp "^$what +[0-9.]+ ns a call +[0-9.]+ million a second\$"
    done
}

@test "instructions: a row for each, and a fault above a ceiling" {
    command -v valgrind >/dev/null || skip "valgrind is not installed"
    # ceilings are those of a build with optimisation, so only that there are numbers is asked here
    BUILD=$build run "$top/tests/bench/instructions" 10
    for what in "a start, kvctl -c 1" "a line of a script" "an item of for"; do
        assert_line --regexp "^ +[1-9][0-9]+  at most +[1-9][0-9]+  $what"
    done
}

@test "size: a room above its ceiling" {
    git -C "$top" rev-parse -q --verify HEAD >/dev/null || skip "this is not a checkout"
    run -0 "$top/scripts/size" 1
    CEILINGS='1 1 cli/term' run "$top/scripts/size" 1
    assert_failure 1
    assert_line --regexp '^size: cli/term has [0-9]+ lines in [0-9]+ files, and at most 1 in 1$'
}
