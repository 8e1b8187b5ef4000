# What people type and paste at the prompt, in a terminal: every page and every example, key by key so
# that each hint is drawn, and pasted. The prompt must come back from each, and reports of errors run
# nothing. typist.c is who types.

load help

setup_file()
{
    ${CC:-cc} -D_GNU_SOURCE -O1 -o "$BATS_FILE_TMPDIR/typist" "$BATS_TEST_DIRNAME/typist.c" -lutil
}

# The code blocks of pages, each a text for typist.
blocks()
{
    awk '/^ *(```|~~~)/ { if (inside) print "\f"; inside = !inside; next } inside' "$@"
}

# The examples of help, a command's together, but those that measure or test for seconds.
examples_of_help()
{
    local name
    for name in $(kvctl -c 'help --json' | grep -o '"name":"[a-z-]*","usage"' | cut -d'"' -f4); do
        [ "$name" = doctor ] && continue
        kvctl -c "help $name" | sed -n '1,/^  [^ ]/d; s/^    //p'
        printf '\f\n'
    done
}

# Everything that is typed and pasted.
texts()
{
    local file
    blocks "$top/README.md" "$top/cli/rules.md" "$top/cli/language.md" "$top/cli/checkpoints.md" "$top/cli/lecture.md" "$top/examples/tour.md" "$top/examples/README.md"
    examples_of_help
    for file in "$top"/examples/*.kv "$top"/examples/*.sh "$top"/tests/cli/00*.kv; do
        cat "$file"
        printf '\f\n'
    done
    printf '%s\n\f\n' $'repeat 2 {\n!echo hi\n}' $'!true\nprint 1' $'if true {\nprint 1 | cat\npush 3 1\n}' \
        '   33 | init mean mean(iris, axis=0)' 'print "a' $'for i in 1..2 {\n  if i { !true' 'quit' $'exit()\n'
}

# types HOW: all texts, shared by four who type side by side: they wait most of the time.
types()
{
    local i typists=()
    texts >texts
    [ "$(grep -c $'^\f' texts)" -gt 100 ]
    for i in 0 1 2 3; do
        mkdir "$i"
        cp -R "$top/examples" "$top/README.md" "$i"
        cp -R "$data" "$i/examples/"
        awk -v RS='\f\n' -v ORS='\f\n' -v i="$i" 'NR % 4 == i' texts >"$i/texts"
        (cd "$i/examples" && PAGER=cat HOME=$PWD exec timeout 300 "$BATS_FILE_TMPDIR/typist" "$1" 30 \
            kvctl -q --gpus 8 --progress never <../texts >../said) &
        typists+=($!)
    done
    for i in 0 1 2 3; do
        wait "${typists[$i]}" || {
            cat "$i/said"
            fail "$1: the prompt did not come back"
        }
    done
}

@test "typed: every page and example, key by key" {
    types keys
}

@test "typed: every page and example, pasted without brackets" {
    types lines
}

@test "typed: every page and example, pasted" {
    types paste
}

# The reports of golden sessions, with their excerpts: lines with a place or kvctl in front, and what is indented below.
reports_of()
{
    (cd "$top/tests/cli" && LC_ALL=C awk -v input="${1%.err}.in" -f excerpts.awk "$1") |
        awk '/^[^ ].*: error\[/ { inside = 1; print; next } /^ / && inside { print; next } { inside = 0 }'
}

# One kvctl reads all of them: each leaves it as it was, so that it prints the line behind, and nothing else.
@test "typed: a report of an error that is pasted runs nothing" {
    local file
    for file in "$top"/tests/cli/*.err; do
        reports_of "$file" >report
        cat report >>reports
        { cat report; echo 'print 7'; grep '^ ' report || true; echo 'print 7'; } >>pasted # then as one pastes a part
        echo $'7\n7' >>wanted
    done
    [ "$(grep -c '^[^ ]' reports)" -gt 400 ]
    kvctl -q <pasted >printed 2>&1
    diff wanted printed
}
