# Options, environment and start file: what each does, and which wins.

load help

@test "-h fits one screen of 24 rows and 80 columns, help options has all" {
    run -0 kvctl -h
    [ "${#lines[@]}" -le 23 ]
    local wide
    wide=$(awk 'length > 80' <<<"$output")
    assert_equal "$wide" ""
    [ "$(grep -c '^  -' <<<"$output")" -eq 11 ]
    run -0 kvctl -c 'help options'
    for option in -c -f -i -q -e -k -n -s --store --plugin --check --dry-run --json --set --seed --gpus --type \
        --format --color --no-color --progress --pager --timeout --safe --rc --no-rc --history \
        --record --trace --verify --update --doctor --completion -h -V; do
        grep -qe "^  .*$option" <<<"$output" || fail "no $option"
    done
}

@test "--doctor says what this build has, and what it finds on this machine" {
    TMPDIR=/nonexistent run -0 kvctl --doctor
    assert_line --regexp '^version +kvctl [0-9]'
    assert_line --regexp '^build +(gcc|clang) [0-9].*Readline$'
    assert_line --regexp '^plot +gnuplot'
    assert_line --regexp '^libraries .* libcjson'
    assert_line --regexp '^cpu +[0-9]+ of [0-9]+ cores'
    assert_line --regexp '^memory +[0-9]+ MB'
    assert_line --regexp '^gpu +built: (yes|no); usable: no, .+'
    assert_line --regexp '^mpi +(/.*/libmpi\.so\.40: Open MPI v[45]\..*|not available: the plugin for MPI is not in this build)$'
    assert_line --regexp '^type +local$'
    assert_line --regexp '^history '
}

@test "--timeout ends loops, waits for input, shell commands, with 6" {
    run -6 kvctl --timeout 0.2 -c 'print 1
while true { x = 1 }'
    assert_line --index 0 1
    # the time may be over at the loop or at the statement in it
    assert_line --index 1 --regexp '^<cmd>:2:(1|14): error\[timeout\]: gave up after 0\.2 s \(--timeout\)$'
    mkfifo silent
    for how in "-c '!sleep 20 >/dev/null 2>&1'" "-c 'print @-' 0<>silent" "0<>silent" "-i 0<>silent" \
        "-k -c 'pull 3; while true { x = 1 }; print 2'"; do
        run timeout 10 bash -c "kvctl --timeout 0.2 $how"
        assert_equal "$how: $status" "$how: 6"
        assert_output --partial "error[timeout]: gave up after 0.2 s (--timeout)"
        refute_line 2
    done
    run -0 kvctl --timeout 20 -c 'print 1'
    for wrong in 0 -1 nan x 1e99 ""; do
        gives -2 "kvctl: error[usage]: --timeout needs seconds, more than 0, not \"$wrong\"" kvctl "--timeout=$wrong" -c 'print 1'
    done
}

@test "--timeout leaves the state file as it was" {
    kvctl -s w.kvs -c 'init 3 1'
    cp w.kvs before
    run -6 kvctl -s w.kvs --timeout 0.2 -c 'push 3 7; while true { x = 1 }'
    run -0 cmp w.kvs before
}

