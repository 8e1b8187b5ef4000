/* Texts of users in YAML. What a reader of YAML makes of them: tests/cli/k8s.bats. */

#include "base/yaml.h"
#include "test.h"

static void check_text(const char *text, const char *want)
{
    own_buf b = {0};
    yaml_text(&b, 1, "k", text, strlen(text));
    CHECK_TEXT(buf_text(&b), want);
}

TEST(yaml_text)
{
    check_text("a\n", " k: |\n   a\n");
    check_text("a", " k: |-\n   a\n");
    check_text("a\n\n", " k: |+\n   a\n\n");
    check_text(" a\n\n\tb \n", " k: |2\n    a\n\n   \tb \n");
    check_text("\ta", " k: |2-\n   \ta\n");
    check_text("\n- a: #\n", " k: |2\n\n   - a: #\n");
    check_text("", " k: \"\"\n");
    check_text("\n", " k: \"\\n\"\n");
    check_text("a\r\n", " k: \"a\\x0D\\n\"\n");
    check_text("\"\\\t\x1b\x7f", " k: \"\\\"\\\\\\t\\x1B\\x7F\"\n");
    check_text("\xc3\xbc\xf0\x9f\x98\x80", " k: |-\n   \xc3\xbc\xf0\x9f\x98\x80\n");
    check_text("\xc2\x85\xe2\x80\xa8\xef\xbb\xbf\xf0\x9f\xbf\xbf",
               " k: \"\\x85\\u2028\\uFEFF\\U0001FFFF\"\n");
}

TEST(yaml_base64)
{
    static const char *const want[] = {"", "/w==", "/wA=", "/wD7", "/wD7YQ=="};
    for (size_t n = 0; n < 5; n++) {
        own_buf b = {0};
        yaml_base64(&b, "\xff\0\xfb" "a", n);
        CHECK_TEXT(buf_text(&b), want[n]);
    }
}
