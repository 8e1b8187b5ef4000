/* Tokens: every kind, where each begins and ends, and what no token is. */
#include "lang/lex.h"
#include "test_lang.h"

/* Tokens as texts: i: integers, f: floats, n: names, s: and F: quoted texts, o: options, signs as
 * they are, $ a line's end. _ stands for a blank before or behind a token. */
static void dump_tokens(buf *out, const char *text, size_t n, bool in_brackets)
{
    static const char kinds[] = {[TOK_INT] = 'i',    [TOK_FLOAT] = 'f',   [TOK_NAME] = 'n',
                                 [TOK_STRING] = 's', [TOK_FSTRING] = 'F', [TOK_OPTION] = 'o'};
    source src = {.name = "t", .text = text, .len = (uint32_t)n, .line = 1, .col = 1};
    lexer lx;
    token t;
    lex_init(&lx, &src);
    lx.in_brackets = in_brackets;
    while ((t = lex_next(&lx)).kind != TOK_END && t.kind != TOK_BAD) {
        if (out->len > 0)
            buf_char(out, ' ');
        if (t.kind == TOK_NEWLINE) {
            buf_char(out, '$');
            continue;
        }
        if (t.blank_before)
            buf_char(out, '_');
        if (t.kind != TOK_SIGN)
            buf_printf(out, "%c:", kinds[t.kind]);
        buf_put(out, text + t.pos, t.end - t.pos);
        if (t.blank_after)
            buf_char(out, '_');
    }
    if (t.kind == TOK_BAD) {
        kv_err e = {0};
        lex_explain(&lx, &e);
        buf_printf(out, "%s! %d-%d %s", out->len > 0 ? " " : "", e.col, e.end, e.text);
    }
}

static void check_tokens(const char *text, const char *want)
{
    own_buf out = {0};
    dump_tokens(&out, text, strlen(text), false);
    CHECK_TEXT(buf_text(&out), want);
}

/* Nothing of a report that was pasted is a token. */
TEST(lex_reports)
{
    check_tokens("t.kv:3:8: error[key]: key 3 | \" ( was never\n"
                 "    3 : !rm x | y\n      : ^^^\n hint: init it\na",
                 "$ _n:a_");
    check_tokens("t.kv:3:8: error[assert]: no\n    3 : a\n      : ^\n  left 3\n  [0]  1.0 2.0\nb",
                 "$ _n:b_");
    check_tokens("kvctl: error[io]: cannot write \"x\na", "$ _n:a_");
    check_tokens("   33 : init mean mean(iris", "");
    check_tokens("100000 : a\n 100000 : a", "_i:100000_ _:_ _n:a_ $");
    check_tokens("  t.kv:3:8: error[key]: no\n     3 : a", "");
    check_tokens("a\n      : ^^^^\nb\n hint: c\nd", "_n:a_ $ $ _n:b_ $ $ _n:d_");
    check_tokens("  in t.kv:12\na", "$ _n:a_");
    check_tokens("  in t.kv:12, key \"w\"\na", "$ _n:a_");
    check_tokens("note: a | b\nwarning: (\nc", "$ $ _n:c_");
    check_tokens("a\n  in b", "_n:a_ $ _n:in_ _n:b_");
    check_tokens("<repl>:1:1: error[key]: a\nkv> b", "$ _n:b_");
    check_tokens("    3 : a\n  kv> b\nc", "$ _n:b_ $");
    /* no reports */
    check_tokens("  3 | a", "_i:3_ _|_ _n:a_");
    check_tokens("  3 :a", "_i:3_ _: n:a_");
    check_tokens("'t:3:8: error[key]: '", "_s:'t:3:8: error[key]: '_");
    check_tokens("t:3: error[key]", "_n:t : i:3 :_ _n:error [ n:key ]_");
}

TEST(lex_signs_behind_others)
{
    check_tokens("a;#b", "_n:a $ # n:b_");
    check_tokens("1.e 1.sqrt 1...3", "_i:1 . n:e_ _i:1 . n:sqrt_ _i:1 ... i:3_");
}

TEST(lex_characters_that_are_none)
{
    check_tokens("a \xef\xbb\xbf", "_n:a_ ! 3-4 the character U+FEFF does not belong here");
    check_tokens("a\x7f", "_n:a ! 2-3 the control character \\x7f does not belong here");
    check_tokens("\xed\xa0\x80", "! 1-2 the byte \\xed is not UTF-8");
    check_tokens("x =\u00a03", "_n:x_ _= ! 4-5 the character U+00A0 does not belong here");
}

