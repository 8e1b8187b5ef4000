/* The mutator of the replay, where libFuzzer's own is not there: it knows nothing of coverage, but
 * what lies in files and texts look like. A number becomes another one, a text between quotes a
 * word or another text; words come and go; bytes are flipped, cut out, put twice and moved. */
#include "lies.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

enum { MOST_WORDS = 200, WORD = 64, MOST_MOVED = 1024 };

static uint64_t state;

uint64_t lies_draw(uint64_t n)
{
    state += 0x9E3779B97F4A7C15;
    uint64_t x = state;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return (x ^ (x >> 31)) % n;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static const uint64_t numbers[] = {
    0, 1, UINT64_MAX, 2, 255, UINT16_MAX, INT32_MAX, UINT64_C(1) << 31, UINT32_MAX,
    UINT64_C(1) << 32, UINT64_C(1) << 53, INT64_MAX, INT64_MAX - 7, UINT64_C(1) << 63,
    UINT64_C(1) << 62, 32, 100000000};
enum { NNUMBERS = sizeof numbers / sizeof *numbers };

static const char *const literals[] = {"-1",   "1e3",  "0.5",   "00",
                                       "null", "[]",   "[[1]]", "{}",
                                       "\"\"", "true", "",      "18446744073709551616"};
enum { NLITERALS = sizeof literals / sizeof *literals };

/* For all targets; those of a target's dictionary come behind them. */
static const char *const any_words[] = {
    "", ".", "..", "../../etc/passwd", "/etc/passwd", "\\u0000", "\\u001b[2J\\u009b\\u202e",
    "\xff\xfe", "\xc2\x9b", "\x1b", "\\ud800", "__metadata__", "dtype", "shape", "data_offsets",
    "weight_map", "F4", "F6_E2M3", "BOOL", "C64", "U64", "Q4_0", "(1,)", "<f8", ">f2", "|V2",
    "<c16"};
enum { NANY = sizeof any_words / sizeof *any_words };

static char words[MOST_WORDS][WORD];
static size_t nwords;

/* One of libFuzzer: a word a line, between quotes. */
static void add_word(const char *line, size_t n)
{
    char *word = words[nwords];
    const char *at = memchr(line, '"', n), *end = line + n;
    size_t len = 0;
    if (!at || *line == '#')
        return;
    HOLDS(nwords < MOST_WORDS - 1, "a dictionary of few words");
    for (at++; at < end && *at != '"' && len < WORD - 1; at++) {
        unsigned byte = (unsigned char)*at;
        if (*at == '\\' && at[1] == 'x' && sscanf(at + 2, "%2x", &byte) == 1)
            at += 3;
        else if (*at == '\\')
            byte = (unsigned char)*++at;
        word[len++] = (char)byte;
    }
    nwords++;
}

void lies_dictionary(const char *path)
{
    own_mem char *text = NULL;
    size_t n;
    memset(words, 0, sizeof words);
    for (nwords = 0; nwords < NANY; nwords++)
        strcpy(words[nwords], any_words[nwords]);
    if (file_read(path, &text, &n, NULL) != KV_OK)
        return;
    for (const char *at = text, *next; (next = strchr(at, '\n')); at = next + 1)
        add_word(at, (size_t)(next - at));
}

/* ---- Lies ------------------------------------------------------------------------------------ */

/* What is changed, and its part of n bytes from `at` on. */
typedef struct lie {
    uint8_t *data;
    size_t size, max, at, n;
} lie;

/* Puts n bytes in the place of the part, if there is room. */
static void replace(lie *l, const void *with, size_t n)
{
    if (l->size - l->n + n > l->max)
        return;
    memmove(l->data + l->at + n, l->data + l->at + l->n, l->size - l->at - l->n);
    memcpy(l->data + l->at, with, n);
    l->size += n - l->n;
}

static void replace_by_word(lie *l)
{
    const char *word = words[lies_draw(nwords)];
    replace(l, word, strlen(word));
}

/* The part is a number in digits, the next one from somewhere. */
static bool find_digits(lie *l)
{
    l->at = lies_draw(l->size);
    while (l->at < l->size && !isdigit(l->data[l->at]))
        l->at++;
    for (l->n = 0; l->at + l->n < l->size && isdigit(l->data[l->at + l->n]);)
        l->n++;
    return l->n > 0;
}

static bool find_quoted(lie *l)
{
    l->at = lies_draw(l->size);
    while (l->at < l->size && l->data[l->at] != '"' && l->data[l->at] != '\'')
        l->at++;
    if (l->at == l->size)
        return false;
    uint8_t quote = l->data[l->at++], *end = memchr(l->data + l->at, quote, l->size - l->at);
    l->n = end ? (size_t)(end - l->data) - l->at : 0;
    return end;
}

static void lie_in_digits(lie *l)
{
    char text[32];
    unsigned long long is = 0;
    uint64_t which = lies_draw(NLITERALS + NNUMBERS + 2);
    if (!find_digits(l))
        return;
    for (size_t i = 0; i < l->n; i++)
        is = is * 10 + (l->data[l->at + i] - '0');
    int n = which < NLITERALS ? snprintf(text, sizeof text, "%s", literals[which])
                              : snprintf(text, sizeof text, "%llu",
                                         which < NLITERALS + NNUMBERS
                                             ? (unsigned long long)numbers[which - NLITERALS]
                                         : which % 2 ? is + 1
                                                     : is - 1);
    replace(l, text, (size_t)n);
}

static void lie_in_quotes(lie *l)
{
    char copy[WORD];
    lie other = *l;
    if (!find_quoted(l))
        return;
    if (lies_draw(8) == 0 && find_quoted(&other) && other.n <= sizeof copy) {
        memcpy(copy, l->data + other.at, other.n);
        replace(l, copy, other.n);
    } else {
        replace_by_word(l);
    }
}

/* 1, 2, 4 or 8 bytes become a number, or what stands there plus or minus one. */
static void lie_in_bytes(lie *l)
{
    uint64_t x = 0, which = lies_draw(NNUMBERS + 2);
    size_t width = (size_t)1 << lies_draw(4), at = lies_draw(l->size);
    if (at + width > l->size)
        return;
    memcpy(&x, l->data + at, width);
    x = which < NNUMBERS ? numbers[which] : which % 2 ? x + 1 : x - 1;
    memcpy(l->data + at, &x, width);
}

/* The part is some bytes, or what stands from one comma to another. */
static void find_part(lie *l)
{
    l->at = lies_draw(l->size);
    const uint8_t *comma = memchr(l->data + l->at, ',', l->size - l->at), *next = comma;
    if (!comma || lies_draw(4) == 0) {
        size_t left = l->size - l->at;
        l->n = lies_draw(lies_draw(4) ? (left < 20 ? left : 20) + 1 : left + 1);
        return;
    }
    l->at = (size_t)(comma - l->data);
    for (uint64_t k = 1 + lies_draw(6); k > 0 && next; k--)
        next = memchr(next + 1, ',', (size_t)(l->data + l->size - next) - 1);
    l->n = next ? (size_t)(next - comma) : 1;
}

/* The part is cut out, put twice or moved. */
static void move_part(lie *l)
{
    char copy[MOST_MOVED];
    find_part(l);
    size_t n = l->n < sizeof copy ? l->n : sizeof copy;
    memcpy(copy, l->data + l->at, n);
    if (lies_draw(2))
        replace(l, "", 0);
    l->n = 0;
    if (l->at > l->size || lies_draw(2))
        l->at = lies_draw(l->size + 1);
    if (lies_draw(2))
        replace(l, copy, n);
}

static void put_junk(lie *l)
{
    char junk[64];
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = lies_draw(2) ? (char)lies_draw(256) : 0;
    l->at = lies_draw(2) ? l->size : lies_draw(l->size + 1);
    l->n = 0;
    replace(l, junk, lies_draw(sizeof junk));
}

/* Nothing but words. */
static void put_soup(lie *l)
{
    l->size = l->n = 0;
    for (uint64_t k = 1 + lies_draw(30); k > 0; k--) {
        l->at = l->size;
        replace_by_word(l);
        l->at = l->size;
        replace(l, " ", lies_draw(2));
    }
}

static void tell(lie *l)
{
    switch (l->size > 0 ? lies_draw(12) : 11) {
    case 0:
    case 1:
        lie_in_digits(l);
        break;
    case 2:
        lie_in_quotes(l);
        break;
    case 3:
    case 4:
        lie_in_bytes(l);
        break;
    case 5:
        l->data[lies_draw(l->size)] ^= (uint8_t)(1 << lies_draw(8));
        break;
    case 6:
        l->data[lies_draw(l->size)] = (uint8_t)lies_draw(256);
        break;
    case 7:
        lies_draw(8) ? put_junk(l) : (void)(l->size = lies_draw(l->size));
        break;
    case 8:
        move_part(l);
        break;
    case 9:
    case 10:
        find_part(l);
        l->n = lies_draw(2) ? l->n : 0;
        replace_by_word(l);
        break;
    default:
        lies_draw(4) && nwords > NANY ? put_soup(l) : put_junk(l);
    }
}

void lies_begin(uint64_t seed)
{
    state = seed;
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max)
{
    lie l = {.data = data, .size = n, .max = max};
    for (uint64_t k = 1 + lies_draw(2) * lies_draw(3); k > 0; k--) {
        l.n = 0;
        tell(&l);
    }
    return l.size;
}
