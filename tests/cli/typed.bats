# What people type and paste at the prompt, in a terminal: every page and every example, key by key so
# that each hint is drawn, and pasted. The prompt must come back from each, and reports of errors run
# nothing. typist.c is who types.

load help

setup_file()
{
    local top
    top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    PATH=${KVCTL_BUILD:-$top/build}:$PATH texts >"$BATS_FILE_TMPDIR/texts"
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
    local name page=
    for name in $(kvctl -c 'help --json' | grep -o '"name":"[a-z-]*","usage"' | cut -d'"' -f4); do
        [ "$name" = doctor ] || page+="help $name; print 0"$'\n'
    done
    kvctl -c "$page" | awk '/^0$/ { print "\f"; inside = 0; next } inside && sub(/^    /, "") { print } /^  [^ ]/ { inside = 1 }'
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
    [ "$(grep -c $'^\f' "$BATS_FILE_TMPDIR/texts")" -gt 100 ]
    for i in 0 1 2 3; do
        mkdir "$i"
        cp -R "$top/examples" "$top/README.md" "$i"
        cp -R "$data" "$i/examples/"
        awk -v RS='\f\n' -v ORS='\f\n' -v i="$i" 'NR % 4 == i' "$BATS_FILE_TMPDIR/texts" >"$i/texts"
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

# Reports of golden sessions, with their excerpts, are lines with a place or kvctl in front, and what is indented below.
# One kvctl reads all of them: each leaves it as it was, so that it prints the line behind, and nothing else.
@test "typed: a report of an error that is pasted runs nothing" {
    (
        cd "$top/tests/cli"
        for file in *.err; do
            LC_ALL=C awk -v input="${file%.err}.in" -f excerpts.awk "$file"
            echo $'\f'
        done
    ) | awk '
        function add(line) { report = report line "\n"; if (line ~ /^ /) part = part line "\n" }
        /^\f/ {
            printf "%s", report >"reports"
            printf "%sprint 7\n%sprint 7\n", report, part >"pasted" # then as one pastes a part
            print "7\n7" >"wanted"
            report = part = ""
            inside = 0
            next
        }
        /^[^ ].*: error\[/ { inside = 1; add($0); next }
        /^ / && inside { add($0); next }
        { inside = 0 }'
    [ "$(grep -c '^[^ ]' reports)" -gt 400 ]
    kvctl -q <pasted >printed 2>&1
    diff wanted printed
}