TEST(lex_numbers_that_are_none)
{
    check_tokens("a 1e", "_n:a_ ! 3-5 `1e` is not a number");
    check_tokens("0x1f", "! 1-5 `0x1f` is not a number");
    check_tokens("1_000", "! 1-6 `1_000` is not a number");
    check_tokens("1.2.3", "! 1-6 `1.2.3` is not a number");
    check_tokens("1e5.5x+1", "! 1-7 `1e5.5x` is not a number");
    check_tokens("2bit", "! 1-5 `2bit` is not a number");
    check_tokens("3\xc3\xa4", "! 1-3 `3\xc3\xa4` is not a number");
    check_tokens("9223372036854775809",
                 "! 1-20 9223372036854775809 is too large for a 64-bit integer");
    check_tokens("1e999", "! 1-6 1e999 is too large for a number");
    check_tokens("-1e999", "_- ! 2-7 1e999 is too large for a number");
    check_tokens("123456789012345678901234567890123456789012345678901234567890123456789",
                 "! 1-70 123456789012345678901234567890123456789012345678901234567890 is too large "
                 "for a 64-bit integer");
}

TEST(lex_two_to_63)
{
    source src = {.name = "t", .text = "00009223372036854775808", .len = 23, .line = 1, .col = 1};
    lexer lx;
    lex_init(&lx, &src);
    token t = lex_next(&lx);
    CHECK_INT(t.kind, TOK_INT);
    CHECK(t.integer == INT64_MIN);
}

TEST(lex_nul_bytes)
{
    static const struct {
        const char *text;
        size_t n;
        const char *want;
    } rows[] = {{"a\0b", 3, "_n:a_ ! 2-3 a NUL byte does not belong into a script"},
                {"'a\0b'", 5, "! 3-4 a NUL byte does not belong into a script"},
                {"# \0", 3, "! 3-4 a NUL byte does not belong into a script"},
                {"\0", 1, "! 1-2 a NUL byte does not belong into a script"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        own_buf out = {0};
        dump_tokens(&out, rows[i].text, rows[i].n, false);
        CHECK_TEXT(buf_text(&out), rows[i].want);
    }
}

TEST(lex_source_places)
{
    source s = {.name = "t", .text = "a\n\t\xc3\xa4 b\r\nc", .len = 10, .line = 3, .col = 1};
    static const struct {
        uint32_t pos;
        int line, col;
    } rows[] = {{0, 3, 1}, {1, 3, 2}, {2, 4, 1},  {3, 4, 2}, {5, 4, 3},
                {6, 4, 4}, {9, 5, 1}, {10, 5, 2}, {99, 5, 2}};
    /* without a mark, then with one, forwards and backwards */
    source_mark mark = {0};
    for (int k = 0; k < 27; k++) {
        int line, col, i = k < 18 ? k % 9 : 26 - k;
        s.mark = k < 9 ? NULL : &mark;
        source_locate(&s, rows[i].pos, &line, &col);
        CHECK_INT(line, rows[i].line);
        CHECK_INT(col, rows[i].col);
    }
    uint32_t pos;
    for (int line = 5; line >= 3; line--) {
        CHECK(source_find_line(&s, line, &pos));
        CHECK_INT(pos, line == 5 ? 9 : line == 4 ? 2 : 0);
    }
    CHECK(!source_find_line(&s, 6, &pos));
    CHECK(!source_find_line(&s, 2, &pos));
    size_t n;
    CHECK(source_line(&s, 4, &n) == s.text + 2);
    CHECK_INT(n, 5);
}

TEST(lex_source_errors)
{
    source s = {.name = "t", .text = "ab\ncd", .len = 5, .line = 1, .col = 1};
    /* a place that goes on behind its line ends with the line */
    source_err(&s, 1, 4, &e, KV_E_SYNTAX, "x %d", 1);
    CHECK_TEXT(e.text, "x 1");
    CHECK_INT(e.line, 1);
    CHECK_INT(e.col, 2);
    CHECK_INT(e.end, 3);
    /* an error that has a place keeps it */
    source_at(&s, 4, 5, &e);
    CHECK_INT(e.line, 1);
    e = (kv_err){0};
    /* an empty place is one column wide */
    source_err(&s, 5, 5, &e, KV_E_SYNTAX, "x");
    CHECK_INT(e.col, 3);
    CHECK_INT(e.end, 4);
    source_at(&s, 0, 1, NULL);
}
