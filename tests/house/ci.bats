# .ci/run: what it runs where, and its last lines, with commands of our own in the place of the long ones.

load ../cli/help

# A checkout in which scripts/bare has this body, on a machine with nvcc and a make of 30 tests.
checkout()
{
    mkdir -p .ci scripts
    cp "$top/.ci/run" .ci/
    printf '#!/bin/sh\n' >scripts/setup
    printf '#!/bin/sh\n%s\n' "$1" >scripts/bare
    chmod +x scripts/*
    fake nvcc ''
    fake make 'echo "make $*"; case $* in *test*) echo "30 passed, 0 failed";; fuzz*) echo "5 passed, 0 failed";; esac'
}

# The seconds of a step are those that it took.
last_lines()
{
    tail -n "$1" <<<"$output" | sed 's/, [0-9]* s$//'
}

@test "ci: both commands on a bare machine, and what that lacks here" {
    checkout '[ "$1" != --suite ] || shift 2; exec "$@"'
    run -0 .ci/run </dev/null
    assert_equal "$(last_lines 7)" "on a bare machine: scripts/bare make demo test: exit status 0
on a bare machine: scripts/bare --suite trixie make SUITES=jobs test demo: exit status 0
here: make SUITES=toolkit test: exit status 0
here: make fuzz T=10 SEED=1: exit status 0
here: make sim N=10000: exit status 0
here: make truth ONLY=gpus: exit status 0
97 passed, 0 failed"
}

@test "ci: without a bare machine make test runs here, and the reason is said" {
    checkout 'echo "bare: debootstrap failed" >&2; exit 125'
    run -0 .ci/run </dev/null
    assert_equal "$(last_lines 6)" "no bare machine: bare: debootstrap failed
here: make test: exit status 0
here: make fuzz T=10 SEED=1: exit status 0
here: make sim N=10000: exit status 0
here: make truth ONLY=gpus: exit status 0
37 passed, 0 failed"
    printf '#!/bin/sh\necho "setup: apt-get failed"; exit 100\n' >scripts/setup
    run -0 .ci/run </dev/null
    assert_equal "$(last_lines 6 | head -n 1)" "no bare machine: setup: apt-get failed"
}

@test "ci: a demo, a test or a build that fails is a failure" {
    checkout 'case $* in *test*) echo "9 passed, 3 failed"; exit 2;; esac'
    run -1 .ci/run </dev/null
    assert_equal "$(tail -n 1 <<<"$output")" "55 passed, 6 failed"
    checkout 'case $* in *test*) echo "compiling"; exit 2;; esac'
    run -1 .ci/run </dev/null
    assert_equal "$(tail -n 1 <<<"$output")" "37 passed, 2 failed"
    # a demo, before the tests or behind them
    checkout 'case $* in *test*) echo "9 passed, 0 failed"; echo "no demo"; exit 2;; esac'
    says -1 "no demo" .ci/run </dev/null
    assert_equal "$(tail -n 1 <<<"$output")" "55 passed, 2 failed"
}
