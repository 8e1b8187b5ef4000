/* utf8: lengths, cuts and counts of good and bad text. */

#include "base/buf.h"
#include "base/utf8.h"
#include "test.h"

/* The length of the first character of text, negative when it is no UTF-8. */
static int length(const char *text)
{
    bool ok;
    size_t n = utf8_length(text, strlen(text), &ok);
    return ok ? (int)n : -(int)n;
}

TEST(utf8_lengths)
{
    CHECK_INT(length("a"), 1);
    CHECK_INT(length("\x7F"), 1);
    CHECK_INT(length("\xC2\x80"), 2);
    CHECK_INT(length("\xE0\xA0\x80"), 3);
    CHECK_INT(length("\xED\x9F\xBF"), 3);
    CHECK_INT(length("\xEF\xBF\xBF"), 3);
    CHECK_INT(length("\xF0\x90\x80\x80"), 4);
    CHECK_INT(length("\xF4\x8F\xBF\xBF"), 4);
    CHECK_INT(length("\x80"), -1);
    CHECK_INT(length("\xC1\x80"), -1);         /* overlong */
    CHECK_INT(length("\xE0\x9F\xBF"), -1);     /* overlong */
    CHECK_INT(length("\xED\xA0\x80"), -1);     /* surrogate */
    CHECK_INT(length("\xF0\x8F\xBF\xBF"), -1); /* overlong */
    CHECK_INT(length("\xF4\x90\x80\x80"), -1); /* too large */
    CHECK_INT(length("\xF5\x80\x80\x80"), -1);
    CHECK_INT(length("\xE2\x82"), -1); /* cut */
    CHECK_INT(length("\xE2x\x82"), -1);
    CHECK_INT(length("\xFF"), -1);
    CHECK_INT(utf8_count("a\xC3\xA4\xE2\x82\xAC\xFFz", 8), 5);
    CHECK_INT(utf8_count("", 0), 0);
}

TEST(utf8_cuts)
{
    const char *text = "a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80z";
    static const int kept[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (size_t max = 0; max < sizeof kept / sizeof *kept; max++)
        CHECK_INT(utf8_cut(text, 11, max), kept[max]);
    CHECK_INT(utf8_cut("\x80\x80\x80\x80\x80\x80", 6, 4), 4);
}

/* visible: which characters reach a terminal as they are. */

static void check_line(const char *text, const char *want)
{
    own_buf out = {0};
    visible_line(&out, text, strlen(text));
    CHECK_TEXT(buf_text(&out), want);
    CHECK_INT(visible_is_plain(text, strlen(text)), strcmp(text, want) == 0);
}

TEST(visible_controls)
{
    check_line("a b~", "a b~");
    check_line("\x1b[31m\r\b\x7f", "\\x1b[31m\\x0d\\x08\\x7f");
    check_line("a\tb\nc", "a\\x09b\\x0ac");
    check_line("\xc2\x80|\xc2\x9b|\xc2\x9f|\xc2\xa0", "\\u{80}|\\u{9b}|\\u{9f}|\xc2\xa0");
    check_line("\x9b\xff\xc3", "\\x9b\\xff\\xc3");
}

TEST(visible_order)
{
    check_line("\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9", "\xe2\x80\xa7\\u{2028}\\u{2029}");
    check_line("\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf", "\\u{202a}\\u{202e}\xe2\x80\xaf");
    check_line("\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa",
               "\xe2\x81\xa5\\u{2066}\\u{2069}\xe2\x81\xaa");
    /* Arabic, an emoji; marks of a direction, tags and what stands beside them */
    check_line("\xd8\xb3 \xf0\x9f\x98\x80", "\xd8\xb3 \xf0\x9f\x98\x80");
    check_line("\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "\\u{61c}\\u{200e}\\u{200f}");
    check_line("\xf3\xa0\x80\x80\xf3\xa0\x81\xbf", "\\u{e0000}\\u{e007f}");
    check_line("\xd8\x9b\xe2\x80\x8d\xf3\xa0\x82\x80", "\xd8\x9b\xe2\x80\x8d\xf3\xa0\x82\x80");
}

TEST(visible_of_lines)
{
    own_buf out = {0};
    visible_lines(&out, "a\tb\n\x1b\nc", 7);
    CHECK_TEXT(buf_text(&out), "a\tb\n\\x1b\nc");
}
