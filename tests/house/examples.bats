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

# The names of all commands.
commands()
{
    kvctl -c 'help --json' | sed 's/"functions":.*//' |
        grep -o '"name":"[a-z-]*","usage"' | cut -d'"' -f4
}

# The examples of a command, in the session that cli/syntax/command.c says they run in.
examples_of()
{
    echo 'init 3 zeros(2,3); init 5,7,9 [zeros(2,3)]*3; a = ones(2,3)'
    kvctl -c "help $1" | sed -n 's/^    //p'
}

@test "help: every example runs" {
    local name n=0
    for name in $(commands); do
        mkdir "$name"
        examples_of "$name" | grep -v '# dist_\|dist_async\|# of several machines' >"$name/s.kv"
        (cd "$name" && timeout 60 kvctl -q --gpus 8 s.kv </dev/null >out 2>&1) || {
            cat "$name/out"
            fail "the examples of help $name do not run"
        }
        n=$((n + 1))
    done
    [ $n -gt 40 ]
}

@test "help: the examples for several machines run in a job" {
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    local name
    for name in $(commands); do
        examples_of "$name" | grep '# dist_\|dist_async\|# of several machines' || continue
    done >lines
    [ "$(wc -l <lines)" -ge 4 ]
    sed 's/^/create dist_sync; a = ones(2,3); init 3 zeros(2,3); /' lines >s.kv
    run timeout 60 kvctl launch -n 2 s.kv
    assert_success
}

# The lines of the README's n-th block for the shell.
readme_block()
{
    awk -v n="$1" '/^```sh$/ { on = ++block == n; next } /^```/ { on = 0 } on' "$top/README.md"
}

# Runs each line of stdin by itself; there are so many.
run_lines()
{
    local line n=0
    while read -r line; do
        timeout 60 bash -c "$line" </dev/null >out 2>&1 || {
            cat out
            fail "README: $line"
        }
        n=$((n + 1))
    done
    assert_equal "$n" "$1"
}

@test "README: the lines for the shell run" {
    in_examples
    printf '1,2\n' | tee grad-1.csv grad-2.csv new.csv >old.csv
    readme_block 1 | run_lines 7
}

@test "README: the lines for several machines run" {
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1
    in_examples
    echo localhost >hosts
    # launchers.bats and tests/dist run jobs on several hosts; here it says how one would begin
    readme_block 2 | sed 's/-H hosts/& --dry-run/' | run_lines 6
    readme_block 3 | run_lines 1
}
