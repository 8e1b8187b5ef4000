# Everything in examples/, README.md and tests/tutorial.md that runs, runs here.

load ../cli/help

in_examples()
{
    cp -R "$top/examples" .
    cd examples || return 1
}

@test "examples: train.kv reaches the loss of least squares" {
    in_examples
    gives "loss 5.3803" kvctl -q train.kv
}

@test "examples: embedding.kv learns ratings that nobody gave" {
    in_examples
    matches '^unrated pairs: mean square 0\.00[0-9]+$' kvctl -q embedding.kv
}

@test "examples: aggregate.sh sums four workers' gradients" {
    in_examples
    gives "$(cat aggregate.out)" sh aggregate.sh
    mentions -1 'which files?' kvctl aggregate.kv
}

@test "examples: check.sh agrees with NIST, and fails readably with a mistyped measurement" {
    in_examples
    gives -1 "$(cat check.out)" sh check.sh
}

@test "examples: the tour prints what it promises" {
    in_examples
    run -0 kvctl --verify tour.md
}

@test "examples: the demo shows the tour" {
    says "Every result above is the one that the page promises." "$top/scripts/demo" "$build/kvctl" "$top/examples/tour.md"
}

@test "the tutorial prints what it promises" {
    run -0 kvctl --verify "$top/tests/tutorial.md"
}

@test "the pages on rules, checkpoints and the language print what they promise, and help shows them" {
    for topic in rules checkpoints language; do
        run -0 kvctl --verify "$top/cli/$topic.md"
        kvctl -c "help $topic" >page
        cmp page "$top/cli/$topic.md"
    done
    [ "$(wc -l <page)" -le 350 ]
}

@test "--verify fails when a page promises something else" {
    printf '```kv\nkv> print 1 + 1\n3\n```\n' >wrong.md
    mentions -1 "wrong.md:2: the output differs" kvctl --verify wrong.md
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
    kvctl -c "help $1" | sed -n '1,/^  [^ ]/d; /^See also/q; s/^    //p'
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
    run -0 timeout 60 kvctl launch -n 2 s.kv
}

@test "README: every block can be pasted as it stands" {
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    [ -e "$build/python" ] && /usr/bin/python3 -c 'import numpy' || skip "built without Python, or there is no NumPy"
    make_here examples
    BUILD=$build run -0 timeout 300 "$top/scripts/readme-check"
    assert_output --regexp '^README: [1-9][0-9]+ lines for the shell and [1-9][0-9]+ entries ran as the page says$'
    BUILD=$build run -0 timeout 300 "$top/scripts/readme-check" "$top/cli/launch/jobs.md"
}

@test "README: it is short, and its picture is what the session prints" {
    [ "$(wc -w <"$top/README.md")" -le 1900 ]
    BUILD=$build run -0 "$top/scripts/picture" "$top/examples/session.kv"
    assert_equal "$output" "$(cat "$top/examples/session.svg")"
}

@test "help lecture is a page that can be typed: its sessions print what it says, its jobs end as it says" {
    run -0 kvctl --verify "$top/cli/lecture.md"
    grep -q loss losses.txt
    run -0 kvctl help lecture
    cmp <(echo "$output") "$top/cli/lecture.md"
    [ -e "$build/kvstore_mpi.so" ] || skip "built without MPI"
    awk '$0 == "```sh" { on = 1; next } /^```/ { on = 0 } on' "$top/cli/lecture.md" >jobs.sh
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 says '[0] [10. 10.]' timeout 120 bash -e jobs.sh
    assert_line --regexp '^kvctl: restart 1 of 2 '
    assert_line '[0] [80. 80.]'
    assert_line '[80. 80.]'
    [ -e crashed ]
}

# Where readme-check lets a row answer no, a value that an earlier row changed would go unseen.
@test "examples: the rows of README.md up to the diff with a tolerance end as the page means" {
    in_examples
    kvctl -q -s a.safetensors -c 'push w,b [ones(2,3), full(3, 0.5)]'
    sed -n 's/^|.*| `\(kvctl .*\)` |$/\1/p; /--rtol/q' "$top/README.md" >rows
    grep -q -- --rtol rows
    run -0 bash -ec ". ./rows"
}

@test "readme-check: a block that fails makes it fail" {
    printf '```sh\ntrue\nfalse\n```\n' >page.md
    BUILD=$build mentions -1 "this is how far the blocks for the shell came" "$top/scripts/readme-check" page.md
    printf '```kv\nkv> print 1\n2\n```\n' >page.md
    BUILD=$build run -1 "$top/scripts/readme-check" page.md
    printf '| a | b | `kvctl -c 1` |\n| a | b | `kvctl -c x` |\n' >page.md
    BUILD=$build mentions -1 "a row of a table failed: kvctl -c x" "$top/scripts/readme-check" page.md
}

@test "examples: optimizers.kv compares four of them and draws the picture of their losses" {
    in_examples
    rm losses.svg
    command -v gnuplot >/dev/null || skip "no gnuplot"
    gives "after 40 steps: sgd 0.062, momentum 0.038, rmsprop 0.038, adam 0.058" kvctl -f optimizers.kv
    grep -q '</svg>' losses.svg
}
