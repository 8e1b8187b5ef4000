/* Regular expressions: the spans that Python's re gives, what is refused with which text, and what
 * happens when memory ends. */
#include "base/regexp.h"

#include "base/stop.h"
#include "test.h"

enum { GROUPS = 8, LONG = 12001 };

/* re.search(pattern, text): where each group begins and ends, in bytes. */
static const struct {
    const char *pattern, *text, *spans;
} found_by_python[] = {
    {"[\\d_]+", "ab12_3c", "2:6"},     {"[^\\w]", "ab-c", "2:3"},
    {"[\\b]", "a\010b", "1:2"},        {"[\\t\\n]+", "a\011\012b", "1:3"},
    {"[]a]+", "b]a]", "1:4"},          {"[a\\-c]+", "b-ac", "1:4"},
    {"[a-]+", "b-a", "1:3"},           {"[\\.-\\/]+", "a./b", "1:3"},
    {"\\W+", "ab, cd", "2:4"},         {"\\D+", "12ab3", "2:4"},
    {"\\S+", "  ab c", "2:4"},         {"\\s\\S", "a \011b c", "2:4"},
    {"[\\s\\D]+", "12 ab3", "2:5"},    {"[\\W\\d]+", "ab1 2c", "2:5"},
    {"[\\S]+", " \303\244b ", "1:4"},  {"\\a\\f\\v\\r", "x\007\014\013\015", "1:5"},
    {"\\.\\*\\\\", "a.*\\", "1:4"},    {"[a-z]", "0q", "1:2"},
    {"a$", "a\012", "0:1"},            {"a\\Z", "a\012", "none"},
    {"a\\Z", "ba", "1:2"},             {"\\Aa", "ba", "none"},
    {"\\bb", "ab b", "3:4"},           {"\\Bb", "b ab", "3:4"},
    {"^b", "ab", "none"},              {"$", "", "0:0"},
    {"a{2}", "aaa", "0:2"},            {"a{2,}", "aaaa", "0:4"},
    {"a{,2}b", "aaab", "1:4"},         {"a{1,3}?", "aaa", "0:1"},
    {"a{0}b", "ab", "1:2"},            {"a{0,0}b", "ab", "1:2"},
    {"a{x", "a{x", "0:3"},             {"a{,", "a{,", "0:3"},
    {"a{1,2,3}", "a{1,2,3}", "0:8"},   {"(ab){2,3}c", "ababababc", "2:9 6:8"},
    {"a*?b", "aab", "0:3"},            {"a+?", "aa", "0:1"},
    {"a??b", "ab", "0:2"},             {"(?:ab)+", "xababa", "1:5"},
    {"(a{2}){2}", "aaaaa", "0:4 2:4"}, {"ab|cd|e", "xcd", "1:3"},
    {"(a)|(b)", "b", "0:1 - 0:1"},     {"(?:a|b)(c)", "bc", "0:2 1:2"},
    {"(a|ab)(c|bcd)(d*)", "abcd", "0:4 0:1 1:4 4:4"},
    {"|a", "a", "0:0"},                            {"(|a)b", "ab", "0:2 0:1"},
    {"((a)(b(c)))", "abc", "0:3 0:3 0:1 1:3 2:3"}, {".", "\303\244", "0:2"},
    {"[\303\244-\303\274]+", "a\303\244\303\266b", "1:5"},
    {"\\w+", "-\303\244\303\2371-", "1:6"}, {"\\bb", "\303\244b", "none"},
    {"[^a]", "\342\202\254", "0:3"},        {"(?=b)\\w+", "abc", "1:3"},
    {"(?<=a)b|(?!x)c", "xcab", "1:2"},      {"(a|b)\\1", "abb", "1:3 1:2"},
    {"(a*)*", "aab", "0:2 2:2"},            {"(|a){2}", "aab", "0:0 0:0"},
    {"(?i)aB", "xAb", "1:3"},               {"(?P<d>\\d+)x(?P=d)", "12x12", "0:5 0:2"},
    {"a{,2}[{,2}]", "aaa,", "1:4"},         {"[\\]Z]\\Z", "ZZ", "1:2"},
    {"\\d", "\331\243", "0:2"},
};

