/* The text of a rule that merges: read, and planned for some models, also when memory runs out. The
 * first byte draws what the merge has. */
#include "fuzz.h"

#include "base/mem.h"
#include "lang/parse.h"
#include "vm/merge.h"

static void make_plan(const source *s, unsigned what)
{
    static const double numbers[] = {1, 2, 3, 4, 5};
    kv_err e = {0};
    arena memory = {0};
    rule_ast *r = NULL;
    merge_rule *m = NULL;
    merge_plan p = {0};
    merge_form form = {(int)(what % 5), what & 8, what & 16};
    const char *name = "k", *value = "2";
    merge_given given = {"key", numbers, numbers, 12, 4, what & 32, {false}};
    int code = parse_merge(&r, s, &memory, &e);
    if (!code)
        code = merge_rule_make(&m, r, s, form, &name, &value, what >> 6 & 1, &e);
    if (!code)
        code = merge_plan_make(&p, m, &given, &e);
    if (fuzz_result(code, &e))
        HOLDS(p.plan != NULL, "a plan");
    else
        HOLDS(e.line == 0 || (e.col >= 1 && e.end >= e.col && e.end <= (int)s->len + 2), e.text);
    merge_plan_release(&p);
    merge_rule_free(m);
    arena_release(&memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_bytes in = {data, data + n};
    unsigned what = fuzz_draw(&in, 256);
    kv_err e = {0};
    uint32_t len = (uint32_t)(in.end - in.at);
    own_mem char *text = mem_text((const char *)in.at, len, &e); /* a zero byte ends it */
    HOLDS(text != NULL, e.text);
    source s = {.name = "r", .text = text, .len = len, .line = 1, .col = 1};
    make_plan(&s, what);
    mem_fail_at(1 + n % 80);
    make_plan(&s, what);
    mem_fail_at(0);
    return 0;
}
