# The manual pages: they can be read, and nothing of the tables and headers is missing.

load ../cli/help

setup_file()
{
    local top build
    top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    build=${KVCTL_BUILD:-$top/build}
    "$top/scripts/manual" kvctl "$build/kvctl" >"$BATS_FILE_TMPDIR/kvctl.1"
    "$top/scripts/manual" kvstore "$top"/src/kvstore.h "$top"/lib/array/kv_array.h \
        "$top"/lib/base/kv_dtype.h "$top"/lib/base/kv_err.h >"$BATS_FILE_TMPDIR/kvstore.3"
    "$top/scripts/manual" language "$top/cli/language.md" >"$BATS_FILE_TMPDIR/kvctl-language.7"
}

# A page as the file `text`, with a width in which nothing wraps, without its bold letters.
page()
{
    command -v mandoc >/dev/null || skip "there is no mandoc"
    mandoc -Tutf8 -O width=1000 "$BATS_FILE_TMPDIR/$1" | sed 's/.\x08//g' | tr -s ' ' >text
}

@test "manual: the formatters have nothing to say about the pages" {
    command -v mandoc >/dev/null || command -v man >/dev/null || skip "there is no mandoc and no man"
    local page
    for page in kvctl.1 kvstore.3 kvctl-language.7; do
        if command -v mandoc >/dev/null; then
            run mandoc -Tlint -W warning "$BATS_FILE_TMPDIR/$page"
            assert_output ""
        fi
        if command -v man >/dev/null; then
            run bash -c "LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z '$BATS_FILE_TMPDIR/$page' 2>&1 >/dev/null | grep -v 'cannot adjust'"
            assert_output ""
        fi
    done
}

@test "manual: kvctl(1) has every option, command with its examples, and function" {
    page kvctl.1
    kvctl -c 'help options' | sed -n 's/^  \(-[^ ]*\).*/\1/p' | while read -r option; do
        grep -qF -- " $option" text || fail "no option $option"
    done
    kvctl -c 'help --json' | sed 's/,"functions":.*//' | grep -o '{"name":"[^"]*","usage"' | cut -d '"' -f 4 >names
    [ "$(wc -l <names)" -gt 35 ]
    while read -r name; do
        kvctl -c "help $name" | sed '/^[a-z_]*(/,$d' | tr -s ' ' | while read -r line; do
            grep -qF -- "$line" text || fail "no line \"$line\" of help $name"
        done
    done <names
    sed '/^\.SH COMMANDS/,/^\.SH FUNCTIONS/!d' "$BATS_FILE_TMPDIR/kvctl.1" >commands
    assert_equal "$(grep -c '^\.TP' commands)" "$(wc -l <names)" # each has one heading
    kvctl -c 'help --json' | sed 's/.*,"functions"://' | grep -o '{"name":"[^"]*","usage"' | cut -d '"' -f 4 >names
    [ "$(wc -l <names)" -gt 60 ]
    while read -r name; do
        grep -q "^ $name(" text || fail "no function $name"
    done <names
    grep -q '^ breadcrumbs The largest' text # the rules of merge stand on lines of their own
    grep -q '^ 130 ' text
}

@test "manual: kvctl(1) has the store types and the environment" {
    page kvctl.1 | tr -s ' ' >text
    { kvctl -c 'help environment'; kvctl -c 'help teststore; help byteps' | grep -v '^  here '; } |
        grep . | tr -s ' ' | sed 's/^ //' | while read -r line; do
        grep -qF -- "$line" text || fail "no line \"$line\""
    done
}

@test "manual: kvstore(3) has every declaration, and its contract" {
    page kvstore.3
    "$top/scripts/manual" calls "$top"/src/kvstore.h "$top"/lib/array/kv_array.h "$top"/lib/base/kv_dtype.h \
        "$top"/lib/base/kv_err.h >calls
    [ "$(wc -l <calls)" -gt 80 ]
    while read -r name; do
        grep -q "[ *]$name(" text || fail "no declaration of $name"
    done <calls
    run cat text
    assert_line --partial "Puts a copy of values[i] under the new key keys[i]"
    assert_line --regexp '^ kv_push\(store, &key, 1, &gradient, NULL, &err\); // sum, then updater$'
    assert_line --regexp '^ NULL A function that returns a kv_code refuses a NULL'
    refute_output --partial 'KVSTORE_H'
}

@test "manual: kvctl-language(7) has every line of the page" {
    page kvctl-language.7
    sed '/^#/d; /^```/d; /^|/d; s/\*\*\([^*]*\)\*\*/\1/g' "$top/cli/language.md" | grep . | tr -d '`' | tr -s ' ' >lines
    [ "$(wc -l <lines)" -gt 150 ]
    tr -d '`' <text | tr '\n' ' ' | tr -s ' ' >all
    while read -r line; do
        grep -qF -- "$line" all || fail "no line \"$line\""
    done <lines
}
