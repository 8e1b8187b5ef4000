# `make bench`: that every line of its table can be measured, not what the figures are.

load ../cli/help

@test "bench: the table, from small inputs" {
    make -s -C "$top" BUILD="$build" OPT="$(sed 's/^[^ ]* //; s/ *readline=.*//' "$build/flags")" \
        "$build/bench/pairs" "$build/bench/peer"
    BUILD=$build run "$top/scripts/bench" --smoke
    assert_success
    refute_output --partial "failed"
    assert_equal "$(grep -cE '\| (met|missed|-) +\|$' <<<"$output")" 12
    assert_line --regexp '^[0-9]+ met, [0-9]+ missed, [0-9]+ not measured$'
}

@test "bench: a command that fails ends it" {
    make -s -C "$top" BUILD="$build" OPT="$(sed 's/^[^ ]* //; s/ *readline=.*//' "$build/flags")" \
        "$build/bench/pairs"
    run "$build/bench/pairs" 2 false --- true
    assert_failure 1
    assert_output "pairs: false failed"
    run "$build/bench/pairs" 3 sleep 0.02 --- sleep 0.01
    assert_success
    awk '{ exit !(NF == 6 && $1 > 1 && $2 >= 20 && $3 >= 10 && $4 > 0 && $5 > 0) }' <<<"$output"
}
