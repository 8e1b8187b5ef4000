# Pages that are run and compared, and sessions that become such pages.

load help

@test "verify: a page that holds says nothing" {
    printf 'kv> print 1 + 1\n2\n' >page
    gives "" kvctl --verify page
}

@test "verify: a difference is shown line by line, with its entry and its place" {
    cat >page.md <<'END'
# A page

```kv
kv> print "a\nb\nc"
a
x
c
```
END
    run -1 kvctl --verify page.md
    assert_output 'page.md:4: the output differs (- the page, + this run)
  kv> print "a\nb\nc"
  a
- x
+ b
  c
kvctl: error[expect]: 1 of 1 entry of page.md prints something else
 hint: if it is right now: kvctl --verify page.md --update'
}

@test "verify: errors are part of a page, wherever they stood" {
    cat >page.md <<'END'
```
kv> def f(n) {
..>   pull $n
..> }
kv> f(9)
<repl>:2:8: error[key]: key 9 was never initialised
    2 :   pull $n
      :        ^^
  in <repl>:17
 hint: init it first
kv> nonsense 3
other.kv:200:1: error[usage]: there is no command `nonsense`
  200 : nonsense 3
      : ^^^^^^^^
 hint: `help` lists the commands
```
END
    gives "" kvctl --verify page.md
    sed -i 's/error.key./error[name]/' page.md
    says -1 '- *:8: error[name]: key 9 was never initialised' kvctl --verify page.md
    assert_line '+ *:8: error[key]: key 9 was never initialised'
}

@test "verify: fences of any kind, indented, with other prompts" {
    cat >page.md <<'END'
Outside kv> nothing counts.
kv> print 0

1. In a list:

   ~~~~ kv
   kv> create local --name b
   kv:b> for i in 0..1 {
   ..>     print i
   ..> }
   0
   1
   kv:b*> print 8
   kv[0/4]> print 7
   7
   ~~~

   ~~~~
kv> print "not here"
END
    begins -1 "page.md:13: the output differs (- the page, + this run)" kvctl --verify page.md
    assert_line --partial "of 4 entries"
}

@test "verify: CRLF, a lost blank behind a prompt, blanks at the ends of lines" {
    printf 'kv> print "a  "\r\na\r\n\r\nkv>\r\nkv> for i in 0..0 {\r\n..>\r\n..> print i }\r\n0   \r\n' >page
    gives "" kvctl --verify page
}

@test "verify: CRLF that a program writes, and a carriage return within a line" {
    printf 'kv> !printf '"'a\\\\r\\\\nb\\\\r\\\\n'"'\na\nb\n' >page
    gives "" kvctl --verify page
    printf 'kv> !printf '"'a\\\\rb\\\\n'"'\nab\n' >page
    says -1 '+ a\x0db' kvctl --verify page
}

@test "verify: --update rewrites outputs and nothing else" {
    cat >page.md <<'END'
Text, with a blank at its end: 

  ```kv
  kv> print 1 + 1
  3

  kv> print "same"   
  same   
  kv> pull 3
  ```
Last line without a newline
END
    truncate -s -1 page.md
    sed -e 's/^  3$/  2/' page.md >want.md
    sed -i '/kv> pull 3/a\  page.md:9:6: error[key]: key 3 was never initialised\n      9 : pull 3\n        :      ^\n   hint: init it first' want.md
    gives "note: page.md: 2 of 3 entries changed" kvctl --verify page.md --update
    gives "" diff want.md page.md
    before=$(stat -c %i page.md)
    gives "" kvctl -q --verify page.md --update
    assert_equal "$(stat -c %i page.md)" "$before"
    run -0 kvctl --verify page.md
}

@test "verify: several pages, each in a session of its own" {
    printf 'kv> init 3 1\nkv> x = 2\n' >one
    printf 'kv> init 3 1\nkv> print x\n1\n' >two
    begins -1 "two:2: the output differs (- the page, + this run)" kvctl --verify one two
    mentions -1 "1 of 2 entries of two prints something else" kvctl --verify two --verify one one
}

@test "verify: a page with prompts of Python, unless kvctl has some of its own there" {
    cat >page.md <<'END'
```
>>> a = 1 + 1
>>> for i in range(2):
...     print(a + i)
2
3
>>> a
2
```
END
    gives "" kvctl --verify page.md
    sed 's/^3$/4/' page.md >wrong.md
    begins -1 "wrong.md:3: the output differs (- the page, + this run)" kvctl --verify wrong.md
    assert_line --partial "1 of 3 entries"
    run -0 kvctl --verify wrong.md --update
    assert_equal "$(cat wrong.md)" "$(cat page.md)"
    printf '```\nkv> print 1\n1\n```\n\n```python\n>>> import sys\n```\n' >both.md
    gives "" kvctl --verify both.md
}

@test "verify: what is no page" {
    gives -5 'kvctl: error[io]: cannot read "missing": No such file or directory' kvctl --verify missing
    echo text >none
    gives -1 'kvctl: error[expect]: none holds no line that begins with `kv> ` or `>>> `' kvctl --verify none
    printf 'kv> print 1\n1\n```\ntext\n```\n' >none
    gives -1 'kvctl: error[expect]: none holds no line that begins with `kv> ` or `>>> ` between its fences' kvctl --verify none
    gives -2 "kvctl: error[usage]: --verify and commands to run do not go together" kvctl --verify none -c 'print 1'
    gives -2 "kvctl: error[usage]: --update needs --verify FILE" kvctl --update none
}

