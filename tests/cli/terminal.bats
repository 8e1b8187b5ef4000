# The prompt, driven through a real terminal by expect.

load help

# Runs an expect script from stdin after `spawn kvctl ARG…`. Its words: `want TEXT` waits for TEXT and
# fails the test when it does not come; `shows TEXT` waits for it as a line of its own; `prompt` is
# want "kv> "; `type TEXT` sends TEXT and Enter, `enter TEXT` also waits for the next prompt; `ends`
# waits for the end and checks the exit status; `absent TEXT` fails if TEXT has been shown.
terminal()
{
    command -v expect >/dev/null || skip "no expect"
    export HOME=$PWD TERM=${TERMINAL:-xterm}
    {
        cat <<'END'
set timeout 20
set seen ""
proc failed {why} { global seen; puts "\n--- $why; on the screen:\n$seen"; exit 1 }
proc await {kind text} {
    global seen
    expect {
        $kind $text { append seen $expect_out(buffer) }
        timeout { failed "no \"$text\" came" }
        eof { failed "ended before \"$text\"" }
    }
}
proc want {text} { await -ex $text }
proc shows {text} { await -re "\[\r\n\][string map {* \\* . \\. \[ \\[ \] \\]} $text]\r\n" }
proc prompt {} { want "kv> " }
proc type {text} { send -- "$text\r" }
proc enter {text} { type $text; prompt }
proc ends {status} {
    global seen
    expect { eof { append seen $expect_out(buffer) } timeout { failed "it does not end" } }
    set got [lindex [wait] 3]
    if {$got != $status} { failed "it ended with $got" }
}
proc absent {text} {
    global seen
    if {[string first $text $seen] >= 0} { failed "\"$text\" is there" }
}
END
        echo "spawn kvctl $*"
        cat
    } >drive.exp
    run -0 expect -f drive.exp
}

# The same with -q, from the first prompt to a last one, where it ends with quit.
session()
{
    { echo prompt; cat; printf '%s\n' prompt 'type quit' 'ends 0'; } >typed
    terminal -q "$@" <typed
}

@test "terminal: banner, prompt, a result, Ctrl-D leaves" {
    terminal <<'END'
want "kvctl"
prompt
type {print 1 + 1}
shows "2"
prompt
send "\004"
ends 0
END
}

@test "terminal: -q has no banner" {
    terminal -q <<'END'
prompt
absent "help"
type quit
ends 0
END
}

@test "terminal: quit N ends with N" {
    terminal -q <<'END'
prompt
type "quit 7"
ends 7
END
}

@test "terminal: an error is shown with its place, and the prompt goes on" {
    terminal -q <<'END'
prompt
enter {print 1}
type {pul 3}
want "<repl>:2:1: "
want "error\[usage\]"
want "did you mean pull"
prompt
type {print 5 * 5}
want "25"
prompt
send "\004"
ends 0
END
}

@test "terminal: a block goes on with ..> until it is closed" {
    session <<'END'
type "for i in 1..2 \{"
want "..> "
type "print i * 10"
want "..> "
type "\}"
want "10"
want "20"
END
}

@test "terminal: Ctrl-C drops the line and never leaves" {
    session <<'END'
send "print 111"
want "111"
send "\003"
prompt
send "\003\003\003"
prompt
type {print 2 + 3}
shows "5"
END
}

@test "terminal: what is typed right behind a Ctrl-C is a line of its own" {
    session <<'END'
send "print 111"
want "111"
send "\003print 2 + 3\r"
shows "5"
END
}

@test "terminal: Ctrl-C and Ctrl-D drop an open block" {
    session <<'END'
type "if true \{"
want "..> "
send "\003"
prompt
type "if true \{"
want "..> "
send "\004"
prompt
type {print 6 * 7}
want "42"
END
}

@test "terminal: Ctrl-C ends a loop, and the prompt goes on" {
    session <<'END'
type "x = 1; print \"begins\"; while true \{ x = 1 \}"
shows "begins"
send "\003"
want "interrupted"
prompt
type {print x + 1}
shows "2"
END
}

@test "terminal: Ctrl-C ends an expression, and its variable stays as it was" {
    session <<'END'
type "x = 1; print \"begins\"; x = normal((20000,20000))"
shows "begins"
sleep 0.3
send "\003"
want "interrupted"
prompt
type {print x + 1}
shows "2"
END
}

@test "terminal: Ctrl-C while a full terminal takes nothing more loses that output alone" {
    session <<'END'
enter {set pager off}
type {for i in 1..1000000 { print "" }}
sleep 0.5
send "\003"
want "interrupted"
prompt
type {print 20 + 1}
shows "21"
prompt
type {!echo the stream is open}
shows "the stream is open"
END
}

@test "terminal: Ctrl-C twice within two seconds ends kvctl" {
    terminal -q <<'END'
prompt
type "print \"begins\"; !sleep 30"
shows "begins"
sleep 0.3
send "\003"
sleep 0.3
send "\003"
expect {
    "kv> " {}
    eof {}
    timeout { failed "still asleep" }
}
END
}