@test "--timeout at the prompt says so and ends" {
    command -v expect >/dev/null || skip "no expect"
    export TERM=dumb
    run -0 expect -c 'set timeout 10; spawn kvctl -q --timeout 0.5; expect "kv> "; expect eof
        puts [lindex [wait] 3]'
    assert_output --partial "error[timeout]: gave up after 0.5 s (--timeout)"
    refute_output --partial "^C"
    assert_line --index $((${#lines[@]} - 1)) 6
}

@test "--safe writes the state file and nothing else" {
    run -0 kvctl --safe -s w.kvs -c 'init 3 1; pull 3'
    [ -e w.kvs ]
    for script in '!true' 'print 1 | cat' 'print 1 > a.txt' 'x = "a.csv"; write 1 $x'; do
        mentions -4 "--safe forbids" kvctl --safe -c "$script"
    done
    gives -4 "kvctl: error[unsupported]: --safe writes no file, so --record is not possible" kvctl --safe --record page -c 'print 1'
    gives w.kvs ls
}

@test "the start file is for the prompt: --rc, KVCTL_RC, XDG_CONFIG_HOME, HOME" {
    mkdir -p .config/kvctl xdg/kvctl
    echo 'who = "home"' >.config/kvctl/rc
    echo 'who = "xdg"' >xdg/kvctl/rc
    echo 'who = "env"' >env.kv
    echo 'who = "option"' >option.kv
    try() { run expect -c "set timeout 10; log_user 0; spawn $*; expect \"kv> \"
        send \"print \\\"<\\\" + who + \\\">\\\"\r\"; expect -re {\n(<[a-z]*>|[^\n]*error.name.)}
        puts \$expect_out(1,string); expect \"kv> \"; send \"\004\"; expect eof"; }
    command -v expect >/dev/null || skip "no expect"
    export TERM=dumb
    try kvctl
    assert_output --partial "<home>"
    export XDG_CONFIG_HOME=$PWD/xdg
    try kvctl
    assert_output --partial "<xdg>"
    export KVCTL_RC=env.kv
    try kvctl
    assert_output --partial "<env>"
    try kvctl --rc option.kv
    assert_output --partial "<option>"
    try kvctl --no-rc
    assert_output --partial "error[name]"
    try kvctl --rc option.kv --set who=set
    assert_output --partial "<set>"
    run -3 kvctl -c 'print who'
}

@test "the start file: errors, and where it is not read" {
    printf 'x = 1\ny = \n' >bad.kv
    begins "bad.kv:2:4: error[syntax]: the statement ends where a value is needed" sh -c "echo 'print 5' | kvctl -i --rc bad.kv"
    assert_line 5
    run -5 sh -c "echo 'print 5' | kvctl -i --rc missing.kv"
    assert_output 'kvctl: error[io]: cannot read "missing.kv": No such file or directory'
    says 'note: --rc does nothing here: only the prompt reads a start file' kvctl --rc missing.kv -c 'print 5'
    run -3 sh -c "echo 'print x' >rc; echo 'x = 2' >rc; echo 'print x' | kvctl -i"
}

@test "words: a command of the language, unless a file has its name" {
    kvctl -c 'help push' >page
    gives "$(<page)" kvctl help push
    gives "$(<page)" kvctl push --help
    gives "$(<page)" kvctl push 3 -h
    gives "$(<page)" kvctl --help push
    opens 'usage: kvctl launch' kvctl -h launch
    mkdir list
    gives "note: this store ends here; kvctl -s FILE push … keeps it in a file" kvctl push w 'ones(2)' # without -s
    says -2 " hint: did you mean --verify?" kvctl verify page
    gives $'init weight: float32 (2,) cpu(0)\nwrote w.kvs: 1 new key' kvctl -s w.kvs init weight 'ones(2)' -v
    mentions '"entries":[{"key":"weight"}]' kvctl list -s w.kvs --json
    mentions '[1. 1.]' kvctl -s w.kvs pull 'w*'
    gives '2 a, b -3' kvctl print 1+1 '"a, b"' -3
    run kvctl write '[1, 2]' 'two words.csv'
    assert_equal "$(tail -n 2 'two words.csv')" $'1\n2'
    echo 'print "a file"' >help
    gives "a file" kvctl help push
}

@test "words: none is split, or ends the command" {
    run -2 kvctl print '1); !touch gone; (1'
    assert_output '<cmd>:1:8: error[syntax]: `)` stands where the end of the expression is needed
    1 : print 1); !touch gone; (1
      :        ^'
    gives '1 2' kvctl print '1 # x' '"2"'
    for word in 'x; !touch gone' $'x
!touch gone' '> gone' '| touch gone' '"; !touch gone; "' '"; !touch gone' '$(touch gone)' '} !touch gone'; do
        gives "" kvctl list "$word"
        mentions -3 'error[key]: key "' kvctl pull "$word"
        run ! kvctl set-optimizer sgd --wd "$word"
        run -3 kvctl help "$word"
    done
    assert_equal "$(ls)" ""
    mentions -2 'error[usage]: pull takes no more arguments' kvctl pull 3 '>' gone
    run -2 kvctl time 'push 3 1'
    assert_output "<cmd>:1:6: error[usage]: \`time\` takes statements of the language, no words of the shell
    1 : time push 3 1
      :      ^^^^^^^^
 hint: kvctl -c 'time …'"
}

@test "words: an error shows an option with = as it was typed" {
    run kvctl diff --rtol=abc a b
    assert_line --index 1 "    1 : diff --rtol=abc a b"
    run kvctl diff --rtol abc a b
    assert_line --index 1 "    1 : diff --rtol abc a b"
}

@test "words: a text that has lost its quotes" {
    run -2 kvctl print 'two words'
    assert_line --index 3 " hint: for the text write '\"two words\"'"
    gives "two words" kvctl print '"two words"'
    says -2 " hint: '@\"a b.safetensors\"#w'" kvctl write '@a b.safetensors#w' x.npy
    says -2 " hint: '@a.safetensors#w' is a key of a file" kvctl write a.safetensors#w x.npy
}

@test "words: neither a file nor a command" {
    run -2 kvctl nosuch.kv
    assert_output 'kvctl: error[usage]: there is no file "nosuch.kv", and no command of that name
 hint: kvctl help lists the commands'
    mkdir jobs
    touch jobs/train-dist.kv train-dist.kv
    for wrong in 'trian-dist.kv' 'launch -n 2 trian-dist.kv' 'jobs/train_dits.kv'; do
        matches -2 '^ hint: did you mean (jobs/)?train-dist.kv\?$' kvctl $wrong
    done
    says -2 ' hint: did you mean help?' kvctl hepl
    says -2 ' hint: did you mean launch or patch?' kvctl lanch -n 2 train.kv
    says -2 " hint: kvctl -c 'push 3 ones(2)' runs a text" kvctl 'push 3 ones(2)'
    gives -5 'kvctl: error[io]: cannot read ".": Is a directory' kvctl .
}

@test "words: --check behind a command does not pass for a check that it makes" {
    kvctl -c 'init w ones(2); save m.safetensors'
    for word in --check -n; do
        run -2 kvctl hash m.safetensors $word sums
        assert_output "kvctl: error[usage]: \`hash\` has no option $word
 hint: hash … --verify FILE compares; kvctl --check hash … runs nothing"
    done
    says -2 ' hint: kvctl --check ls … reads the words and runs nothing' kvctl ls m.safetensors --check
    gives '' kvctl --check hash m.safetensors
}

@test "words: an error in one has its line and its caret, as with -c" {
    run -2 kvctl push 3 'ones(2'
    assert_output '<cmd>:1:12: error[syntax]: the `(` that opens here is not closed
    1 : push 3 ones(2
      :            ^'
    words=$output
    gives -2 "$words" kvctl -c 'push 3 ones(2'
    mentions -2 '"file":"<cmd>","line":1,' kvctl --json push 3 'ones(2'
    assert_line --partial '"line":1,"col":12,"end":13,'
    run kvctl print '"é"' 'hello world'
    assert_output '<cmd>:1:17: error[syntax]: `world` stands where the end of the expression is needed
    1 : print "é" hello world
      :                 ^^^^^
 hint: for the text write '"'\"hello world\"'"
    run kvctl print $'1 +\n)'
    assert_output '<cmd>:2:1: error[syntax]: `)` stands where a value is needed
    2 : )
      : ^'
    says -2 '    1 : time x' kvctl time x
    run kvctl push '--s$' 3
    assert_output '<cmd>:1:6: error[usage]: "--s$" is not an option
    1 : push --s$ 3
      :      ^^^^'
}

@test "words: errors show the words as they were typed" {
    begins -3 '<cmd>:1:17: error[name]: there is no variable `abc`' kvctl diff a b --rtol=abc
    assert_line --index 1 '    1 : diff a b --rtol=abc'
    kvctl -s s.kvs init 0.bias 'ones(2)'
    begins -3 '<cmd>:1:16: error[dtype]: --out fills arrays, not an integer' kvctl -s s.kvs pull 'x y' --out=2
    assert_line --index 1 '    1 : pull x y --out=2'
    gives '[1. 1.]' kvctl -s s.kvs pull 0.bias
    run kvctl print
    assert_line --index 2 '      : ^^^^^'
    run kvctl -s s.kvs pull '0..1,w'
    assert_line --index 1 '    1 : pull 0..1,w'
}

@test "-c: a variable of an earlier one that is called" {
    run -2 kvctl -c 'f = 3' -c 'f(2)'
    assert_output '<cmd>:1:1: error[usage]: `f` is a variable here, and no function
    1 : f(2)
      : ^^^^
 hint: f * (…) multiplies, f[…] takes a part; def f(x): … makes a function'
    begins -2 '<cmd>:1:1: error[usage]: there is no function `f`' kvctl -c 'f(2)' -c 'f = 3'
    run kvctl -c 'a = 1; a.foo()'
    refute_output --partial 'did you mean'
    says -2 ' hint: did you mean mean?' kvctl -c 'a = ones(2); a.meen()'
}

@test "words: a rule in braces is one word" {
    kvctl -s s.kvs init w 'ones(2)'
    kvctl -s s.kvs set-updater $'{ stored += input * by } \n\t\n' --by 3
    kvctl -s s.kvs push w 'ones(2)'
    gives '[4. 4.]' kvctl -s s.kvs pull w
    while IFS='|' read -r rule col carets said; do
        run -2 kvctl -s s.kvs set-updater "$rule"
        assert_output "<cmd>:1:$col: error[syntax]: $said
    1 : set-updater $rule
      : $(printf "%$((col - 1))s")$carets
 hint: kvctl set-updater '{ … }': quotes keep the shell from cutting it"
    done <<'END'
{|13|^|the `{` that opens here is not closed
{ stored += }|25|^|`}` stands where a value is needed
{ stored += input }; !touch ran|32|^^^^^^^^^^^^|nothing stands behind the `}` of a rule
{ stored += input } # }|33|^^^|nothing stands behind the `}` of a rule
END
    assert [ ! -e ran ]
}

@test "words: a file of arrays is no script" {
    kvctl -c 'init w ones(2); pull * > m.safetensors'
    for words in m.safetensors '-f m.safetensors'; do
        run -2 kvctl $words
        assert_output 'kvctl: error[usage]: "m.safetensors" is a file of arrays, not a script
 hint: kvctl -s m.safetensors -c info lists them'
    done
    kvctl -s w.kvs -c 'init w ones(2)'
    says -2 ' hint: kvctl -s w.kvs -c info lists them' kvctl w.kvs
    printf 'a,b\n1,2\n' >m.csv
    run -2 kvctl m.csv
    assert_output "kvctl: error[usage]: \"m.csv\" is a file of arrays, not a script
 hint: kvctl -c 'print @m.csv' shows it"
}

@test "words: a program or an archive is no script" {
    printf '\x7fELF\x02\0\0\xb0' >program
    for words in program '-f program' '-c "source program"'; do
        eval "run kvctl $words"
        assert_failure 2
        assert_output --partial 'error[syntax]: "program" is not text, so not a script'
        refute_output --partial 'ELF'
    done
}

@test "options: what stands behind a script is the script's" {
    echo 'print args' >s.kv
    gives "['a', '--json', '-q', '--', 'b', '--nonsense']" kvctl s.kv a --json -q -- b --nonsense
    gives "['--', '--json']" kvctl -- s.kv -- --json
    gives "['a', '--json']" sh -c 'kvctl - a --json <s.kv'
    printf '#!/usr/bin/env -S kvctl\nprint args\n' >run.kv
    chmod +x run.kv
    gives "['--seed', '3', '-k']" ./run.kv --seed 3 -k
    gives "['a', 'b', '-k']" kvctl -f s.kv a --format repr b -- -k
    gives "['a', 'b']" kvctl -c 'print args' a -q b
}

@test "options: a command in the place of a file, and an option that is misspelt" {
    gives -5 'kvctl: error[io]: cannot read "help": No such file or directory' kvctl -f help
    for word in cat keys; do
        run -2 kvctl $word
        assert_line --index 1 ' hint: kvctl ls FILE lists the keys, kvctl stat FILE their numbers'
    done
    run -2 kvctl merge average a b -o c
    assert_output 'kvctl: error[usage]: there is no option -o
 hint: merge, patch and apply have --out OUT; convert ends in it: convert A OUT'
    run -2 kvctl --chek x.kv
    assert_output "$(printf '%s\n' 'kvctl: error[usage]: there is no option --chek' \
        ' hint: did you mean --check?')"
}

@test "option, environment, start file, default: the first that speaks wins" {
    printf 'set terminal.color never\nset print.precision 2\nlr = 1\n' >rc
    run -0 sh -c "printf 'set terminal.color\nset print.precision\nprint lr\n' |
        kvctl -i --rc rc --color always --set print.precision=5 --set lr=2"
    assert_output $'always\n5\n2'
    gives $'never\n2' sh -c "printf 'set terminal.color\nset print.precision\n' | kvctl -i --rc rc"
}

@test "--color, NO_COLOR, TERM=dumb, --no-color" {
    esc=$'\e'
    run kvctl -c 'pull 3'
    refute_output --partial "$esc"
    mentions -3 "$esc" kvctl --color always -c 'pull 3'
    mentions -3 "$esc" env NO_COLOR=1 TERM=dumb kvctl --color=always -c 'pull 3'
    run kvctl --color always --no-color -c 'pull 3'
    refute_output --partial "$esc"
    gives -2 'kvctl: error[usage]: --color is auto, always or never, not "sometimes"' kvctl --color sometimes -c 'pull 3'
    command -v script >/dev/null || skip "no script"
    export TERM=xterm
    mentions -3 "$esc" script -qec "kvctl -c 'pull 3'" /dev/null
    run env NO_COLOR=1 script -qec "kvctl -c 'pull 3'" /dev/null
    refute_output --partial "$esc["
    mentions -3 "$esc[" env NO_COLOR= script -qec "kvctl -c 'pull 3'" /dev/null
    run env TERM=dumb script -qec "kvctl -c 'pull 3'" /dev/null
    refute_output --partial "$esc["
    run script -qec "kvctl --no-color -c 'pull 3'" /dev/null
    refute_output --partial "$esc["
}

@test "time tells once, or the spread of many runs, on stderr" {
    run -0 --separate-stderr kvctl -c 'time print 1; time --runs 20 { x = 1 }; time --runs 1 x = 2'
    assert_output 1
    [[ ${stderr_lines[0]} =~ ^time:\ [0-9.]+\ (ns|us|ms)$ ]]
    [[ ${stderr_lines[1]} =~ ^time:\ 20\ runs,\ min\ [0-9.]+\ [num]s,\ median\ [0-9.]+\ [num]s,\ p95\ [0-9.]+\ [num]s$ ]]
    [[ ${stderr_lines[2]} =~ ^time:\ [0-9.]+\ (ns|us|ms)$ ]]
    begins -3 "<cmd>:1:13: error[value]: the runs lie in 1 .. 1000000, 0 does not" kvctl -c 'time --runs 0 print 1'
    # it waits for what the store was asked to do, and for a sleep
    run --separate-stderr kvctl -c 'time { sleep 0.3; sleep(0.3) }; init w ones(3); time --no-wait { pull w -> x }; time { push w x * 2; pull w -> x }; print x'
    assert_output '[2. 2. 2.]'
    [[ ${stderr_lines[0]} =~ ^time:\ ([6-9][0-9.]*\ ms|[0-9.]+\ s)$ ]]
    for seconds in -1 nan 1000001; do
        begins -3 "<cmd>:1:1: error[value]: the seconds of a sleep lie in 0 .. 1000000" kvctl -c "sleep($seconds)"
    done
    begins -3 "<cmd>:1:7: error[dtype]: the time of a sleep is a number, not a text" kvctl -c 'sleep "a"'
    run ! timeout -s INT 0.5 kvctl -c 'sleep 1000'
    # what ends the block ends the runs, and goes to whoever is around
    run kvctl -q -c 'def f() { time --runs 9 { print 1; return 5 }; return 6 }
print f()
for i in 0..5 { time { print i; break } }' 2>/dev/null
    assert_line --index 0 1
    assert_line 5
    refute_line 6
}

@test "--trace shows each command before it runs, echo switches it" {
    run --separate-stderr kvctl --trace -c 'print 1; echo off; print 2; echo on; print 3'
    assert_output $'1\n2\n3'
    assert_equal "$stderr" $'+ print 1\n+ echo off\n+ print 3'
}

@test "history lists what was typed; --history, KVCTL_HISTORY, off" {
    command -v expect >/dev/null || skip "no expect"
    export TERM=dumb
    typed() { expect -c "set timeout 10; log_user 0; spawn kvctl -q $1; expect \"kv> \"
        send \"x = 1\r\"; expect \"kv> \"; send \"if x {\r\"; expect \"..> \"
        send \"print 2 }\r\"; expect \"kv> \"; send \"\004\"; expect eof"; }
    typed "--history here"
    begins "    1  x = 1" kvctl --history here -c history
    assert_line --index 1 "    2  if x {"
    assert_line --index 2 "       print 2 }"
    begins "    2  if x {" kvctl --history here -c 'history 1'
    gives "" kvctl -c history
    export KVCTL_HISTORY=$PWD/there
    typed ""
    begins "    2  if x {" kvctl -c 'history 1; history 0'
    rm -f there
    typed "--history off"
    [ ! -e there ]
    begins -3 "<cmd>:1:9: error[value]: a count of entries is at least 0, not -1" kvctl -c 'history -1'
}

@test "settings: set lists them all, and says what is wrong" {
    run kvctl -c set
    for name in print.edgeitems print.format print.linewidth print.precision print.threshold \
        store.wait terminal.color terminal.pager terminal.progress; do
        assert_line --regexp "^$name +[^ ]+ +[^ ]"
    done
    gives $'0.25\nalways' kvctl -c 'set store.wait 0.25; set store.wait; set terminal.pager always; set terminal.pager'
    begins -3 "<cmd>:1:16: error[value]: store.wait lies in 0 .. 31536000 seconds" kvctl -c 'set store.wait -1'
    begins -2 '<cmd>:1:5: error[usage]: terminal.color is auto, always or never, not "nevr"' kvctl -c 'set terminal.color nevr'
    assert_line " hint: did you mean never?"
    gives -3 "kvctl: error[dtype]: store.wait is a number of seconds, not a text" kvctl --set store.wait=soon -c 'print 1'
}

@test "set write.sync off: files are written as before, and nothing waits for the disk" {
    grep -q fsanitize "$build/flags" && skip "a sanitizer's build takes no other library first"
    cat >count.c <<'END'
#include <unistd.h>
int fsync(int fd) { return fd >= 0 && write(2, "fsync\n", 6) == 6 ? 0 : -1; }
END
    cc -shared -fPIC -o count.so count.c
    echo 'old' >x.csv
    run -0 --separate-stderr env LD_PRELOAD="$PWD/count.so" "$build/kvctl" -c 'write [1, 2] x.csv; ones(2) > y.csv'
    assert_equal "$(grep -c fsync <<<"$stderr")" 4 # each file, and its folder
    run -0 --separate-stderr env LD_PRELOAD="$PWD/count.so" "$build/kvctl" \
        -c 'set write.sync off; write [[3, 4]] x.csv; init 3,4 [ones(2)]*2; pull 3,4 > w-{key}.csv; [[5, 6]] >> x.csv'
    assert_equal "$stderr" ""
    assert_equal "$(tail -n 2 x.csv | paste -sd ' ')" "3,4 5,6"
    assert_equal "$(ls w-*.csv | paste -sd ' ')" "w-3.csv w-4.csv"
    gives $'on\noff' kvctl -c 'set write.sync; set write.sync off; set write.sync'
    mentions -3 'error[value]: write.sync is on or off, not "maybe"' kvctl -c 'set write.sync maybe'
}

@test "switches: a function that time runs may print, and its loop may end" {
    printf 'def n():\n    print "x"\n    return 3\nfor i in 0..3 { time --runs n() { print i; break } }\n' >t.kv
    run -0 --separate-stderr kvctl t.kv
    assert_output "x
0"
    [[ $stderr == "time: 1 runs, min "* ]]
}

# Section by section: a key of its own numbers, a rank of its own, and one process as rank 0.
@test "seed: each key of an init and each rank of a job has random numbers of its own" {
    kvctl -c 'init a normal((2)); init b normal((2)); init c normal((2)); pull a,b,c; normal((2))' >apart
    gives "$(cat apart)" kvctl -c 'init a,b,c normal((2)); pull a,b,c; normal((2))'
    run kvctl -c 'def f():
    return uniform((2))
init a,b f(); pull a -> x; pull b -> y; sum(x == y); init c,d uniform((2), seed=4); pull c -> x; pull d -> y; sum(x == y)
z = uniform((2)); init e,f z; pull e -> x; pull f -> y; sum(x == y); init g,h [uniform((2)), zeros(2)]; pull h'
    assert_output $'array(0)\narray(2)\narray(2)\n[0. 0.]'
    local alone first second
    alone=$(kvctl -c 'print normal((2)), permutation(6)')
    first=$(OMPI_COMM_WORLD_RANK=1 kvctl -c 'print normal((2)), permutation(6)')
    second=$(OMPI_COMM_WORLD_RANK=2 kvctl -c 'print normal((2)), permutation(6)')
    assert_equal "$(OMPI_COMM_WORLD_RANK=0 kvctl -c 'print normal((2)), permutation(6)')" "$alone"
    assert_equal "$(OMPI_COMM_WORLD_RANK=1 kvctl -c 'print normal((2)), permutation(6)')" "$first"
    [ "$alone" != "$first" ] && [ "$first" != "$second" ] && [ "$alone" != "$second" ]
    [ "$(OMPI_COMM_WORLD_RANK=1 kvctl --seed 5 -c 'print normal((2)), permutation(6)')" != "$first" ]
    assert_equal "$(OMPI_COMM_WORLD_RANK=1 kvctl -c 'print normal((2), seed=7)')" "$(kvctl -c 'print normal((2), seed=7)')"
    # the stream of the ranks, PHILOX_RANKS
    assert_equal "$first" "[0.64832383 1.4700906 ] [5 4 3 2 0 1]"
    local name
    for name in normal uniform randint permutation; do
        mentions 'seed 0 unless kvctl --seed N|random, each rank of a job its own' kvctl -c "help $name"
    done
    run kvctl -c 'help seed'
    assert_output --partial 'Of a job each rank draws numbers of its own, and rank 0 those that one process would draw.'
}

@test "switches: what begins with dashes and is no name is no option" {
    local word
    for word in ----safe --9x --- --=3 --.x; do
        begins -2 "<cmd>:1:10: error[usage]: \"$word\" is not an option" kvctl push 3 1 "$word" 4
    done
}
