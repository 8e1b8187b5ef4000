/* visible: which characters reach a terminal as they are. */
#include "test.h"

#include <string.h>

#include "base/visible.h"

static void check_line(const char *text, const char *want)
{
    buf out = {0};
    visible_line(&out, text, strlen(text));
    CHECK_TEXT(buf_text(&out), want);
    CHECK_INT(visible_is_plain(text, strlen(text)), strcmp(text, want) == 0);
    buf_release(&out);
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
    buf out = {0};
    visible_lines(&out, "a\tb\n\x1b\nc", 7);
    CHECK_TEXT(buf_text(&out), "a\tb\n\\x1b\nc");
    buf_release(&out);
}
