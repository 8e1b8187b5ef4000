/* utf8: lengths, cuts and counts of good and bad text. */
#include "test.h"

#include <string.h>

#include "base/utf8.h"

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
