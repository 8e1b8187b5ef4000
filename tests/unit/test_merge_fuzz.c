/* Random merges: words of rules in any order, rules with some words changed, memory that runs out.
 * Whatever comes of it is a plan, or an error with a sentence and a place within the text. */
#include "vm/merge.h"

#include "base/philox.h"
#include "lang/parse.h"
#include "test.h"

static const char *const words[] = {
    "models",  "weights", "base",  "merged", "key",    "lora_A", "lora_B",  "lora_scale",
    "x",       "m",       "i",     "k",      "0",      "1",      "2",       "-1",
    "0.5",     "1e308",   "sum",   "mean",   "median", "min",    "max",     "trimmed_mean",
    "len",     "zip",     "range", "norm",   "dot",    "sin",    "largest", "quantile",
    "uniform", "rowrank", "size",  "where",  "matmul", "f64",    "abs",     "enumerate",
    "cosine",  "for",     "in",      "if",    "else",   "fail",   "state",  "print",   "skip",
    "and",     "not",     "none",  "\"t\"",  "(",      ")",      "[",       "]",
    "{",       "}",       ",",     ";",      ":",      "=",      "+=",      "*",
    "+",       "-",       "/",     "%",      "<",      "==",     "\n",      "..",
};

/* Each kind of line, so that changing a word or two leaves most of it as it should be. */
static const char *const rules[] = {
    "merge a(k = 1, x = 0.5 in 0 .. 1) { merged = trimmed_mean(models, k) * x }",
    "{ merged = sum([w * m for m, w in zip(models, weights)]) / sum(weights) }",
    "{ d = [m - base for m in models]; e = where(sum(d) >= 0, 1, -1)\n"
    "  merged = base + sum([where(c * e > 0, c, 0) for c in d]) }",
    "{ merged = models[0]; for m in models[1:] { merged = 0.9 * merged + 0.1 * m } }",
    "{ merged = median([largest(m, floor(0.5 * size(m))) for m in models]) }",
    "{ merged = sum([where(uniform(0, i) < 0.5, m, 0) for i, m in enumerate(models)]) }",
    "{ if len(models) != 2 { fail \"two\" }; c = dot(models[0], models[1]) / norm(models[0])\n"
    "  merged = where(c > 0.5, models[0], c * models[1] + quantile(models[0], 0.3)) }",
    "{ merged = base\n  for a, b, s in zip(lora_A, lora_B, lora_scale) {\n"
    "    if s > 1 { merged += s * matmul(b, a) } else { merged -= matmul(b, a) } } }",
    "{ r = rowrank(abs(models[0] - base)); if norm(r) > 1 { merged = r } else { merged = base } }",
    "{ n = len(models); c = [i * j for i in range(n) for j in range(i) if i != 1]\n"
    "  merged = (mean(c) if n > 2 else 1) * models[-1] }",
};

enum { NWORDS = sizeof words / sizeof *words, NRULES = sizeof rules / sizeof *rules };

static uint64_t drawn;

static uint64_t below(uint64_t n)
{
    return philox_below(philox_at(2026, PHILOX_FUNCTIONS, 0, drawn++), n);
}

static void add_words(buf *out, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        buf_add(out, words[below(NWORDS)]);
        buf_char(out, ' ');
    }
}

/* A rule in which a few bytes have become other words. */
static void change(buf *out, const char *rule)
{
    for (const char *c = rule; *c; c++) {
        if (below(60) == 0)
            add_words(out, below(3));
        if (below(80) > 0)
            buf_char(out, *c);
    }
}

static void make_text(buf *out)
{
    buf_clear(out);
    if (below(4) > 0) {
        change(out, rules[below(NRULES)]);
        return;
    }
    buf_add(out, "{ merged = ");
    add_words(out, below(20));
    buf_add(out, "}");
}

static bool is_fine(const kv_err *e, size_t len)
{
    bool placed = e->line >= 0 && (e->line == 0 || (e->col >= 1 && e->end >= e->col));
    return strlen(e->text) > 1 && placed && e->end <= (int)len + 2;
}

/* Parses, writes out and plans a text; *e says what came of it. */
static void run(const buf *text, merge_form form, int nparams, kv_err *e)
{
    static const double numbers[] = {1, 2, 3, 4, 5};
    source s = {
        .name = "r", .text = buf_text(text), .len = (uint32_t)text->len, .line = 1, .col = 1};
    own_arena memory = {0};
    rule_ast *r = NULL;
    merge_rule *m = NULL;
    merge_plan p = {0};
    const char *name = "k", *value = "2";
    merge_given given = {"key", numbers, numbers, 12, 4, below(2) == 0, {false}};
    int code = parse_merge(&r, &s, &memory, e);
    if (!code)
        code = merge_rule_make(&m, r, &s, form, &name, &value, nparams, e);
    if (!code)
        code = merge_plan_make(&p, m, &given, e);
    CHECK_INT(code, e->code);
    CHECK(code || p.plan != NULL);
    merge_plan_release(&p);
    merge_rule_free(m);
}

static void run_many(int times, bool memory, int least)
{
    own_buf text = {0};
    int made = 0;
    for (int i = 0; i < times; i++) {
        kv_err e = {0};
        merge_form form = {(int)below(5), below(3) > 0, below(4) == 0};
        make_text(&text);
        if (memory)
            mem_fail_at(1 + (int)below(80));
        run(&text, form, (int)below(2), &e);
        mem_fail_at(0);
        made += e.code == KV_OK;
        if (e.code && !is_fine(&e, text.len))
            fprintf(stderr, "%s\n%s %d %d\n", buf_text(&text), e.text, e.col, e.end);
        CHECK(e.code == KV_OK || is_fine(&e, text.len));
    }
    CHECK(made >= least);
}

TEST(merge_fuzz_seeds)
{
    own_buf text = {0};
    for (int i = 0; i < NRULES; i++) {
        e = (kv_err){0};
        buf_clear(&text);
        buf_add(&text, rules[i]);
        run(&text, (merge_form){i == 6 ? 2 : 3, true, i == 7}, 0, &e);
        CHECK_TEXT(e.text, "");
    }
}

TEST(merge_fuzz_rules)
{
    int times = (int)test_random(25000);
    drawn = test_seed(0) << 32;
    run_many(times, false, times / 60);
}

TEST(merge_fuzz_memory)
{
    drawn = 1;
    run_many(20000, true, 10);
}
