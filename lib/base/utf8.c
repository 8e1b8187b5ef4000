/* UTF-8: where characters begin and end. */
#include "base/utf8.h"

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
