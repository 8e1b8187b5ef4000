# Ctrl-C, SIGTERM and --timeout end work that is one expression: each of these takes much longer when nothing ends it.
# What they may take is counted in seconds of the processor, since other tests run beside these.

load help

# gives_up SCRIPT: --timeout ends it soon, with its own error.
gives_up()
{
    run -6 timeout -k 1 100 bash -c 'ulimit -t 12; exec kvctl --timeout 0.1 -c "$1"' bash "$1"
    assert_line --index 0 --partial 'error[timeout]: gave up after 0.1 s (--timeout)'
}

# ends_by SIGNAL STATUS SCRIPT: a signal ends what has begun.
ends_by()
{
    # Background children of a script ignore SIGINT, so a shell with job control starts it.
    run bash -c "set -m; ulimit -t 12
        kvctl -c '!touch begun' -c '$3' >out 2>err &
        for _ in {1..500}; do [ ! -e begun ] || break; sleep 0.02; done
        sleep 0.3; rm begun
        kill -$1 \$!; wait \$!"
    assert_failure "$2"
    run cat err
    assert_line --index 0 --partial 'error[interrupted]: interrupted'
}

@test "interrupts: comprehensions and lists" {
    # the range itself takes hundredths of a second
    gives_up 'x = [i for i in 0..5*10**6-1]'
    gives_up '[[i for i in 0..999] for j in 0..10**6-1]'
    gives_up 'x = [[ones(3)]*1000 for i in 0..10**6-1]'
    gives_up 'x = range(10**8); print x'
    gives_up 'a = [ones(1000)]*10**6; stack(a)'
    gives_up 'a = [ones(3)]*10**7; b = a + a; c = a + b; d = b + c; e = c + d'
}

@test "interrupts: texts, and lists in lists" {
    gives_up 'x = "abc"*10**8'
    gives_up 'x = "ab"*10**7; y = x.split("b")'
    gives_up 'l = [1]*10**6; m = [1]*10**6; print [l]*1000 == [m]*1000'
}

@test "interrupts: arrays that are made" {
    gives_up 'normal(shape=(10**9,))'
    gives_up 'uniform((20000,10000), dtype="float64")'
    gives_up 'randint(10**9, high=9)'
    gives_up 'print ones(30000,30000)'
    gives_up 'x = arange(10**9, dtype="int32")'
    gives_up 'x = linspace(0, 1, 10**9)'
}

@test "interrupts: arrays made of others" {
    gives_up 'a = ones(30000,1) + ones(1,30000)'
    gives_up 'a = tile(ones(1000), 10**6)'
    gives_up 'a = repeat(ones(1000), 10**6)'
    gives_up 'a = [ones(10**6)]*1000; b = concat(a)'
    gives_up 'a = zeros(10**9); b = a.T; c = a*2 + 1; d = a.astype("float64")'
}

@test "interrupts: sums and products" {
    gives_up 'a = ones(8000,8000); b = dot(a, a)'
    gives_up 'a = ones((8000,8000), dtype="float64"); b = dot(a, a)'
    gives_up 'sum(zeros(10**9))'
}

@test "interrupts: arrays as text and as pictures" {
    gives_up 'set print.threshold 10**9; print zeros(10**8)'
    gives_up 'set print.format csv; print zeros(10**8)'
    gives_up 'set print.format json; print zeros(10**8)'
    gives_up 'plot normal(shape=(10**8,)) > x.svg'
    gives_up 'plot --hist zeros(10**8) > x.txt'
}

@test "interrupts: Ctrl-C gives 130, SIGTERM 143" {
    for script in 'normal((20000,10000))' 'a = ones(8000,8000); dot(a, a)' 'x = [i for i in 0..10**8-1]' 'a = ones(10**9); b = a*2'; do
        ends_by INT 130 "$script"
        ends_by TERM 143 "$script"
    done
}

@test "interrupts: the file of -s and the variables stay as they were" {
    kvctl -s w.kvs -c 'init w ones(3)'
    run -6 timeout -k 1 50 kvctl --timeout 0.3 -s w.kvs -c 'push w ones(3)*5; x = normal(shape=(10**9,))'
    gives '[1. 1. 1.]' kvctl -s w.kvs -c 'pull w'
}

# ended ARGUMENTS…: kvctl ends before the sleep of its command would, and that sleep with it.
ended()
{
    run timeout -s KILL 100 kvctl "$@"
    [ "$status" -ne 137 ] || fail "it went on: $output"
    run ! pgrep -f "sleep 300.$BATS_TEST_NUMBER$$"
}

@test "interrupts: --timeout ends a shell command that ignores TERM, and what it has started" {
    ended --timeout 0.5 -c "!trap '' TERM INT; sleep 300.$BATS_TEST_NUMBER$$"
    ended --timeout 0.5 -c "!sleep 300.$BATS_TEST_NUMBER$$; true"
    ended --timeout 0.5 -c "!sleep 300.$BATS_TEST_NUMBER$$ | cat; true"
}

@test "interrupts: SIGINT and SIGTERM to kvctl alone end its shell command" {
    local signal pid begin=$SECONDS
    for signal in INT TERM; do
        for line in "!sleep 300.$BATS_TEST_NUMBER$$" "!sleep 300.$BATS_TEST_NUMBER$$; true"; do
            # in the background a shell ignores SIGINT
            python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])' \
                "$build/kvctl" -c "$line" >out 2>&1 </dev/null 3>&- &
            pid=$!
            until pgrep -f "^sleep 300.$BATS_TEST_NUMBER$$" >/dev/null; do sleep 0.05; done
            kill -$signal $pid
            wait $pid && fail "it went on"
            run ! pgrep -f "^sleep 300.$BATS_TEST_NUMBER$$"
        done
    done
    [ $((SECONDS - begin)) -lt 300 ]
}
