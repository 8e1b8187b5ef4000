# plot: pictures on the terminal and in files, with gnuplot and without.

load help
load screen

# kvctl as on a machine without gnuplot: the programs named are all that there is.
without_gnuplot()
{
    mkdir bin
    ln -s "$(command -v sh)" "$(command -v tr)" bin
    kvctl()
    {
        PATH=$PWD/bin "$build/kvctl" "$@"
    }
}

with_gnuplot()
{
    command -v gnuplot >/dev/null || skip "no gnuplot"
}

# A gnuplot that keeps its arguments and its input.
fake_gnuplot()
{
    mkdir bin
    printf '#!/bin/sh\necho "$@" >>arguments\ncat >input\nprintf "\\f\\n   drawn   \\n\\n"\n' >bin/gnuplot
    chmod +x bin/gnuplot
    PATH=$PWD/bin:$PATH
}

@test "plot: without gnuplot a line stands for the picture, and a note says why" {
    without_gnuplot
    run -0 --separate-stderr kvctl -c 'loss = array([8, 4, 2, 1]); plot loss loss*2'
    assert_output 'loss █▄▂▁ 1 .. 8
loss*2 █▄▂▁ 2 .. 16'
    assert_equal "$stderr" "note: gnuplot is not installed, so a line stands for the picture; apt-get install gnuplot-nox"
    run -0 kvctl -q -c 'plot [1, 1]; plot 7; plot -2.5 1e30; plot [1, nan, inf, 2]; plot arange(1000000)'
    assert_output '[1, 1] ▁▁ 1 .. 1
7 ▁ 7 .. 7
-2.5 ▁ -2.5 .. -2.5
1e30 ▁ 1e+30 .. 1e+30
[1, nan, inf, 2] ▁  █ 1 .. 2
arange(1000000) ▁▁▁▁▂▂▂▂▂▃▃▃▃▄▄▄▄▅▅▅▅▆▆▆▆▆▇▇▇▇████ 0 .. 999999'
}

@test "plot: what there is to draw: columns, lists of arrays, of losses, row_sparse" {
    without_gnuplot
    run -0 kvctl -q -c 'a = reshape(arange(6), (3, 2))
plot a
plot [ones(2), ones(3) * 2]
plot [ones(1) * 3, 4, 5]
plot row_sparse(a * 2)
plot a | tr 0-9 x'
    assert_output 'a[:, 0] ▁▅█ 0 .. 4
a[:, 1] ▁▅█ 1 .. 5
[ones(2), ones(3) * 2][0] ▁▁ 1 .. 1
[ones(2), ones(3) * 2][1] ▁▁▁ 2 .. 2
[ones(1) * 3, 4, 5] ▁▅█ 3 .. 5
row_sparse(a * 2)[:, 0] ▁▅█ 0 .. 8
row_sparse(a * 2)[:, 1] ▁▅█ 2 .. 10
a[:, x] ▁▅█ x .. x
a[:, x] ▁▅█ x .. x'
}

@test "plot --hist: whole numbers have a bar each, others Sturges' number of bars" {
    without_gnuplot
    run -0 kvctl -q -c 'plot --hist [1, 1, 1, 1, 2, 5, 5]; plot --hist (arange(64) / 64) ** 2; plot --hist 2'
    assert_output '[1, 1, 1, 1, 2, 5, 5] █▃▁▁▅ 1 .. 5
(arange(64) / 64) ** 2 █▄▃▃▃▂▂ 0 .. 0.968994
2 █ 2 .. 2'
}

@test "plot --heat: without colours a line for each row, row 0 on top, large arrays as means" {
    without_gnuplot
    run -0 kvctl -q -c 'm = reshape(arange(8), (2, 4)); plot --heat m; plot --heat [1, nan]; plot --heat 5'
    assert_output '[0] ▁▂▃▄
[1] ▅▆▇█
m 0 .. 7
[0] ▁ 
[1, nan] 1 .. 1
[0] ▁
5 5 .. 5'
    run -0 kvctl -q -c 'plot --heat reshape(arange(1000000), (1000, 1000)) --title "a million"'
    assert_equal "${#lines[@]}" 25
    assert_equal "${lines[0]}" "a million"
    assert_regex "${lines[2]}" '^\[43\] ▁{69}$'
    with_gnuplot
    run --separate-stderr "$build/kvctl" -c 'plot --heat [[1, 2]]'
    assert_output '[0] ▁█
[[1, 2]] 1 .. 2'
    assert_equal "$stderr" "note: a heat map has no shades without colours, so a line stands for each row"
}

