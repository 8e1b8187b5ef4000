/* <<END: where the text begins and ends, what is dropped, and what is incomplete. */
#include "test_lang.h"

/* The text of a heredoc that begins `text`, or the error; *rest is set to what stands behind it. */
static void read_heredoc(buf *out, const char *text, size_t n, bool *incomplete, const char **rest)
{
    own_arena nodes = {0};
    kv_err e = {0};
    parser p;
    source src = {.name = "s", .text = text, .len = (uint32_t)n, .line = 1, .col = 1};
    parse_init(&p, &src, &nodes, &e);
    p.arguments = true;
    ast *node = parse_heredoc(&p);
    *incomplete = p.lx.incomplete;
    *rest = node ? text + parse_here(&p) : NULL;
    if (node)
        buf_add(out, node->u.text);
    else
        buf_printf(out, "%s:%d:%d: %s", kv_code_name(e.code), e.line, e.col, e.text);
    parse_release(&p);
}

static void check_text(const char *text, const char *want, const char *want_rest)
{
    own_buf out = {0};
    bool incomplete;
    const char *rest;
    read_heredoc(&out, text, strlen(text), &incomplete, &rest);
    CHECK_TEXT(buf_text(&out), want);
    CHECK(!incomplete);
    if (want_rest && rest)
        CHECK_TEXT(rest, want_rest);
}

TEST(parse_heredoc_text)
{
    check_text("<<END\nEND", "", "");
    check_text("<<END\na\n b \nEND\nnext", "a\n b \n", "\nnext");
    check_text("<<X  \n\nX", "\n", "");
    check_text("<<X # a comment\na\nX", "a\n", "");
    check_text("<<END\nENDING\n END x\nEND", "ENDING\n END x\n", "");
    check_text("<<_1\r\na\r\n_1\r\n", "a\n", "\n");
}

TEST(parse_heredoc_indent)
{
    check_text("<<END\n  a\n    b\nc\n  END", "a\n  b\nc\n", "");
    check_text("<<END\n\ta\n\tEND", "a\n", "");
}

static void check_error(const char *text, size_t n, const char *want, bool want_incomplete)
{
    own_buf out = {0};
    bool incomplete;
    const char *rest;
    read_heredoc(&out, text, n, &incomplete, &rest);
    CHECK_TEXT(buf_text(&out), want);
    CHECK_INT(incomplete, want_incomplete);
}

TEST(parse_heredoc_errors)
{
    static const struct {
        const char *text, *want;
        bool incomplete;
    } cases[] = {
        {"3", "syntax:1:1: `3` stands where a text, <<END and its lines, is needed", false},
        {"<< END\nEND",
         "syntax:1:1: the word that ends the text follows << directly: <<END", false},
        {"<<END x\nEND", "syntax:1:7: the text begins on the next line, so nothing follows <<END",
         false},
        {"<<END", "syntax:1:1: the text that opens here does not end in a line `END`", true},
        {"<<END\n", "syntax:1:1: the text that opens here does not end in a line `END`", true},
        {"<<END\na\nEN", "syntax:1:1: the text that opens here does not end in a line `END`", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_error(cases[i].text, strlen(cases[i].text), cases[i].want, cases[i].incomplete);
    static const char nul[] = "<<END\na\0\nEND";
    check_error(nul, sizeof nul - 1,
                "syntax:1:1: the text that opens here does not end in a line `END`", false);
}
