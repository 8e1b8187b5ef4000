/* KEYS: words of their own. */
#include "test_lang.h"

/* KEYS, and behind | what is left. */
static bool keys(lang_text *t)
{
    ast *node = parse_keys(&t->p);
    if (!node)
        return false;
    lang_dump(&t->out, node, NULL);
    uint32_t rest = parse_here(&t->p);
    if (rest < t->src.len)
        buf_printf(&t->out, " | %s", t->src.text + rest);
    return true;
}

/* The longest of the signs wins: `w->v` is the key w and a redirect. */
TEST(parse_key_before_a_redirect)
{
    LANG_TREES(keys,
        {"w->v", "(key w) | ->v"},       {"w -> v", "(key w) | -> v"},
        {"3->v", "(key 3) | ->v"},       {"0..3->v", "(keys (.. 0 3)) | ->v"},
        {"w>f.csv", "(key w) | >f.csv"}, {"w|cat", "(key w) | |cat"},
        {"[a]->v", "(keys a) | ->v"},    {"\"a\"->v", "(key a) | ->v"},
        {"a-b->v", "(key a-b) | ->v"});
}

TEST(parse_key_begins_with_a_digit)
{
    LANG_TREES(keys,
        {"0.bias", "(key 0.bias)"},     {"12.0.w->v", "(key 12.0.w) | ->v"},
        {"3d.w,0.w", "(keys 3d.w 0.w)"}, {"[0.w]", "(keys 0.w)"},
        {"0..3", "(keys (.. 0 3))"},    {"3", "(key 3)"});
    LANG_ERRORS(keys,
        {"1.e5", "1:1-5", "`1.e5` is not a key",
         "\"1.e5\" for a text key, (1.e5) to compute one"},
        {"1.0_0", "1:1-6", "`1.0_0` is not a key",
         "\"1.0_0\" for a text key, (1.0_0) to compute one"});
}

#define NO_KEY_HINT                                                                                \
    "quote a text key: \"…\"; compute one in brackets: (…); blanks separate arguments"

#define FILLED_HINT "f\"layer{i}\" is a key with the value of i in it"

TEST(parse_key_errors)
{
    LANG_ERRORS(keys,
        {"", "1:1-2", "the text ends where a key is needed"},
        {"\n", "1:1-2", "the statement ends where a key is needed"},
        {"- 1", "1:1-2", "`-` stands where a key is needed"},
        {"+3", "1:1-2", "`+` stands where a key is needed"},
        {"-a", "1:1-2", "`-` stands where a key is needed"},
        {"@a.csv", "1:1-2", "`@` stands where a key is needed"},
        {"3-1 5", "1:1-4", "`3-1` is not a key", "\"3-1\" for a text key, (3-1) to compute one"},
        {"3a 5", "1:1-3", "`3a` is not a key", "\"3a\" for a text key, (3a) to compute one"},
        {"1.5", "1:1-4", "`1.5` is not a key", "\"1.5\" for a text key, (1.5) to compute one"},
        {"1e3", "1:1-4", "`1e3` is not a key", "\"1e3\" for a text key, (1e3) to compute one"},
        {"3(a)", "1:1-5", "`3(a)` is not a key", "\"3(a)\" for a text key, (3(a)) to compute one"},
        {"0..9.w", "1:1-7", "`0..9.w` is not a key",
         "\"0..9.w\" for a text key, (0..9.w) to compute one"},
        {"0..", "1:1-4", "`0..` is not a key", "\"0..\" for a text key, (0..) to compute one"},
        {"w- 1", "1:1-3", "a bare key does not end in `-`"},
        {"w-", "1:1-3", "a bare key does not end in `-`"},
        {"w[0] 1", "1:1-5", "`w[0]` is not a key", NO_KEY_HINT},
        {"w+1", "1:1-4", "`w+1` is not a key", NO_KEY_HINT},
        {"w#x", "1:1-4", "`w#x` is not a key", NO_KEY_HINT},
        {"w{key}", "1:1-7", "`w{key}` is not a key", "f\"w{key}\" is a key with a value in it"},
        {"w$i 1", "1:1-4", "`w$i` is not a key", FILLED_HINT},
        {"w{0..}", "1:1-7", "`w{0..}` is not a key", NO_KEY_HINT},
        {"w'x'", "1:1-5", "`w'x'` is not a key", NO_KEY_HINT},
        {"9223372036854775808", "1:1-20", "an integer key has 64 bits, this one needs more", NULL,
         KV_E_VALUE},
        {"0..99999999999999999999", "1:4-24", "an integer key has 64 bits, this one needs more",
         NULL, KV_E_VALUE},
        {"-9223372036854775809", "1:1-21", "an integer key has 64 bits, this one needs more", NULL,
         KV_E_VALUE},
        {"5, 7", "1:2-3", "no blank may follow the comma between keys",
         "several keys: a,b or [a, b]; a blank alone parts keys from a value"},
        {"5,", "1:3-4", "the text ends where a key is needed"},
        {"5,\n7", "1:3-4", "the statement ends where a key is needed"},
        {"5,,7", "1:3-4", "`,` stands where a key is needed"},
        {"[]", "1:2-3", "`]` stands where a key is needed"},
        {"[5 7]", "1:4-5", "`7` stands where `]` is needed", "a comma stands between two values"},
        {"[5", "1:1-2", "the `[` that opens here is not closed"},
        {"[5,\n", "1:1-2", "the `[` that opens here is not closed"},
        {"[5)", "1:3-4", "`)` stands where `]` is needed"},
        {"[3-1]", "1:2-5", "`3-1` is not a key", "\"3-1\" for a text key, (3-1) to compute one"},
        {"[[5]]", "1:2-3", "`[` stands where a key is needed"},
        {"(5", "1:1-2", "the `(` that opens here is not closed"},
        {"$", "1:1-2", "`$` needs the name of a variable"},
        {"\"a", "1:1-2", "the quote that opens here is not closed"},
        {"a\xff", "1:1-3", "a key is UTF-8, this one is not"},
        {"'\xc3'", "1:1-4", "a key is UTF-8, this one is not"});
}

TEST(parse_key_lengths)
{
    for (int quoted = 0; quoted < 2; quoted++) {
        for (int over = 0; over < 2; over++) {
            own_text *text = lang_repeated(quoted ? "\"" : "", "k", KV_KEY_MAX + over,
                                       quoted ? "\"" : "", "", "");
            LANG_TEXT(t, text);
            ast *node = parse_keys(&t.p);
            CHECK(over == (node == NULL));
            CHECK_TEXT(t.e.text, over ? "a key has at most 4096 bytes" : "");
        }
    }
}

TEST(parse_key_depth)
{
    for (int over = 0; over < 2; over++) {
        own_text *text = lang_repeated("", "(", PARSE_MAX_DEPTH + over, "1", ")", "");
        LANG_TEXT(t, text);
        CHECK(over == (parse_keys(&t.p) == NULL));
        CHECK_TEXT(t.e.text, over ? "nested deeper than 200" : "");
    }
}

TEST(parse_key_no_memory)
{
    lang_no_memory("[w, $k[0], (1 + 2), 'x', 0..3, layer{0..3}, f\"{a}\", a, b, c, d, e, g, h, i]",
                   keys, 5);
}