@test "terminal: a pasted text runs nothing until Enter" {
    needs_readline
    session <<'END'
send "\033\[200~print 3 * 3\nprint 4 * 4\n\033\[201~"
want "4 * 4"
sleep 0.3
absent "\r9\r"
send "\r"
shows "9"
want "16\r\n"
END
}

@test "terminal: completion of commands, keys and variables" {
    needs_readline
    session <<'END'
send "set-up\t"
want "set-updater "
send "\003"
prompt
enter {init fc1.weight ones(2)}
send "pull fc\t"
want "fc1.weight "
send "\r"
want "1. 1."
prompt
enter {learning_rate = 0.25}
send "print learn\t"
want "learning_rate"
send "* 2\r"
want "0.5"
prompt
enter {pull fc1.weight > ft1.safetensors}
send "print @ft1.safe\t"
want "@ft1.safetensors"
send "#fc1.weight\r"
want "1. 1."
END
}

@test "terminal: history keeps entries, private, and not those that begin with a blank" {
    needs_readline
    session <<'END'
enter {print "first"}
enter { print "secret"}
type "for i in 1..2 \{"
want "..> "
type "print i\n\}"
END
    local file=.local/state/kvctl/history
    assert_equal "$(stat -c %a "$file")" 600
    run grep -v '^#' "$file"
    assert_output $'print "first"\nfor i in 1..2 {\nprint i\n}\nquit'
    session <<'END'
send "\033\[A\033\[A\033\[A"
want "first"
send "\r"
shows "first"
END
}

@test "terminal: --history off keeps none" {
    skip_unless_option history
    terminal -q --history off <<'END'
prompt
enter {print 1}
type quit
ends 0
END
    [ ! -e .local ]
}

@test "terminal: a history that cannot be written is one note, and on" {
    mkdir -p home
    ln -s /dev/full home/history
    XDG_STATE_HOME=$PWD/none KVCTL_HISTORY=/proc/nothing/history terminal <<'END'
want "kvctl: cannot"
prompt
type {print 8 + 1}
shows "9"
prompt
type quit
ends 0
END
}

@test "terminal: a dumb terminal works too" {
    TERMINAL=dumb terminal -q <<'END'
prompt
type {print 1 + 2}
shows "3"
prompt
send "\004"
ends 0
END
}

@test "terminal: a result goes to stdout, prompts to stderr" {
    command -v expect >/dev/null || skip "no expect"
    TERM=xterm expect -c 'log_user 0; set timeout 20
        spawn sh -c "kvctl -q >results"
        expect "kv> "; send "print 12 * 12\r"; expect "kv> "; send "quit\r"; expect eof'
    run cat results
    assert_output 144
}

@test "terminal: SIGTERM at the prompt ends with 143" {
    command -v expect >/dev/null || skip "no expect"
    run -143 expect -c 'log_user 0; set timeout 20; spawn kvctl -q; expect "kv> "
        exec sh -c "kill -TERM [exp_pid]"; expect eof; exit [lindex [wait] 3]'
}

# -i with a script on stdin: no prompt, each statement as it arrives.

@test "-i without a terminal: no prompt, statements run as they arrive" {
    mkfifo in
    kvctl -i -q <in >out 2>err 7>&- &
    exec 7>in
    echo 'print 1 + 1' >&7
    for _ in {1..100}; do [ -s out ] && break; sleep 0.05; done
    run cat out
    assert_output 2
    echo 'print 3 * 3' >&7
    exec 7>&-
    wait $!
    run cat out
    assert_output $'2\n9'
    run cat err
    assert_output ""
}

@test "-i without a terminal: an open block at the end of input is reported" {
    run kvctl -i -q <<<'if true {'
    assert_output --partial "<repl>:1:"
    assert_output --partial "error[syntax]"
}

needs_readline()
{
    ! kvctl -V | grep -q "without GNU Readline" || skip "this build has no Readline"
}

skip_unless_option()
{
    kvctl -h 2>&1 | grep -q -- "--$1" || kvctl --"$1" off -c '' 2>/dev/null || skip "no option --$1"
}

@test "terminal: the prompt shows an open transaction, and leaving drops it" {
    terminal -q -s w.kvs <<'END'
prompt
enter {init 3 1}
type {begin}
want "kv*> "
type {push 3 5; create --name b}
want "kv:b> "
type {begin}
want "kv:b*> "
type {commit; use kv}
want "kv*> "
type {pull 3}
shows "5.0"
want "kv*> "
send "\004"
want "warning: no commit came after begin: what it began is not saved"
ends 0
END
    gives 1.0 kvctl -s w.kvs -c 'pull 3'
}

@test "terminal: a pasted page runs at Enter, without its outputs" {
    needs_readline
    terminal <<'END'
prompt
send "\033\[200~>>> kv.init(3, mx.nd.ones((2,)))\n>>> print kv.pull(3)\n\[ 9.  9.\]\033\[201~"
send "\r"
shows {[1. 1.]}
prompt
send "\004"
ends 0
END
}

@test "terminal: a block by indentation goes on until an empty line" {
    terminal <<'END'
prompt
type "def f(a):"
want "..> "
type "    return a + 41"
want "..> "
enter ""
type "f(1)"
shows "42"
prompt
send "\004"
ends 0
END
}
