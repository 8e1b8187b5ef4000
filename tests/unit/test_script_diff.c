/* Differences between texts, and what does not count. */
#include "out/transcript.h"

#include "test.h"

static void check_diff(const char *expected, const char *got, const char *want)
{
    own_buf out = {0};
    diff_lines(&out, expected, got);
    CHECK_TEXT(buf_text(&out), want);
}

TEST(script_diff_lines)
{
    check_diff("", "", "");
    check_diff("a\n", "", "- a\n");
    check_diff("", "a", "+ a\n");
    check_diff("a\nb\nc", "a\nx\nc", "  a\n- b\n+ x\n  c\n");
    check_diff("a\nb\nc\nd", "b\nc\nx\nd", "- a\n  b\n  c\n+ x\n  d\n");
    check_diff("a\tb", "a b", "- a\\x09b\n+ a b\n");
}

TEST(script_diff_leaves_out_what_is_equal)
{
    check_diff("1\n2\n3\n4\nx\n5\n6\n7", "1\n2\n3\n4\ny\n5\n6\n7",
               "  ... 2 equal lines\n  3\n  4\n- x\n+ y\n  5\n  6\n  7\n");
    check_diff("x\n1\n2\n3\n4", "y\n1\n2\n3\n4", "- x\n+ y\n  1\n  2\n  ... 2 equal lines\n");
}

/* Middles that are too long for the table are shown one after the other, each cut. */
TEST(script_diff_long)
{
    own_buf a = {0}, b = {0}, minus = {0}, plus = {0};
    for (int i = 0; i < 1000; i++) {
        buf_printf(&a, "a%d\n", i);
        buf_printf(&b, "b%d\n", i);
        if (i < 100) {
            buf_printf(&minus, "- a%d\n", i);
            buf_printf(&plus, "+ b%d\n", i);
        }
    }
    buf_printf(&minus, "- ... and 900 more\n%s+ ... and 900 more\n", buf_text(&plus));
    check_diff(buf_text(&a), buf_text(&b), buf_text(&minus));
}

static void check_normal(const char *text, const char *want)
{
    own_buf b = {0};
    buf_add(&b, text);
    diff_normalise(&b);
    CHECK_TEXT(buf_text(&b), want);
}

TEST(script_diff_normalise)
{
    check_normal("", "");
    check_normal(" \n\r\n", "");
    check_normal("a  \n b\r\n\n", "a\n b");
    check_normal("a\n\nb", "a\n\nb");
    check_normal("a\r\n b \r\nc", "a\n b\nc");
    check_normal("a\rb\r\nc\rd", "a\rb\nc\rd");
}
