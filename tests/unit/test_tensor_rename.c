/* Substitutions in names: s/RE/TO/ with the regular expressions of texts. */
#include "tensors/conversion.h"

#include "test.h"

static int matches; /* that renaming_apply counted last */

static void becomes(const char *rule, const char *name, const char *want)
{
    buf out = {0};
    renaming *r = MADE(renaming, renaming_new, rule);
    CHECK_OK(renaming_apply(r, name, &out, &matches, &e));
    CHECK_TEXT(buf_text(&out), want);
    buf_release(&out);
    renaming_free(r);
}

TEST(tensor_rename)
{
    becomes("s/^model\\./m./", "model.layers.model.w", "m.layers.model.w");
    CHECK_INT(matches, 1);
    becomes("s/x/y/", "abc", "abc");
    CHECK_INT(matches, 0);
    becomes("s/x/y/", "", "");
    becomes("s/b/B/", "abab", "aBab");
    CHECK_INT(matches, 2);
    becomes("s/b/B/g", "abab", "aBaB");
    CHECK_INT(matches, 1);
    becomes("s/b//g", "abab", "aa");
    becomes("s/layers\\.([0-9]+)\\.(.*)/h.\\1.\\2/", "model.layers.10.w", "model.h.10.w");
    becomes("s/(a)(b)?/<\\2|\\1>/", "ac", "<|a>c");
    becomes("s/b+/[&]/", "abbc", "a[bb]c");
    becomes("s/b+/[\\0\\&\\\\]/", "abbc", "a[bb&\\]c");
    becomes("s|/|.|g", "a/b/c", "a.b.c");
    becomes("s/\\//./g", "a/b/c", "a.b.c");
    becomes("s,a,\\,,", "bab", "b,b");
    becomes("s/^/model./", "w", "model.w");
    becomes("s/$/.weight/", "w", "w.weight");
    becomes("s/^a/x/g", "aaa", "xaa");
    becomes("s/(.)\\1/2\\1/g", "aabb", "2a2b");
    becomes("s/a|b/x/g", "cab", "cxx");
    becomes("s/layers\\.\\d+\\.//", "model.layers.10.w", "model.w");
    becomes("s/.+?\\./X./", "a.b.c", "X.b.c");
    becomes("s/(?:a|b)(?P<k>c)/\\g<k>\\g<0>\\g<1>/", "bc", "cbcc");
    becomes("s/(a)/\\1\\&\\\\&/", "a", "a&\\a");
    becomes("s/a/$1/", "ab", "$1b"); /* there is no group that it could be taken for */
    becomes("s/(a)/\\$1$x\\1/", "ab", "$1$xab");
}

/* Empty matches, as Python has them. */
TEST(tensor_rename_empty_matches)
{
    becomes("s/x*/-/", "abc", "-abc");
    becomes("s/x*/-/g", "abc", "-a-b-c-");
    becomes("s/b*/-/g", "abbc", "-a--c-");
    becomes("s/c*/-/g", "abc", "-a-b--");
    becomes("s/x*/-/g", "", "-");
    becomes("s/x*/-/g", "\xc3\xa9", "-\xc3\xa9-");
}

TEST(tensor_rename_errors)
{
    static const char *const bad[] = {"",       "s",     "s/",     "s/a",    "s/a/b", "a/b/",
                                      "y/a/b/", "s/a/b/i", "s/a/b/gg", "s\\a\\b\\", "s a b ",
                                      "s/a/b\\", "s\xc3""a\xc3""b\xc3"};
    renaming *r = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        own_buf want = {0};
        buf_printf(&want, "`%s` is not a substitution", bad[i]);
        CHECK_ERR(renaming_new(&r, bad[i], &e), KV_E_USAGE, buf_text(&want));
    }
    CHECK_ERR(renaming_new(&r, "s/(a)/${1}/", &e), KV_E_USAGE,
              "`s/(a)/${1}/`: $1 is not a group here");
    CHECK_ERR(renaming_new(&r, "s/^lm_(head)/$1/", &e), KV_E_USAGE,
              "`s/^lm_(head)/$1/`: $1 is not a group here");
    CHECK_CODE(renaming_new(&r, "s/(a/b/", &e), KV_E_USAGE);
    CHECK_ERR(renaming_new(&r, "s/a/\\1/", &e), KV_E_USAGE,
              "`s/a/\\1/`: the regular expression has no group 1");
    CHECK_ERR(renaming_new(&r, "s/(a)(b)/\\3/", &e), KV_E_USAGE,
              "`s/(a)(b)/\\3/`: the regular expression has no group 3");
    CHECK(!r);
}

TEST(tensor_rename_no_memory)
{
    int code = KV_E_MEMORY, n = 0;
    for (n = 1; n < 50 && code; n++) {
        e = (kv_err){0};
        renaming *r = NULL;
        buf out = {0};
        mem_fail_at(n);
        code = renaming_new(&r, "s/a/bcd/", &e);
        if (code == KV_OK)
            code = renaming_apply(r, "xay", &out, NULL, &e);
        mem_fail_at(0);
        CHECK(code == KV_OK || code == KV_E_MEMORY);
        buf_release(&out);
        renaming_free(r);
    }
    CHECK(code == KV_OK && n > 3);
}
