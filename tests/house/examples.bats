# Everything in examples/, README.md and tests/tutorial.md that runs, runs here.

load ../cli/help

in_examples()
{
    cp -R "$top/examples" .
    cd examples || return 1
}

@test "examples: train.kv reaches the loss of least squares" {
    in_examples
    run kvctl -q train.kv
    assert_success
    assert_output "loss 5.3803"
}

@test "examples: aggregate.sh sums four workers' gradients" {
    in_examples
    run sh aggregate.sh
    assert_success
    assert_output "$(cat aggregate.out)"
}

@test "examples: check.sh agrees with NIST, and fails readably with a mistyped measurement" {
    in_examples
    run sh check.sh
    assert_failure 1
    assert_output "$(cat check.out)"
}

@test "examples: the tour prints what it promises" {
    in_examples
    run kvctl --verify tour.md
    assert_success
}

@test "examples: the demo shows the tour" {
    run "$top/scripts/demo" "$build/kvctl" "$top/examples/tour.md"
    assert_success
    assert_line "Every result above is the one that the page promises."
}

@test "the tutorial prints what it promises" {
    run kvctl --verify "$top/tests/tutorial.md"
    assert_success
}

@test "the page on rules prints what it promises, and help rules is that page" {
    run kvctl --verify "$top/cli/rules.md"
    assert_success
    kvctl -c 'help rules' >page
    cmp page "$top/cli/rules.md"
}

@test "--verify fails when a page promises something else" {
    printf '```kv\nkv> print 1 + 1\n3\n```\n' >wrong.md
    run kvctl --verify wrong.md
    assert_failure 1
    assert_output --partial "wrong.md:2: the output differs"
}

@test "README: the session in it prints what it promises" {
    cp -R "$top/examples" "$top/README.md" .
    run kvctl --verify README.md
    assert_success
}
