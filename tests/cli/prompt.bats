# The prompt on the screen of a real terminal.

load help
load screen
needs=tmux

# ---- Hints ---------------------------------------------------------------------------------------

@test "prompt: a hint shows what is missing, and shrinks" {
    terminal 200 24 -q
    type_text "push" "kv> push KEYS VALUES [--priority N]"
    type_text " w" "kv> push w VALUES [--priority N]"
    type_text " ones(2" "kv> push w ones(2, dtype=, ctx=)"
    type_text ")" "kv> push w ones(2) [--priority N]"
    presses "kv> push w ones(2)" Enter
    enter "pull w" "[1. 1.]"
    last_row "kv>"
}

@test "prompt: a hint is dim and goes back to the cursor" {
    terminal 80 24 -q
    type_text "push"
    shows "KEYS"
    assert_equal "$(tmux -S "$socket" display -p -t t '#{cursor_x}')" 8
    screen -e | grep -qF $'push\e[2m KEYS VALUES'
}

@test "prompt: a hint is cut at 40 columns and never wraps" {
    terminal 40 12 -q
    type_text "pull w" "kv> pull w [--out V] [--ctx DEVS] .."
    type_text " --ctx cpu(0) --out a" "kv> pull w --ctx cpu(0) --out a"
    presses "kv>" C-u
}

@test "prompt: long lines at 40 columns, edited in the middle" {
    terminal 40 12 -q
    type_text "print \"one two three four five six seven eight nine\", 1 + 1" "kv> print \"one two three four five six s"
    row "even eight nine\", 1 + 1"
    press C-a
    press Right Right Right Right Right Right Right
    type_text "zero " "kv> print \"zero one two three four five"
    press C-e
    type_text " + sqrt(" "six seven eight nine\", 1 + 1 + sqrt("
    enter "4)" "zero one two three four five six seven e"
    last_row "kv>"
    on_screen "ight nine 4.0"
}

@test "prompt: no hint in the middle of a line; Ctrl-L keeps it right" {
    terminal 80 24 -q
    type_text "push w" "kv> push w VALUES [--priority N]"
    presses "kv> push w" Left
    presses "kv> push w VALUES [--priority N]" C-e
    enter " 1"
    enter "print 77" "77"
    type_text "use"
    press C-l
    gone "77"
    row "kv> use NAME"
    assert_equal "$(screen | head -n 1)" "kv> use NAME"
}

@test "prompt: a hint within an open block" {
    terminal 80 24 -q
    enter "for i in 1..2 {"
    shows "..>"
    type_text "  push w" "..>   push w VALUES [--priority N]"
    enter " i"
    enter "}"
    last_row "kv>"
    enter "pull w" "2.0"
}

@test "prompt: NO_COLOR has neither hints nor colours" {
    ENVIRONMENT="NO_COLOR=1" terminal 80 24 -q
    type_text "push" "kv> push"
    press C-u
    enter "nothing 1"
    shows "error[usage]: there is no command"
    last_row "kv>"
    type_text "push w " "kv> push w"
    run grep -c $'\e\\[[0-9;]*m' raw
    assert_output 0
}

@test "prompt: TERM=dumb gets no escape sequence at all" {
    ENVIRONMENT="TERM=dumb" terminal 80 24 -q
    type_text "push" "kv> push"
    enter " w 1"
    enter "pull w" "1.0"
    enter "nothing 1"
    shows "error[usage]: there is no command"
    enter "repeat 3000 { x = ones(1000000) }"
    shows "ones(1000000)"
    press C-c
    shows "interrupted"
    enter "quit"
    ended
    run grep -c $'\e' raw
    assert_output 0
}

@test "prompt: a window that gets narrower keeps the line" {
    terminal 100 24 -q
    type_text "print \"one two three four five six seven eight nine ten eleven\", 2 * 3"
    shows "eleven"
    tmux -S "$socket" resize-window -t t -x 40 -y 24
    until_holds "the window keeps its size" test "$(tmux -S "$socket" display -p -t t '#{pane_width}')" = 40
    press Enter
    shows "ten eleven 6"
    last_row "kv>"
}

# ---- Completion ----------------------------------------------------------------------------------

