# tests/bench/squares: what is deleted, taken out and put in one by one, and what --check finds, grows with its input.

load ../cli/help

# The least input of a minute is one of hours where the time grows as the square.
@test "squares: keys, lists, dicts, arguments and --check grow no faster than n log n" {
    ! grep -q fsanitize "$build/flags" || skip "a sanitizer has a time of its own"
    BUILD=$build run -0 "$top/tests/bench/squares" --quick 'one by one' pop insert 'of unknown' named queue remove 'both ends'
    refute_output --partial exit
    assert_line --regexp '^delete one by one +[0-9. ]+'
    refute_output --partial 'more than'
}