/* The spans of the first match, "none", or the error. */
static void spans_of(char *out, size_t size, regex *r, const char *text)
{
    bool found;
    int64_t span[2 * GROUPS];
    CHECK(regex_groups(r) < GROUPS);
    CHECK_OK(regex_search(r, text, (int64_t)strlen(text), 0, false, false, span, &found, &e));
    snprintf(out, size, "%s", found ? "" : "none");
    for (int i = 0; found && i <= regex_groups(r); i++) {
        size_t n = strlen(out);
        if (span[2 * i] < 0)
            snprintf(out + n, size - n, "%s-", i ? " " : "");
        else
            snprintf(out + n, size - n, "%s%lld:%lld", i ? " " : "", (long long)span[2 * i],
                     (long long)span[2 * i + 1]);
    }
}

TEST(regexp_finds_what_python_finds)
{
    for (size_t i = 0; i < sizeof found_by_python / sizeof *found_by_python; i++) {
        char got[256];
        regex *r = MADE(regex, regex_new, found_by_python[i].pattern);
        spans_of(got, sizeof got, r, found_by_python[i].text);
        if (strcmp(got, found_by_python[i].spans) != 0)
            printf("# %s in %s\n", found_by_python[i].pattern, found_by_python[i].text);
        CHECK_TEXT(got, found_by_python[i].spans);
        regex_free(r);
    }
    regex_free(NULL);
}

/* Without a place in why, that of the error may be another in another PCRE2. */
static void refused(const char *pattern, kv_code code, const char *why)
{
    kv_err e = {0};
    regex *r = NULL;
    char text[200];
    snprintf(text, sizeof text, "the regular expression \"%.60s\" %s", pattern, why);
    CHECK_INT(regex_new(&r, pattern, &e), code);
    char *place = strstr(e.text, ", at character ");
    CHECK(place);
    if (!strstr(why, ", at character "))
        *place = 0;
    CHECK_TEXT(e.text, text);
}

TEST(regexp_refuses)
{
    refused("[a-\\q]", KV_E_VALUE, "has an escape that is not known");
    refused("[a-\\d]", KV_E_VALUE, "has a `-` that makes no range");
    refused("a\\", KV_E_VALUE, "ends in a backslash, at character 2");
    refused("a{99999}", KV_E_VALUE, "is refused: number too big in {} quantifier");
    /* what stands behind things that PCRE2 writes longer or shorter */
    refused("\\v\\Za{,2}[\\v]\303\244)", KV_E_VALUE, "has a ) that opens nowhere, at character 14");
}

TEST(regexp_limits)
{
    static char deep[512], large[LONG];
    for (int i = 0; i < 400; i++)
        deep[i] = '(';
    refused(deep, KV_E_VALUE, "is nested too deep, at character 251");
    memset(large, 'a', 12000);
    regex *r = MADE(regex, regex_new, large);
    regex_free(r);
    refused("((a{9999}){9999}){9}", KV_E_VALUE, "is too long");
}

/* Backtracking ends: at a limit of steps for one place of a text, and at the wish of a user. */
static void too_slow(const char *pattern, const char *text, int code, const char *why)
{
    bool found;
    int64_t span[4];
    regex *r = MADE(regex, regex_new, pattern);
    CHECK_ERR(regex_search(r, text, (int64_t)strlen(text), 0, false, false, span, &found, &e), code,
              why);
    regex_free(r);
}

static int stopped(void)
{
    return 1;
}

TEST(regexp_ends)
{
    static char text[4001];
    memset(text, 'a', 4000);
    too_slow("(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", KV_E_VALUE,
             "the regular expression needs more than a million steps on this text");
    stop_ask(stopped);
    too_slow("a*b", text, KV_E_INTERRUPTED, "interrupted");
    stop_ask(NULL);
}

/* Places are tried some at a time: nothing is missed at the seams. */
TEST(regexp_long_texts)
{
    static char text[3001];
    bool found;
    int64_t span[2];
    memset(text, 'a', 3000);
    regex *r = MADE(regex, regex_new, "(?<=a)b|^c");
    for (int at = 1; at < 3000; at++) {
        text[at] = 'b';
        CHECK_OK(regex_search(r, text, 3000, 0, false, false, span, &found, &e));
        CHECK(found && span[0] == at && span[1] == at + 1);
        text[at] = 'c';
        CHECK_OK(regex_search(r, text, 3000, 0, false, true, span, &found, &e));
        CHECK(!found);
        text[at] = 'a';
    }
    regex_free(r);
}