@test "prompt: Tab offers the words of the place, and the line stays" {
    terminal 80 24 -q
    enter "init fc1.weight ones(2); init fc1.bias 1; init \"two words\" 5"
    type_text "pull f"
    presses "kv> pull fc1. [--out V] [--ctx DEVS] [--priority N] [--ignore-sparse B] .." Tab
    presses "fc1.bias    fc1.weight" Tab Tab
    type_text "w"
    presses "kv> pull fc1.weight [--out V] [--ctx DEVS] [--priority N] [--ignore-sparse .." Tab
    presses "[1. 1.]" Enter
    type_text "pull two"
    press Tab
    shows "kv> pull \"two words\""
    presses "5.0" Enter
}

@test "prompt: Tab completes names of files, with blanks too" {
    mkdir data
    echo 1,2 >data/grad.csv
    echo 3,4 >"my file.csv"
    terminal 80 24 -q
    type_text "print @da"
    presses "kv> print @data/" Tab
    presses "kv> print @data/grad.csv" Tab
    presses "[[1. 2.]]" Enter
    type_text "print @my"
    presses "kv> print @\"my file.csv\"" Tab
    presses "[[3. 4.]]" Enter
    type_text "print @"
    press Tab Tab
    row '"my file.csv"  data/' # one slash
    press C-c
    type_text "print load(\"da"
    presses "kv> print load(\"data/grad.csv\", dtype=, cols=, header=, format=, name=, .." Tab Tab
    enter ")"
    last_row "kv>"
}

@test "prompt: Tab on an empty line lists the commands, Tab at the end of a long run completes" {
    terminal 80 24 -q
    press Tab Tab
    shows "set-updater"
    shows "assert"
    enter "some_long_name = 5"
    last_row "kv>"
    type_text "print 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + some_lo"$'\t'
    row "kv> print 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + some_long_name"
    presses "41" Enter
}

@test "prompt: Tab in the middle of a line" {
    terminal 80 24 -q
    type_text "print lear + 1"
    enter ""
    enter "learning_rate = 2"
    type_text "print lear + 1"
    press Left Left Left Left
    presses "kv> print learning_rate + 1" Tab
    presses "3" Enter
}

# ---- Pastes --------------------------------------------------------------------------------------

# 10 MB of statements, and the sum that they print.
make_paste()
{
    awk 'BEGIN {
        print "total = 0"
        for (i = 0; n < 10000000; i++) {
            line = "total += " i "  # some words that make the line longer, umlauts: \303\274"
            n += length(line) + 1
            print line
            sum += i
        }
        printf "print \"the sum:\", total == %.0f", sum
    }' >paste.txt
}

@test "prompt: 10 MB pasted at once run at Enter, not before" {
    make_paste
    terminal 80 24 -q
    pastes -p
    shows "kv> [pasted"
    on_screen "lines, 10 MB]"
    presses "the sum: True" Enter
    last_row "kv>"
    enter "print 6 * 7" "42"
}

# tmux needs time quadratic in the length of a line that it pastes, hence not ten.
@test "prompt: 2 MB in one line, without brackets round the paste" {
    { printf 'print "length:", len("'; head -c 2000000 /dev/zero | tr '\0' x; printf '")'; } >paste.txt
    terminal 80 24 -q
    pastes
    presses "length: 2000000" Enter
    last_row "kv>"
}

@test "prompt: many lines typed at once lose no byte" {
    terminal 80 24 -q
    {
        echo "total = 0"
        for ((i = 0; i < 3000; i++)); do echo "total += $i  # words"; done
        printf 'x = "%s"\n' "$(head -c 6000 /dev/zero | tr '\0' y)"
        printf 'print "the sum:", total == 4498500, len(x)\n'
    } >paste.txt
    pastes
    row "the sum: True 6000"
    last_row "kv>"
}

@test "prompt: a small paste can be edited before Enter" {
    printf 'print 3 * 3\nprint 4 * 4' >paste.txt
    terminal 80 24 -q
    pastes -p
    row "print 4 * 4"
    press BSpace
    enter "5" "9"
    row "20"
}