@test "plot: values with commas, a title, a logarithmic axis, and what the picture leaves out" {
    without_gnuplot
    run -0 --separate-stderr kvctl -c 'a = [1, 10, 100]; plot a, [nan, inf, -1, 0, 4] --log --title "two rates"'
    assert_output 'two rates
a ▁▅█ 1 .. 100
[nan, inf, -1, 0, 4]     ▁ 4 .. 4'
    assert_line --index 0 'two rates'
    assert_equal "$stderr" "note: gnuplot is not installed, so a line stands for the picture; apt-get install gnuplot-nox
note: 2 of 8 values are not finite
note: 2 of 8 values are not above 0"
    opens -3 'there is no number above 0 to draw with --log' kvctl -c 'plot -1 --log'
    run kvctl -q -c 'plot --heat [[1, 10], [100, 0]] --log'
    assert_output '[0] ▁▅
[1] █ 
[[1, 10], [100, 0]] 1 .. 100'
    rm -r bin
    fake_gnuplot
    run "$build/kvctl" -c 'plot --heat [1, 2] --log > h.svg'
    grep -qx "set title '\[1, 2\]'" input
    grep -qx 'set logscale cb' input
    run "$build/kvctl" -c "plot [1, 2] --log --title \"it's\""
    grep -qx 'set logscale y' input
    grep -qx "set title 'it''s'" input
    run "$build/kvctl" -c 'plot [1, 2] --xlabel step --ylabel "the loss"'
    grep -qx "set xlabel 'step'" input
    grep -qx "set ylabel 'the loss'" input
    run "$build/kvctl" -c 'plot [1, nan, 2, nan, 3, 4], [1, 2]'
    grep -qx "plot '-' title '\[1, nan, 2, nan, 3, 4\]' with lines lt 1, '-' notitle with points lt 1, '-' title '\[1, 2\]' with lines" input
    assert_equal "$(grep -c '^e$' input)" 3
    assert_equal "$(tail -n 7 input)" $'e\n0 1\n2 2\ne\n0 1\n1 2\ne'
}

@test "plot --hist: several arrays have the same bars, --bins sets their number, --log is of the counts" {
    without_gnuplot
    run -0 kvctl -q -c 'plot --hist [1, 1, 2], [3, 3, 3]; plot --hist arange(100) --bins 4; plot --hist [1] * 100 + [2] * 10 + [3] --log'
    assert_output '[1, 1, 2] █▅▁ 1 .. 2
[3, 3, 3] ▁▁█ 3 .. 3
arange(100) ████ 0 .. 99
[1] * 100 + [2] * 10 + [3] █▅▁ 1 .. 3'
    for wrong in 0 1001; do
        opens -3 "a histogram has 1 to 1000 bars, not $wrong" kvctl -c "plot --hist 1 --bins $wrong"
    done
    opens -2 '--bins is for --hist' kvctl -c 'plot 1 --bins 3'
    rm -r bin
    fake_gnuplot
    run -0 "$build/kvctl" -c 'plot --hist [1, 1, 2], [3, 3] --log'
    assert_equal "$(grep -c '^e$' input)" 2
    grep -qx "plot '-' title '\[1, 1, 2\]' with histeps, '-' title '\[3, 3\]' with histeps" input
    grep -qx 'set logscale y' input
    grep -qx 'set yrange \[0.5:4\]' input
}

