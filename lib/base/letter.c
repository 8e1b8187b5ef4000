/* Characters of Unicode. The C library's case of a letter is Python's, but for
 * the letters below. */
#include "base/letter.h"

#include <stddef.h>
#include <wctype.h>

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