@test "prompt: Ctrl-C drops a large paste" {
    make_paste
    terminal 80 24 -q
    pastes -p
    shows "kv> [pasted"
    press C-c
    last_row "kv>"
    enter "total"
    shows "error[name]"
}

# A page with its prompts, what it prints, and mistakes.
make_page()
{
    cat >page <<'END'
kv> init 3 ones(2,3)*2
kv> pull 3
[[ 2.  2.  2.]
 [ 2.  2.  2.]]
kv> init mean 1
page.md:5:6: error[key]: this store holds integer keys, "mean" is a text key
    5 : init mean 1
      :      ^^^^
kv> nothing 1
page.md:9:1: error[usage]: there is no command `nothing`
    9 : nothing 1
      : ^^^^^^^
kv> def update(key, input, stored):
..>     print('update on key: (%d' % key)
..>     stored += input * 2
kv> kv._set_updater(update)
kv> push 3 ones(2,3); print "the end"
update on key: (3
the end
END
}

@test "prompt: each prompt of a pasted page is an entry, and one that fails does not stop the others" {
    make_page
    terminal 100 60 -q
    tmux -S "$socket" load-buffer page
    tmux -S "$socket" paste-buffer -p -t t
    shows "the end"
    press C-l
    press Enter
    until_holds "not all of it ran" eval "screen | grep -cx 'the end' | grep -qx 2"
    screen >said
    # each entry stands in front of what it put out, and only the two mistakes of the page fail
    run sed -n '/^kv> pull 3/,$p' <(tac said | sed '/^kv> init 3/q' | tac)
    assert_line --index 1 "[[2. 2. 2.]"
    assert_line --index 4 --partial 'error[key]: this store holds integer keys, "mean" is a text key'
    assert_line --index 9 --partial 'error[usage]: there is no command `nothing`'
    assert_line --index 18 "update on key: (3"
    assert_equal "$(grep -c 'error\[' <<<"$output")" 2
}

# Types the page into a session with these options.
type_page()
{
    make_page
    terminal 100 80 -q "$@"
    while IFS= read -r line; do enter "$line"; done <page
    enter "print 6 * 7" "42"
    # the echo of what is typed ahead may stand in front of an error
    assert_equal "$(screen | grep -c '<repl>.*error\[')" 2
    assert_equal "$(screen | grep -cx 'the end')" 1
    last_row "kv>"
}

@test "prompt: what a page prints below an entry is passed over when it is typed, too" {
    type_page
}

@test "prompt: it is passed over while --record writes, too" {
    type_page --record recorded.md
}

@test "prompt: a page whose blocks have the prompt of an entry in each line" {
    printf '>>> def f(x):\n>>>     y = x * 2\n>>>     return y\n>>> if f(2) == 5:\n>>>     print "no"\n>>> else:\n>>>     print "the", "end", f(21)\n>>> print "behind"\n' >page
    terminal 80 40 -q
    tmux -S "$socket" load-buffer page
    tmux -S "$socket" paste-buffer -p -t t
    shows 'print "behind"'
    presses "behind" Enter
    row "the end 42"
    gone "error["
}

@test "prompt: a pasted page that ends in what a loop printed needs one Enter" {
    printf 'kv> for i in range(2):\n..>     print "line", i\nline 0\nline 1\n' >page
    terminal 80 40 -q
    tmux -S "$socket" load-buffer page
    tmux -S "$socket" paste-buffer -p -t t
    shows 'line 1'
    press Enter
    last_row "kv>"
    assert_equal "$(screen | grep -cx 'line 1')" 2
}

# Pastes what stdin holds, as text that a terminal brackets, up to a line that it shows, and runs it.
paste_and_run()
{
    cat >paste.txt
    pastes -p
    shows "$1"
    press Enter
}

@test "prompt: each entry of a paste stands in front of its output" {
    terminal 80 40 -q
    printf 'a = [1,\n     2]\nprint a; print 3\n\nfor i in 0..1:\n    print "i", i\nprint "the", "end"' >text
    paste_and_run 'print "the", "end"' <text
    row "the end"
    screen | sed '1,7d; /^$/d' >said
    run cat said
    assert_output 'kv> a = [1,
..>      2]
kv> print a; print 3
[1, 2]
3
kv> for i in 0..1:
..>     print "i", i
i 0
i 1
kv> print "the", "end"
the end
kv>'
    press C-l
    paste_and_run 'print "all"' <<<'repeat 2 {
    print "all" }' # one entry, which is to be seen
    row "all"
    run screen
    refute_output --partial "..>"
}