@test "plot: what cannot be drawn" {
    local wrong
    for wrong in 'plot nan|there is no finite number to draw' \
        'plot zeros(0,3)|there is no finite number to draw' \
        'plot "x"|a text is not an array or list of numbers' \
        'plot ones(2,3,4)|ones(2,3,4) has shape (2, 3, 4), and a picture has at most two axes' \
        'plot ones(2,17)|ones(2,17) has 17 columns, and plot draws at most 16 lines' \
        'plot 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17|plot draws at most 16 lines' \
        'plot --heat 1 2|plot --heat draws one array, not 2' \
        'plot array([-1e308, 1e308], dtype="float64")|the numbers lie too far apart to be drawn'; do
        run -3 kvctl -c "${wrong%%|*}"
        assert_line --index 0 --regexp ": ${wrong##*|}$" || assert_line --index 0 --partial "${wrong##*|}"
    done
    mentions -2 "--heat and --hist do not go together" kvctl -c 'plot --heat --hist 1'
    opens -2 '`x.csv` has no known ending of a picture (.svg, .png or .txt)' kvctl -c 'print 1; plot 1 > x.csv'
    refute_output --partial "compares" # a name with an ending is a file
    opens -2 '>> adds lines, and "x.svg" is not made of lines' kvctl -c 'print 1; plot 1 >> x.svg'
    assert_line " hint: pictures that can grow end in .txt"
    opens -3 'the name of a picture has at most 1023 bytes' kvctl -c "plot 1 > $(printf 'd/%.0s' {1..600})x.svg"
    run -2 kvctl -c 'plot 1 -> v'
}

@test "plot > FILE: without gnuplot a picture fails and leaves no file, .txt needs none" {
    without_gnuplot
    run -4 kvctl -c 'plot [1, 2] > x.svg'
    assert_line --index 0 '<cmd>:1:13: error[unsupported]: gnuplot draws pictures in files, and it is not installed'
    assert_line ' hint: apt-get install gnuplot-nox; a .txt file needs none'
    [ ! -e x.svg ]
    gives '[1] ▁ 1 .. 1' kvctl -q -c 'plot [1, 2] > x.txt; plot [2, 1] >> x.txt; plot [1] > -'
    assert_equal "$(<x.txt)" $'[1, 2] ▁█ 1 .. 2\n[2, 1] █▁ 1 .. 2'
}

@test "plot: --safe starts no program and writes no file, --dry-run writes none" {
    fake_gnuplot
    says 'note: --safe starts no gnuplot, so a line stands for the picture' kvctl --safe -c 'plot [1, 2]'
    assert_line '[1, 2] ▁█ 1 .. 2'
    for name in x.svg '("x" + ".svg")'; do
        mentions -4 '--safe forbids writing' kvctl --safe -c "plot [1, 2] > $name"
    done
    [ ! -e input ]
    says 'dry run: would write x.svg' kvctl --dry-run -c 'plot [1, 2] > x.svg'
    [ ! -e x.svg ]
}

@test "plot: what gnuplot is told cannot be a command of the user's" {
    fake_gnuplot
    gives '   drawn' kvctl -c "plot len('\$(touch bad)') len(\"'; system 'touch bad'; #\")"
    run cat input
    assert_line "plot '-' title 'len(''\$(touch bad)'')' with points, '-' title 'len(\"''; system ''touch bad''; #\")' with points"
    assert_equal "$(<arguments)" "-d"
    [ ! -e bad ]
}

@test "plot: gnuplot that fails is an error, and the file stays as it was" {
    mkdir bin
    printf '#!/bin/sh\ncat >/dev/null\necho half\nexit 3\n' >bin/gnuplot
    chmod +x bin/gnuplot
    PATH=$PWD/bin:$PATH
    echo old >x.svg
    mentions -5 'error[io]: the command `exec gnuplot -d` ended with status 3' kvctl -c 'plot [1, 2] > x.svg'
    assert_equal "$(<x.svg)" old
}

@test "plot: gnuplot draws text of 79 columns where no terminal is, and pictures" {
    with_gnuplot
    run -0 --separate-stderr kvctl -c 'plot [1, 4, 2] [5, 5, 5]; plot 3; plot --hist [1, 2, 2]; plot [nan, 1, inf, 2]'
    assert_equal "$stderr" "note: 2 of 4 values are not finite"
    assert_line --regexp '^ +\[1, 4, 2\] \*+  \[5, 5, 5\] #+$'
    assert_equal "$(awk 'length > 79 || / $/' <<<"$output")" ""
    run -0 --separate-stderr kvctl -c 'a = normal(40, 30); plot a[:, 0] > l.svg; plot --heat a > h.png; plot --hist a > b.svg
plot arange(1000000) > long.svg; plot --heat ones(2, 2) > same.png'
    assert_equal "$output$stderr" ""
    run cat l.svg b.svg long.svg
    assert_equal "$(grep -c '</svg>' <<<"$output")" 3
    assert_equal "$(head -c 4 h.png | tail -c 3)$(head -c 4 same.png | tail -c 3)" PNGPNG
    [ "$(wc -c <long.svg)" -lt 100000 ]
}