@test "verify: quit ends nothing, shell lines count, expect too" {
    printf 'kv> !echo hi\nhi\nkv> quit 7\nkv> print 1\n1\nkv> expect <<END\n..> 1\n..> END\n' >page
    gives "" kvctl --verify page
}

@test "record: a script becomes a page that --verify accepts" {
    cat >s.kv <<'END'
# a comment
init 3 ones(2); pull 3
for i in 0..1 {
    print i
}; print "same lines"
expect <<X
same lines
X
!echo shell
pull 9
END
    run -3 kvctl --record page s.kv
    run cat page
    assert_output 'kv> init 3 ones(2); pull 3
[1. 1.]
kv> for i in 0..1 {
..>     print i
..> }; print "same lines"
0
1
same lines
kv> expect <<X
..> same lines
..> X
kv> !echo shell
shell
kv> pull 9
s.kv:10:6: error[key]: key 9 was never initialised
   10 : pull 9
      :      ^
 hint: init it first'
    gives "" kvctl --verify page
}

@test "record: entries of the prompt, with errors of all kinds" {
    printf 'print (1,\n2)\nprint )\n\n  pull 9\nexpect-error key {\n\n pull 9 }\n' >in
    run -2 sh -c 'kvctl -i --record page <in'
    gives 4 grep -c '^kv> ' page
    gives "" kvctl --verify page
}

@test "record: nothing that ran leaves the old page, and no new one" {
    echo old >page
    run -2 kvctl --record page -c 'print (1'
    assert_equal "$(cat page)" old
    run -2 kvctl --record new -c 'print (1'
    [ ! -e new ]
    run -0 kvctl --record page -c 'print 1'
    assert_equal "$(cat page)" $'kv> print 1\n1'
}

@test "record: a folder that is not there, a full disk, no permission" {
    gives -5 'kvctl: error[io]: cannot write "no/page": No such file or directory' kvctl --record no/page -c 'print 1'
    [ -w /dev/full ] || skip "no /dev/full"
    says -5 'kvctl: error[io]: cannot write "/dev/full": No space left on device' kvctl --record /dev/full -c 'print 1'
}

# Whatever ends kvctl, the page before stays until there is a new one, and what was recorded is there.
@test "record: kill -9 leaves the old page, and whole entries beside it" {
    echo old >page
    echo old >page2

    kvctl --record page -c 'x = 0
while true { x += 1; print x }' >/dev/null 2>&1 &
    local pid=$!
    kvctl --record page2 -c 'print 1
!kill -9 $PPID
print 2' >/dev/null 2>&1 || true
    kill -9 $pid
    wait $pid || true
    assert_equal "$(cat page page2)" $'old\nold'
    gives $'kv> print 1\n1' cat page2.part
    # the next one begins anew
    kvctl --record page2 -c 'print 3'
    assert_equal "$(cat page2)" $'kv> print 3\n3'
    assert [ ! -e page2.part ]
}

@test "record: two processes do not write one page" {
    mkfifo go
    kvctl --record page -c $'print 1\n!cat go\nprint 2' >/dev/null 3>&- &
    while ! grep -qs 'kv> print 1' page.part; do sleep 0.02; done
    gives -6 'kvctl: error[busy]: another process writes "page.part"' kvctl --record page -c 'print 3'
    echo >go
    wait
    assert_equal "$(cat page)" $'kv> print 1\n1\nkv> !cat go\n\nkv> print 2\n2'
}

@test "record: a disk that is full keeps the old page, and what was recorded before" {
    echo old >page
    run -5 bash -c "ulimit -f 1; kvctl --record page -c 'print 1
print \"%2000s\" % 7
print 2' 2>&1 >/dev/null"
    assert_output 'kvctl: error[io]: cannot write "page": File too large
 hint: what was recorded before is in "page.part"'
    assert_equal "$(cat page)" old
    assert_equal "$(cat page.part)" $'kv> print 1\n1'
}

@test "record: a page keeps its mode, and links lead to it" {
    echo old >real
    chmod 640 real
    ln -s real page
    kvctl --record page -c 'print 1'
    assert_equal "$(stat -c %a real)" 640
    assert [ -L page ]
    assert_equal "$(cat real)" $'kv> print 1\n1'
}

@test "expect: what a shell command prints is seen, but not on a terminal" {
    run -0 sh -c "printf '!echo a\nexpect <<E\na\nE\n' | kvctl -i"
    assert_output a
    command -v expect >/dev/null || skip "no expect"
    export TERM=dumb
    run expect -c 'set timeout 10; spawn kvctl -q; expect "kv> "; send "!echo a\r"; expect "kv> "
        send "expect <<X\r"; expect "..> "; send "a\r"; expect "..> "; send "X\r"
        expect "kv> "; send "\004"; expect eof'
    assert_output --partial "error[unsupported]: what a shell command prints is not seen at the prompt"
}