@test "prompt: a block that was typed, and ended by the next statement, is not shown once more" {
    terminal 80 24 -q
    enter "for i in 0..1:"
    enter "    print i"
    enter 'print "the", "end"' "the end"
    screen | sed '/^$/d' >said
    run cat said
    assert_output 'kv> for i in 0..1:
..>     print i
..> print "the", "end"
0
1
the end
kv>'
}

@test "prompt: a paste that fails says how much of it did not run" {
    terminal 80 40 -q
    printf 'print 1\npull 9\nprint 2; print 3\nprint 4' | paste_and_run "print 4"
    row "2 entries were not run"
    press C-l
    printf 'print 5 + 6\nnothing 2\nprint 3\n' | paste_and_run "print 3"
    row "11"
    row "1 entry was not run"
    press C-l
    printf 'print 6 + 6\nprint (2\nprint "3\nprint 4' | paste_and_run "print 4"
    row "12"
    row "2 entries were not run"
    press C-l
    enter "pull 9; print 1" # typed in one line: it can be seen
    last_row "kv>"
    gone "not run"
}

@test "prompt: words of other prompts" {
    terminal 80 24 -q
    enter "print 6 * 7" "42"
    enter "clear"
    gone "42"
    enter "push?" "push KEYS VALUES [--priority N]"
    enter '\q'
    ended
    again
    enter "quit()"
    ended
}

@test "prompt: history begins at its end" {
    command -v less >/dev/null || skip "no less"
    terminal 80 12 -q
    for i in {1..20}; do enter "x = $i"; done
    enter "history"
    shows "(END)"
    on_screen "x = 20"
    press q
    last_row "kv>"
}

# ---- Locales -------------------------------------------------------------------------------------

@test "prompt: UTF-8 in a locale that is not" {
    ENVIRONMENT="LC_ALL=C" terminal 80 24 -q
    type_text "x = \"grünß" "kv> x = \"grünß"
    presses "kv> x = \"grün" BSpace
    press Left Left
    type_text "ö" "kv> x = \"gröün"
    press C-e
    enter "\"; print x, len(x)" "gröün 5"
    enter "!echo \$LC_ALL" "C"
}

# ---- History and entries of several lines --------------------------------------------------------

@test "prompt: an entry of several lines is one item, also after a restart" {
    terminal 80 24 -q
    enter "for i in 1..2 {"
    shows "..>"
    enter "print i * 10"
    enter "}" "20"
    press C-l
    presses "kv> for i in 1..2 {" Up
    row "print i * 10"
    press Up Down Up
    presses "10" Enter
    enter "quit"
    ended
    again
    presses "print i * 10" Up Up
    presses "}" Up Down
    press Left
    enter "print i * 100; " "100"
    row "200"
}

@test "prompt: a line of an entry that looks like a time stamp survives a restart" {
    terminal 80 24 -q
    enter "if true {"
    shows "..>"
    enter "#1 is a comment"
    enter "print 5 * 5"
    enter "}" "25"
    enter "quit"
    ended
    again
    presses "25" Up Up Enter
}

@test "prompt: a comment that looks like a time stamp survives a restart" {
    terminal 80 24 -q
    enter "print 7 * 7" "49"
    enter "#5 my note"
    enter "quit"
    ended
    again
    press Up Up
    shows "#5 my note"
    presses "49" Up Enter
}

@test "prompt: _ is the last result" {
    terminal 80 24 -q
    enter "6 * 7" "42"
    enter "_ + 1" "43"
    enter "print _"
    shows "43"
}

@test "prompt: it says which store is used and that a transaction is open" {
    terminal 80 24
    assert_equal "$(screen | grep -c 'kvctl [0-9]')" 1
    enter "create --name b"
    last_row "kv:b>"
    enter "begin"
    last_row "kv:b*>"
    enter "use kv; create"
    enter "rollback"
    enter "begin"
    shows "*>"
}