/* re.sub(pattern, to, text) */
static void becomes(const char *pattern, const char *to, const char *text, const char *want)
{
    own_buf out = {0};
    regex *r = MADE(regex, regex_new, pattern);
    CHECK_OK(regex_check_replacement(r, to, &e));
    CHECK_OK(regex_replace(r, text, (int64_t)strlen(text), to, 0, &out, NULL, &e));
    CHECK_TEXT(buf_text(&out), want);
    regex_free(r);
}

TEST(regexp_replaces_as_python)
{
    becomes("x*", "-", "abxd", "-a-b--d-");
    becomes("b*", "-", "abbc", "-a--c-");
    becomes("(?P<n>\\d+)", "<\\g<n>|\\g<0>|\\1|\\g<1>0>", "a12", "a<12|12|12|120>");
    becomes("(a)(b)?", "\\2\\1\\n\\\\.", "ac", "a\n\\.c");
    becomes("\\w", "x", "\303\244\377b", "x\377x"); /* a byte that is not a letter stays */
}

TEST(regexp_refuses_replacements)
{
    static const char *const bad[][2] = {
        {"\\3", "the regular expression has no group 3"},
        {"\\g<m>", "the regular expression has no group m"},
        {"\\g<9>", "the regular expression has no group 9"},
        {"\\g<>", "the regular expression has no group "},
        {"\\q", "a replacement has an escape that is not known: \\q"},
        {"\\g<n", "a replacement has an escape that is not known: \\g"},
        {"a\\", "a replacement has an escape that is not known: \\"},
    };
    regex *r = MADE(regex, regex_new, "(?P<n>a)(b)");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_ERR(regex_check_replacement(r, bad[i][0], &e), KV_E_VALUE, bad[i][1]);
    regex_free(r);
}

TEST(regexp_at_once_and_not_empty)
{
    bool found;
    int64_t span[2];
    regex *r = MADE(regex, regex_new, "b*");
    CHECK_OK(regex_search(r, "abb", 3, 0, false, false, span, &found, &e));
    CHECK(found && span[0] == 0 && span[1] == 0);
    CHECK_OK(regex_search(r, "abb", 3, 0, false, true, span, &found, &e));
    CHECK(found && span[0] == 1 && span[1] == 3);
    CHECK_OK(regex_search(r, "abb", 3, 0, true, true, span, &found, &e));
    CHECK(!found);
    CHECK_OK(regex_search(r, "abb", 3, 2, true, false, span, &found, &e));
    CHECK(found && span[0] == 2 && span[1] == 3);
    regex_free(r);
}

/* A regular expression of every construct, and a text that is not UTF-8. */
static int every_construct(char *spans, size_t size, kv_err *e)
{
    char pattern[1024] = "([a-c\\d]+)|x{1,2}y?(?:z|\\w)*\\b[^\\s]$";
    for (int i = 0; i < 110; i++)
        strcat(pattern, "(q)?");
    regex *r = NULL;
    int64_t span[2 * 128];
    bool found = false;
    int rc = regex_new(&r, pattern, e);
    if (rc == KV_OK) {
        rc = regex_search(r, "-ab1", 4, 0, false, false, span, &found, e);
        regex_free(r);
    }
    if (rc == KV_OK)
        snprintf(spans, size, "%d %lld:%lld", found, (long long)span[0], (long long)span[1]);
    return rc;
}

TEST(regexp_without_memory)
{
    bool begins = false, compiles = false;
    for (int sign = -1; sign <= 1; sign += 2) {
        for (int64_t n = 1, rc = KV_E_MEMORY; rc != KV_OK; n++) {
            char spans[64] = "";
            rc = WITHOUT_MEMORY(sign * n, every_construct(spans, sizeof spans, &e));
            CHECK(n < 1000);
            CHECK(rc == KV_E_MEMORY || strcmp(spans, "1 1:4") == 0);
            begins |= strcmp(e.text, "out of memory for a regular expression") == 0;
            compiles |= strncmp(e.text, "out of memory for the regular expression \"", 42) == 0;
        }
    }
    CHECK(begins && compiles);
}