@test "plot: into a file by a redirect of the shell it is what the name says" {
    with_gnuplot
    kvctl plot --hist '[1, 2, 2]' --bins 2 >h.png
    kvctl -c 'a = [1, 4]; plot a' >l.svg
    kvctl plot '[1, 4]' >plain
    kvctl -c 'print 3; plot [1, 4]' >behind.svg
    assert_equal "$(head -c 4 h.png | tail -c 3) $(grep -c '</svg>' l.svg)" "PNG 1"
    run cat plain behind.svg
    refute_output --partial svg
    says -2 " hint: kvctl -c 'COMMAND > …' has redirects of its own" kvctl plot '[1, 4]' '>' x.png
}

@test "plot: numbers that are large, or close to each other, have axes that hold them" {
    fake_gnuplot
    run -0 kvctl -c 'plot --hist array([1000000000, 1000000008.5], dtype="float64")'
    grep -qx 'set boxwidth 4.25' input
    grep -qx 'set xrange \[999999997.875:1000000010.625\]' input
    [ "$(grep -c '^10000000[0-9.]* 1$' input)" = 2 ]
    run kvctl -c 'plot --hist [0.5, 1.5, 2.5]'
    grep -qx '0.8333333333333333 1' input
    PATH=${PATH#*:}
    with_gnuplot
    run -0 --separate-stderr kvctl -c 'plot --hist 1e30; plot 1e30; plot --hist array([1000000000, 1000000008.5], dtype="float64")'
    assert_equal "$stderr" ""
}

@test "plot: with --json the picture is its lines" {
    without_gnuplot
    run -0 --separate-stderr kvctl -q --json -c 'plot [1, 2]'
    assert_output --partial '"cmd":"plot","ok":true'
    assert_output --partial '"out":["[1, 2] ▁█ 1 .. 2"]'
}

@test "plot: a terminal gets text of its size, heat maps have colours" {
    command -v tmux >/dev/null || skip "no tmux"
    fake_gnuplot
    ENVIRONMENT="PATH=$PATH" terminal_with 60 20 kvctl -q -c "'plot [1, 2]'"
    ended
    grep -qx 'set terminal dumb size 59,18 mono noenhanced' input
    tmux -S "$socket" kill-server
    PATH=${PATH#*:}
    with_gnuplot
    ENVIRONMENT="PATH=$PATH" terminal_with 60 20 kvctl -q -c "'plot --heat [[1, 2], [3, 4]]'"
    ended
    screen -e | grep -qE '38;5;(53mX|17m#)' # of gnuplot 5 and 6
    screen -e | grep -qE '38;5;(226mX|220m#)'
}

@test "plot: at the prompt heat maps have colours, a transcript and expect hear lines" {
    command -v tmux >/dev/null || skip "no tmux"
    with_gnuplot
    ENVIRONMENT="PATH=$PATH" terminal 60 20 -q --no-rc --record page.md
    enter 'plot --heat [[1, 2], [3, 4]]'
    local of_picture=XXXXXXXXX
    [[ $(gnuplot --version) == 'gnuplot 5'* ]] || of_picture='#########'
    shows "$of_picture"
    enter 'expect <<END'
    kvctl -q -c 'plot --heat [[1, 2], [3, 4]]' >wanted
    while read -r line; do enter "$line"; done <wanted
    enter 'END'
    enter 'print "as" + " heard"' 'as heard'
    run ! on_screen 'error['
    leave 'kv>'
    ended
    grep -qx '\[1\] ▆█' page.md
    run ! grep -q $'\033' page.md
}

@test "plot: a dict has a series for each of its keys" {
    gives "" kvctl -c 'plot {"sgd": [3, 2, 1], "adam": [2, 1, 1]} > both.svg'
    assert_equal "$(grep -oE 'sgd|adam' both.svg | sort | uniq | paste -sd ' ')" 'adam sgd'
    run -3 kvctl -c 'plot {}'
}