# ---- The pager -----------------------------------------------------------------------------------

@test "prompt: a result longer than the screen is paged, q leaves, the prompt goes on" {
    command -v less >/dev/null || skip "no less"
    terminal 80 12 -q
    enter "print reshape(arange(100), 50, 2)" ":"
    press q
    last_row "kv>"
    enter "print 1 + 1" "2"
    last_row "kv>"
}

# less loses a key that it reads while Ctrl-C comes, so this one is pressed again.
at_end()
{
    press G
    on_screen "(END)"
}

@test "prompt: Ctrl-C in the pager does not end kvctl" {
    command -v less >/dev/null || skip "no less"
    terminal 80 12 -q
    enter "help" ":"
    press C-c
    press C-c
    until_holds "the pager has ended" at_end
    press q
    last_row "kv>"
    enter "print 1 + 1" "2"
}

@test "prompt: \$PAGER, --pager never, and results that fit" {
    ENVIRONMENT="PAGER='tail -n 1'" terminal 80 12 -q
    enter "print reshape(arange(100), 50, 2)" " [98. 99.]]"
    gone "[94. 95.]"
    enter "print arange(3)" "[0. 1. 2.]"
    ENVIRONMENT="PAGER='tail -n 1'" terminal 80 12 -q --pager never
    enter "print reshape(arange(100), 50, 2)" " [98. 99.]]"
    on_screen "[94. 95.]"
}

@test "prompt: a pager that is not there shows the result all the same" {
    ENVIRONMENT="PAGER=no-such-pager" terminal 80 12 -q
    enter "print reshape(arange(100), 50, 2)" " [98. 99.]]"
    last_row "kv>"
}

# ---- Progress and Ctrl-C -------------------------------------------------------------------------

@test "prompt: progress of a long loop is drawn, and erased at Ctrl-C" {
    terminal 80 24 -q
    enter "repeat 100000 { x = ones(1000000) }"
    until_holds "no bar came" eval "screen | grep -qE '^repeat \[=*> *\] [0-9]+%  [0-9.]+/s  ETA [0-9:]+$'"
    presses "interrupted" C-c
    gone "ETA"
    last_row "kv>"
}

@test "prompt: progress at 40 columns stays on its row" {
    terminal 40 24 -q
    enter "repeat 100000 { x = ones(1000000) }"
    until_holds "no bar came" eval "screen | grep -qE '^repeat \[=*> *\] [0-9]+%  [0-9.]+/s  ETA'"
    presses "interrupted" C-c
    gone "ETA"
}

@test "prompt: lines that a loop prints stand clear of the bar" {
    terminal 80 24 -q
    enter "for i in 1..100000 { x = ones(1000000); if i % 300 == 0 { print \"at\", i } }"
    shows "ETA"
    until_holds "no row \"at N\" came" eval "screen | grep -qxE 'at [0-9]+'"
    presses "interrupted" C-c
    gone "ETA"
}

@test "prompt: --progress never draws none" {
    terminal 80 24 -q --progress never
    enter "for i in 1..100000 { x = ones(1000000); if i % 500 == 0 { print \"at\", i } }"
    until_holds "no row \"at N\" came" eval "screen | grep -qxE 'at [0-9]+'"
    presses "interrupted" C-c
    run grep -c ETA raw
    assert_output 0
}

@test "prompt: Ctrl-C ends a load that waits, and the variable stays as it was" {
    mkfifo slow.csv
    terminal 80 24 -q
    enter "a = 5"
    exec 8<>slow.csv
    enter "a = @slow.csv"
    echo "1,2" >&8
    shows "slow"
    presses "interrupted" C-c
    exec 8>&-
    enter "print a" "5"
}

@test "prompt: a load of unknown size shows how much and how fast" {
    mkfifo slow.csv
    terminal 80 24 -q
    exec 8<>slow.csv
    enter "a = @slow.csv"
    while sleep 0.1; do echo "1,2"; done >&8 &
    feeder=$!
    until_holds "no progress came" eval "screen | grep -qE '^load [0-9]+ B  [0-9]+ B/s$'"
    kill "$feeder"
    presses "interrupted" C-c
    exec 8>&-
}

