/* kv_err: the first failure wins, texts are cut at a character and hold no control characters. */
#include "test.h"

TEST(err_first_failure_wins)
{
    CHECK_INT(kv_err_set(&e, KV_E_SHAPE, "shape %d", 1), KV_E_SHAPE);
    CHECK_INT(kv_err_set(&e, KV_E_KEY, "key %d", 2), KV_E_KEY);
    CHECK_INT(e.code, KV_E_SHAPE);
    CHECK_TEXT(e.text, "shape 1");
    kv_err_hint(&e, "first");
    kv_err_hint(&e, "second");
    CHECK_TEXT(e.hint, "first");
    kv_err_at(&e, "a.kv", 3, 4, 9);
    kv_err_at(&e, "b.kv", 5, 6, 7);
    CHECK_TEXT(e.file, "a.kv");
    CHECK_INT(e.line, 3);
    CHECK_INT(e.col, 4);
    CHECK_INT(e.end, 9);
    kv_key k1 = {7, NULL}, k2 = {0, "w"};
    kv_err_key(&e, &k1);
    kv_err_key(&e, &k2);
    CHECK_INT(e.has_key, 1);
    CHECK_INT(e.key_is_text, 0);
    CHECK_INT(e.key_id, 7);
}

TEST(err_without_failure)
{
    kv_key k = {1, NULL};
    kv_err_hint(&e, "hint");
    kv_err_at(&e, "f", 1, 1, 2);
    kv_err_key(&e, &k);
    kv_err zero = {0};
    CHECK(memcmp(&e, &zero, sizeof e) == 0);

    CHECK_INT(kv_err_set(NULL, KV_E_IO, "x"), KV_E_IO);
    kv_err_hint(NULL, "x");
    kv_err_at(NULL, "x", 1, 1, 1);
    kv_err_key(NULL, &k);
}

TEST(err_option)
{
    kv_err_option(NULL, 1);
    kv_err_option(&e, 1);
    CHECK_INT(e.option, 0);
    kv_err_set(&e, KV_E_VALUE, "too small");
    kv_err_option(&e, -1);
    kv_err_option(&e, 255);
    CHECK_INT(e.option, 0);
    kv_err_option(&e, 254);
    kv_err_option(&e, 3);
    CHECK_INT(e.option, 255);
}

TEST(err_names)
{
    CHECK_TEXT(kv_code_name(KV_OK), "ok");
    CHECK_TEXT(kv_code_name(KV_E_INTERNAL), "internal");
    CHECK_TEXT(kv_code_name(KV_NCODES), "unknown");
    CHECK_TEXT(kv_code_name(-1), "unknown");
    for (int i = 0; i < KV_NCODES; i++)
        CHECK(kv_code_name(i) && kv_code_name(i)[0]);
    CHECK_INT(sizeof(kv_err), 1024);
}

/* Whether text ends in a whole character, given that it was whole before the cut. */
static int ends_whole(const char *text)
{
    size_t n = strlen(text), back = 0;
    while (back < n && ((unsigned char)text[n - 1 - back] & 0xC0) == 0x80)
        back++;
    unsigned char lead = back < n ? (unsigned char)text[n - 1 - back] : 0;
    size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    return need == back + 1;
}

TEST(err_cuts_at_a_character)
{
    static const char *const letters[] = {"a", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    char text[1200];
    for (int kind = 0; kind < 4; kind++) {
        for (int shift = 0; shift < 5; shift++) {
            memset(text, 'x', (size_t)shift);
            text[shift] = '\0';
            while (strlen(text) < 1100)
                strcat(text, letters[kind]);
            e = (kv_err){0};
            kv_err_set(&e, KV_E_IO, "%s", text);
            kv_err_hint(&e, "%s", text);
            kv_err_at(&e, text, 1, 1, 1);
            kv_key k = {0, text};
            kv_err_key(&e, &k);
            size_t size = strlen(letters[kind]);
            CHECK(strlen(e.text) > sizeof e.text - 1 - size && strlen(e.text) < sizeof e.text);
            CHECK(strlen(e.hint) > sizeof e.hint - 1 - size && ends_whole(e.hint));
            CHECK(strlen(e.key_name) > sizeof e.key_name - 1 - size && ends_whole(e.key_name));
            CHECK(ends_whole(e.text));
            /* The file keeps its end and begins with a whole character. */
            CHECK(strlen(e.file) > sizeof e.file - 1 - size);
            CHECK(((unsigned char)e.file[0] & 0xC0) != 0x80);
            CHECK_TEXT(e.file, text + strlen(text) - strlen(e.file));
        }
    }
}

TEST(err_fits_exactly)
{
    char text[600];
    memset(text, 'y', sizeof text);
    memcpy(text + 509, "\xC3\xA4", 3); /* ends at byte 511 with its NUL behind */
    kv_err_set(&e, KV_E_IO, "%s", text);
    CHECK_TEXT(e.text, text);
    kv_key k = {0, text};
    kv_err_key(&e, &k);
    CHECK_INT(strlen(e.key_name), 95);
}

TEST(err_no_control_characters)
{
    kv_err_set(&e, KV_E_FORMAT, "a\x1b[2Jb\nc\x7f \xC3\xA4");
    CHECK_TEXT(e.text, "a?[2Jb?c? \xC3\xA4");
}
