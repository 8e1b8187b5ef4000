/* UTF-8: where characters begin and end. */
#include "base/utf8.h"

#include <stddef.h>
#include <stdint.h>
#include <wctype.h>

size_t utf8_length(const char *text, size_t n, bool *ok)
{
    unsigned char lead = (unsigned char)text[0];
    *ok = lead < 0x80;
    if (lead < 0xC2 || lead > 0xF4)
        return 1;
    size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (n < need)
        return 1;
    for (size_t i = 1; i < need; i++) {
        if (!utf8_is_later(text[i]))
            return 1;
    }
    /* The second byte tells overlong forms, surrogates and what lies beyond U+10FFFF. */
    unsigned char second = (unsigned char)text[1];
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F))
        return 1;
    *ok = true;
    return need;
}

bool utf8_valid(const char *text, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n && ok;)
        i += utf8_length(text + i, n - i, &ok);
    return ok;
}

uint32_t utf8_number(const char *text, size_t size)
{
    unsigned char lead = (unsigned char)*text;
    uint32_t c = size == 1 ? lead : lead & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; i++)
        c = c << 6 | ((unsigned char)text[i] & 0x3f);
    return c;
}

size_t utf8_put(char out[4], uint32_t c)
{
    static const unsigned char leads[] = {0, 0xc0, 0xe0, 0xf0};
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(leads[n - 1] | c);
    return n;
}

size_t utf8_cut(const char *text, size_t n, size_t max)
{
    if (n <= max)
        return n;
    size_t kept = max;
    while (kept > 0 && max - kept < 3 && utf8_is_later(text[kept]))
        kept--;
    return utf8_is_later(text[kept]) ? max : kept;
}

int64_t utf8_count(const char *text, size_t n)
{
    size_t ascii = 0; /* most texts are nothing else */
    while (ascii < n && (unsigned char)text[ascii] < 0x80)
        ascii++;
    int64_t count = (int64_t)ascii;
    for (size_t i = ascii; i < n; count++) {
        bool ok;
        i += utf8_length(text + i, n - i, &ok);
    }
    return count;
}

/* ---- Classes ----------------------------------------------------------------------------------
 *
 * The C library's case of a letter is Python's, except for the letters below. */

typedef struct range {
    uint32_t first, last;
} range;

static bool is_in(uint32_t c, const range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

#define IS_IN(c, ranges) is_in(c, ranges, sizeof(ranges) / sizeof *(ranges))

bool letter_is_space(uint32_t c)
{
    static const range spaces[] = {{0x09, 0x0d},     {0x1c, 0x20},     {0x85, 0x85},
                                   {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
                                   {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                   {0x3000, 0x3000}};
    return IS_IN(c, spaces);
}

bool letter_ends_line(uint32_t c)
{
    static const range ends[] = {{0x0a, 0x0d}, {0x1c, 0x1e}, {0x85, 0x85}, {0x2028, 0x2029}};
    return IS_IN(c, ends);
}

/* Letters whose capitals are several letters: U+00DF to ligatures. */
static const range several[] = {{0xdf, 0xdf},     {0x149, 0x149},   {0x1f0, 0x1f0},
                                {0x390, 0x390},   {0x3b0, 0x3b0},   {0x587, 0x587},
                                {0x1e96, 0x1e9a}, {0x1f50, 0x1f50}, {0x1f52, 0x1f52},
                                {0x1f54, 0x1f54}, {0x1f56, 0x1f56}, {0x1f80, 0x1faf},
                                {0x1fb2, 0x1fb4}, {0x1fb6, 0x1fb7}, {0x1fbc, 0x1fbc},
                                {0x1fc2, 0x1fc4}, {0x1fc6, 0x1fc7}, {0x1fcc, 0x1fcc},
                                {0x1fd2, 0x1fd3}, {0x1fd6, 0x1fd7}, {0x1fe2, 0x1fe4},
                                {0x1fe6, 0x1fe7}, {0x1ff2, 0x1ff4}, {0x1ff6, 0x1ff7},
                                {0x1ffc, 0x1ffc}, {0xfb00, 0xfb06}, {0xfb13, 0xfb17}};

uint32_t letter_upper(uint32_t c, locale_t unicode)
{
    return IS_IN(c, several) ? 0 : (uint32_t)towupper_l((wint_t)c, unicode);
}

/* The small sigma depends on what stands beside it, and U+0130 becomes two characters. */
uint32_t letter_lower(uint32_t c, locale_t unicode)
{
    return c == 0x3a3 || c == 0x130 ? 0 : (uint32_t)towlower_l((wint_t)c, unicode);
}