@test "prompt: Ctrl-Z stops kvctl, and fg shows the line again" {
    terminal 80 24 -q
    tmux -S "$socket" respawn-pane -k -t t "PS1='shell> ' bash --norc -i"
    shows "shell>"
    enter "kvctl -q"
    shows "kv>"
    type_text "print 1 + 41" "kv> print 1 + 41"
    press C-z
    shows "Stopped"
    enter "stty -a | grep -o '.icanon'; clear; fg"
    last_row "kv> print 1 + 41"
    presses "42" Enter
    enter "quit"
    last_row "shell>"
}

# ---- Several machines ----------------------------------------------------------------------------

# ranks N: a job whose ranks have a window each, named after the rank.
ranks()
{
    cat >rank <<END
#!/bin/bash
rank=\$OMPI_COMM_WORLD_RANK
unset TERM TMUX
export -p >"rank\$rank"
tmux -S "$socket" new-window -d -t t -n "rank\$rank" "bash -c '. $PWD/rank\$rank; cd $PWD; kvctl -q; echo \\\$? >ended\$rank'"
until [ -s "ended\$rank" ]; do sleep 0.1; done
exit "\$(cat "ended\$rank")"
END
    chmod +x rank
    env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 \
        mpirun --oversubscribe --bind-to none -n "$1" ./rank >job 2>&1 3>&- 4>&- &
    job=$!
}

# rank N: from here on its window is the screen.
rank()
{
    until_holds "no window of rank $1" tmux -S "$socket" select-window -t "t:rank$1" 2>/dev/null
    shows "kv"
}

@test "prompt: rank and number of workers, in the terminal of each rank" {
    needs_mpi
    terminal 80 24 -q
    ranks 2
    rank 0
    last_row "kv>"
    enter "create dist_sync"
    rank 1
    enter "create dist_sync"
    last_row "kv[1/2]>"
    rank 0
    last_row "kv[0/2]>"
    enter "init 3 zeros(2); push 3 ones(2)"
    enter "pull 4"
    shows "error[key]: key 4 was never initialised"
    last_row "kv[0/2]>"
    enter "create local --name b"
    last_row "kv:b>"
    enter "use kv"
    enter "for i in 1..2 {"
    last_row "..>"
    enter "pull 3 }"
    rank 1
    enter "push 3 ones(2) * 4"
    enter "quit"
    rank 0
    row "[5. 5.]"
    last_row "kv[0/2]>"
    enter "quit"
    wait $job
    assert_equal "$(cat ended0 ended1)" "$(printf '0\n0')"
}

# ---- Colour --------------------------------------------------------------------------------------

@test "prompt: errors are red and bold at a terminal, plain in a file" {
    terminal 80 24 -q
    enter "pul 3"
    shows "hint: did you mean"
    grep -qF $'\e[1;31merror[usage]\e[0m: there is no command `pul`' raw
    grep -qF $'\e[1;31m^^^\e[0m' raw
    run kvctl -q -c 'pul 3'
    refute_output --partial $'\e'
    mentions -2 $'\e[1;31merror[usage]\e[0m' kvctl -q --color always -c 'pul 3'
}

@test "prompt: Ctrl-C ends a product and a picture, and the session goes on" {
    mkdir bin
    printf '#!/bin/sh\necho $$ >gnuplot.pid\nexec sleep 600\n' >bin/gnuplot
    chmod +x bin/gnuplot
    ENVIRONMENT="PATH=$PWD/bin:$PATH" terminal 100 24 -q
    enter "a = ones(3000, 3000); print 6 * 7 - 1; repeat 1000 { dot(a, a) }" "41"
    presses "interrupted" C-c
    last_row "kv>"
    enter "print 6 * 7; plot [1, 2]" "42"
    until_holds "gnuplot does not start" test -s gnuplot.pid
    press C-c
    last_row "kv>"
    until_holds "gnuplot goes on" gnuplot_ended
    enter "print 6 * 8" "48"
}

gnuplot_ended()
{
    ! kill -0 "$(<gnuplot.pid)" 2>/dev/null
}
