/* Tests of merges: what is refused and where, how lists are written out, and what the plans of keys
 * compute, by a runner that goes over small arrays. */
#include "vm/merge.h"

#include "lang/parse.h"
#define SHARED_KV_ERR
#include "test.h"
#include "vm/plan_pass.h"

static arena memory;
static kv_err e;
static source text;

static rule_ast *parsed(const char *rule)
{
    rule_ast *r = NULL;
    text =
        (source){.name = "r.kvu", .text = rule, .len = (uint32_t)strlen(rule), .line = 1, .col = 1};
    CHECK_OK(parse_merge(&r, &text, &memory, &e));
    return r;
}

/* ---- Running plans --------------------------------------------------------------------------- */

enum { MOST = 64 }; /* elements of an array */

typedef struct arrays {
    float models[MERGE_MODELS][MOST], base[MOST], product[MOST];
    int n;
} arrays;

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float folded(const plan_total *t, const float *terms, int n)
{
    float sorted[MOST];
    double sum = 0;
    memcpy(sorted, terms, (size_t)n * sizeof *terms);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    for (int i = 0; i < n; i++)
        sum += terms[i];
    return t->fold == PLAN_MAX     ? sorted[n - 1]
           : t->fold == PLAN_MIN   ? sorted[0]
           : t->fold == PLAN_ORDER ? sorted[t->order]
           : t->fold == PLAN_LEAST ? sorted[n - t->order]
                                   : (float)sum;
}

/* The draws of this runner: 0, 1/4, 1/2, 3/4, … shifted by the stream. */
static void fill(float *to, int slot, const merge_plan *p, arrays *a)
{
    for (int i = 0; i < a->n; i++) {
        if (slot == MERGE_BASE)
            to[i] = a->base[i];
        else if (plan_slot_kind(slot) == MERGE_UNIFORM)
            to[i] = (float)((i + p->draw[plan_slot_index(slot)].stream) % 4) / 4;
        else if (plan_slot_kind(slot) == MERGE_PRODUCT)
            to[i] = a->product[i];
        else if (plan_slot_kind(slot) == MERGE_MODEL)
            to[i] = a->models[plan_slot_index(slot)][i];
    }
}

static void run_plan(const merge_plan *p, arrays *a, float *merged)
{
    static float room[PLAN_MAX_SLOTS][MOST];
    static float number[2 * PLAN_MAX_NUMBERS];
    void *slots[PLAN_MAX_SLOTS];
    static float copies[2 * PLAN_MAX_NUMBERS][4096];
    for (int k = 0; k < p->plan->npasses; k++) {
        const plan_pass *pass = &p->plan->pass[k];
        own_mem void *scratch = mem_alloc(p->plan->program_bytes + 64, 1, NULL);
        void *aligned = (void *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
        bool numbers = plan_pass_is_of_numbers(pass);
        for (int s = 0; s < pass->nslots; s++) {
            int slot = pass->slot[s], i = plan_slot_index(slot);
            slots[s] = numbers ? &number[i] : slot == MERGE_MERGED ? merged : room[s];
            if (slot >= PLAN_MERGE)
                fill(room[s], slot, p, a);
            if (plan_slot_kind(slot) == PLAN_NUMBER && !numbers) {
                for (int c = 0; c < 4096; c++)
                    copies[i][c] = number[i];
                slots[s] = copies[i];
            }
        }
        prog_run(pass->program, slots, numbers ? 1 : a->n, aligned);
        for (int s = 0; s < pass->nslots; s++) {
            int sum = plan_slot_index(pass->slot[s]);
            if (plan_slot_kind(pass->slot[s]) == PLAN_TERMS)
                number[pass->sum[sum].number] = folded(&pass->sum[sum], room[s], a->n);
        }
    }
}

/* "a b c" of a merge of these arrays, or "line:col-end code: text (hint)", usage being left out. */
static const char *result(const char *rule, merge_form form, arrays *a, const char *const *names,
                          const char *const *texts, int nparams)
{
    static buf out;
    static const double weights[MERGE_MODELS] = {1, 2, 3, 4}, scales[] = {0.5, 2};
    merge_rule *m = NULL;
    merge_plan p = {0};
    float merged[MOST] = {0};
    merge_given key = {"k", weights, scales, a->n, a->n, false, {false}};
    rule_ast *r = parsed(rule);
    memset(&e, 0, sizeof e);
    int code = merge_rule_make(&m, r, &text, form, names, texts, nparams, &e);
    if (!code)
        code = merge_plan_make(&p, m, &key, &e);
    buf_clear(&out);
    if (code)
        buf_printf(&out, "%d:%d-%d %s%s%s", e.line, e.col, e.end,
                   code == KV_E_USAGE ? "" : kv_code_name(code), code == KV_E_USAGE ? "" : ": ",
                   e.text);
    if (code && e.hint[0])
        buf_printf(&out, " (%s)", e.hint);
    if (!code) {
        run_plan(&p, a, merged);
        for (int i = 0; i < a->n; i++)
            buf_printf(&out, i ? " %g" : "%g", (double)merged[i]);
    }
    CHECK_INT(code, e.code);
    memset(&e, 0, sizeof e);
    merge_plan_release(&p);
    merge_rule_free(m);
    return buf_text(&out);
}

static arrays three = {
    .models = {{1, 2, 3, 4}, {5, -2, 3, 0}, {0, 7, -9, 4}}, .base = {1, 1, 1, 1}, .n = 4};

static const char *of(const char *rule, int models)
{
    return result(rule, (merge_form){models, true, false}, &three, NULL, NULL, 0);
}

#define GIVES(rule, models, want) CHECK_TEXT(of(rule, models), want)
#define TWO                                                                                        \
    "a list of 2 stands where one value belongs (sum(list), list[0], [2 * x for x in list])"
#define NO_LIST                                                                                    \
    "a list belongs here, and this is not one (lists are `models`, `weights` and what is made of " \
    "them)"

static const char *with(const char *rule, const char *name, const char *value)
{
    return result(rule, (merge_form){3, true, false}, &three, &name, &value, 1);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

TEST(merge_lists_are_written_out)
{
    GIVES("{ merged = sum(models) }", 3, "6 7 -3 8");
    GIVES("{ merged = mean(models) }", 2, "3 0 3 2");
    GIVES("{ merged = min(models) }", 3, "0 -2 -9 0");
    GIVES("{ merged = max(models) + 0 * models[0] }", 3, "5 7 3 4");
    GIVES("{ merged = models[-1] - base }", 3, "-1 6 -10 3");
    GIVES("{ merged = sum(models[1:]) }", 3, "5 5 -6 4");
    GIVES("{ merged = sum(models[:len(models) - 1]) }", 3, "6 0 6 4");
    GIVES("{ merged = sum([w * m for m, w in zip(models, weights)]) }", 3, "11 19 -18 16");
    GIVES("{ merged = sum([m for i, m in enumerate(models) if i != 1]) }", 3, "1 9 -6 8");
    GIVES("{ merged = base * sum([i * j for i in range(3) for j in range(i)]) }", 3, "2 2 2 2");
    GIVES("{ d = [m - base for m in models]; merged = d[0] * d[1] }", 3, "0 -3 4 -3");
    GIVES("{ a = models; a = [2 * m for m in a]; merged = sum(a) }", 2, "12 0 12 8");
    GIVES("{ merged = base; for m in models { merged = merged * 2 + m } }", 3, "22 19 17 28");
    GIVES("{ n = len(models); if n == 1 { merged = base } else { merged = n * base } }", 3,
          "3 3 3 3");
    GIVES("{ merged = models[0] if len(models) > 2 else models[1] }", 3, "1 2 3 4");
    GIVES("{ merged = sum(weights) * base }", 3, "6 6 6 6");
    /* one item is the list's, not the largest of its elements */
    GIVES("{ merged = max(models) }", 1, "1 2 3 4");
}

TEST(merge_lists_are_sorted)
{
    GIVES("{ merged = median(models) }", 3, "1 2 3 4");
    GIVES("{ merged = median(models) }", 2, "3 0 3 2");
    GIVES("{ merged = trimmed_mean(models, 1) }", 3, "1 2 3 4");
    CHECK_TEXT(with("merge t(k = 0) { merged = trimmed_mean(models, k) }", "k", "1"), "1 2 3 4");
    static arrays many = {.n = 2};
    for (int n = 1; n <= 40; n++) {
        for (int i = 0; i < n; i++) {
            many.models[i][0] = (float)(i * 37 % n);
            many.models[i][1] = (float)(n - i);
        }
        own_buf want = {0};
        buf_printf(&want, "%g %g", (double)(n - 1) / 2, (double)(n + 1) / 2);
        CHECK_TEXT(result("{ merged = median(models) }", (merge_form){n, false, false}, &many, NULL,
                          NULL, 0),
                   n % 37 ? buf_text(&want) : "0 19");
    }
}

/* ---- Whole arrays ---------------------------------------------------------------------------- */

TEST(merge_reductions)
{
    GIVES("{ merged = base * norm(base) }", 1, "2 2 2 2");
    GIVES("{ merged = base * dot(models[0], models[1]) }", 2, "10 10 10 10");
    GIVES("{ merged = base * max(models[2]) + min(models[2]) }", 3, "-2 -2 -2 -2");
    GIVES("{ merged = base * mean(models[0]) * size(base) * len(base) }", 3, "10 10 10 10");
    GIVES("{ merged = base * quantile(models[0], 0.5) }", 3, "2.5 2.5 2.5 2.5");
    GIVES("{ merged = base * quantile(models[0], 1) }", 3, "4 4 4 4");
    GIVES("{ merged = quantile(models[0] / 0, 0.5) }", 3, "inf inf inf inf");
    GIVES("{ merged = largest(models[2], 2) }", 3, "0 7 -9 0");
    GIVES("{ merged = largest(models[2], 0) + base }", 3, "1 1 1 1");
    GIVES("{ merged = largest(models[2], 9) }", 3, "0 7 -9 4");
    /* of arrays that are one number, which is known, or which a pass makes */
    GIVES("{ merged = quantile(where(1 > 2, base, 0.5), 0.5) + base }", 3, "1.5 1.5 1.5 1.5");
    GIVES("{ merged = max(where(1 > 2, base, sum(models[2]))) + base }", 3, "3 3 3 3");
    GIVES("{ merged = where(uniform(7, 1) < 0.5, models[0], 0) }", 3, "1 0 0 4");
    GIVES("{ s = norm(models[0] / norm(models[0])); merged = s * base }", 3, "1 1 1 1");
}

TEST(merge_adapters)
{
    static arrays lora = {.product = {1, 2, 3, 4}, .base = {1, 1, 1, 1}, .n = 4};
    CHECK_TEXT(result("{ merged = base + sum([w * s * matmul(b, a) for a, b, s, w in "
                      "zip(lora_A, lora_B, lora_scale, weights)]) }",
                      (merge_form){2, true, true}, &lora, NULL, NULL, 0),
               "5.5 10 14.5 19");
    CHECK_TEXT(result("{ merged = base + sum([matmul(b, b) for b in lora_B]) }",
                      (merge_form){2, true, true}, &lora, NULL, NULL, 0),
               "1:24-36 matmul of a merge is of lora_B and lora_A of one model");
}

TEST(merge_parameters)
{
    static const char rule[] = "merge r(a = 2, on = true) { if on { merged = a * base } else { "
                               "merged = base } }";
    GIVES(rule, 1, "2 2 2 2");
    CHECK_TEXT(with(rule, "a", "3"), "3 3 3 3");
    CHECK_TEXT(with(rule, "on", "false"), "1 1 1 1");
    CHECK_TEXT(with(rule, "b", "3"), "0:0-0 r has no parameter `b`");
    CHECK_TEXT(with("{ merged = c * base }", "c", "3"), "3 3 3 3");
    /* what every updater has is no parameter of a merge */
    CHECK_TEXT(with(rule, "wd", "3"), "0:0-0 r has no parameter `wd`");
}

/* ---- Refusals -------------------------------------------------------------------------------- */

TEST(merge_refusals)
{
    GIVES("{ merged = models }", 2, "1:12-18 " TWO);
    GIVES("{ merged = models - base }", 2, "1:12-18 " TWO);
    GIVES("{ merged = mean(base, axis=0) }", 2,
          "1:23-29 functions of rules take no named arguments (mean(x) of a merge is one "
          "number for the whole array)");
    GIVES("{ merged = models[2] }", 2, "1:12-21 value: a list of 2 has no item 2");
    GIVES("{ x = sum(models) }", 2,
          "1:1-20 the rule never writes `merged` (for example: merged = sum(models) / "
          "len(models))");
    GIVES("{ merged = c * base }", 2,
          "1:12-13 a rule knows no name `c` here (it can be a parameter: merge NAME(c = "
          "0.5) { … })");
    GIVES("{ merged = rowsum(base) }", 2,
          "1:12-24 a merge knows no function `rowsum` (help rules lists those that it knows)");
    GIVES("{ merged = largest(base, norm(base)) }", 2,
          "1:26-36 largest takes a number here that is known before the arrays are read");
    GIVES("{ merged = largest(2, 1) }", 2, "1:12-25 largest takes an array, and this holds none");
    GIVES("{ merged = matmul(base, base) }", 2,
          "1:12-30 matmul of a merge is of lora_B and lora_A of one model");
    GIVES("{ merged = sum([m for m in base]) }", 2, "1:28-32 " NO_LIST);
    GIVES("{ merged = sum([a for a, b in models]) }", 2,
          "1:23-27 an item is one value, and here are 2 names (for m, w in zip(models, weights))");
    GIVES("{ merged = sum([m for m in models if norm(m) > 1]) }", 2,
          "1:38-49 which items a list has must be known before it is written out "
          "(where(condition, a, b) chooses element by element)");
    GIVES("{ state s; merged = base }", 2, "1:9-10 a merge runs once, and keeps no states");
    GIVES("{ print 1; merged = base }", 2, "1:3-10 a merge prints nothing");
    GIVES("{ skip }", 2, "1:3-7 merges have no `skip`");
    GIVES("{ models = [base]; merged = base }", 2, "1:3-18 `models` is given and keeps its value");
    GIVES("{ for m in models { m = base }; merged = base }", 2,
          "1:21-29 `m` is the name of an item here");
    GIVES("{ fail \"no\" }", 2, "0:0-0 value: no");
    GIVES("{ if len(models) < 3 { fail \"three or more\" }; merged = models[2] }", 2,
          "0:0-0 value: three or more");
    GIVES("{ merged = norm(base) }", 2, "2 2 2 2");
    GIVES("{ merged = sum(zip(models, [1])) }", 2,
          "1:16-32 zip takes lists of one length, not of 2 and 1");
    GIVES("{ merged = median(base) }", 2, "1:19-23 median takes a list, and this is not one");
    GIVES("{ merged = median(models, 2) }", 2, "1:12-29 median of a list takes 1 argument, not 2");
    GIVES("{ merged = trimmed_mean(models, 1) }", 2,
          "1:12-35 value: 1 of each side of 2 items leave none");
    GIVES("{ merged = lora_A[0] * base }", 2, "1:12-18 " NO_LIST);
    GIVES("{ x = lora_A; merged = base }", 2,
          "1:7-13 `lora_A` is a list of adapters, and these are models");
    GIVES("{ merged = rowrank(base / norm(base)) }", 2,
          "1:12-38 rowrank takes what follows from the elements alone, not from a "
          "reduction or another rank");
    GIVES("{ merged = cosine(base, 1) * base }", 2,
          "1:12-27 cosine takes an array, and this holds none");
    GIVES("{ merged = quantile(base, 2) }", 2,
          "1:27-28 value: quantile takes a share from 0 to 1 here");
    CHECK_TEXT(result("{ merged = base + models[0] }", (merge_form){2, false, false}, &three, NULL,
                      NULL, 0),
               "1:12-16 this merge reads `base`, and none is given (--base CKPT: what the "
               "models were made from)");
}

/* Lists and counts that a rule cannot have. */
TEST(merge_refusals_of_lists)
{
    GIVES("{ merged = largest(base, 1.5) }", 2, "1:26-29 value: largest takes a whole number here");
    GIVES("{ merged = largest(base, -1) }", 2, "1:26-28 value: largest takes 0 or more, not -1");
    GIVES("{ merged = uniform(0.5, 1) }", 2, "1:20-23 value: uniform takes a whole number here");
    GIVES("{ merged = quantile(base, \"a\") }", 2, "1:27-30 a text cannot be computed with arrays");
    GIVES("{ merged = sum([uniform(i, 0) for i in range(65)]) }", 2,
          "1:17-30 value: a merge draws at most 64 times");
    GIVES("{ merged = sum([rowrank(base + i) for i in range(65)]) }", 2,
          "1:17-34 value: a merge ranks at most 64 times");
    GIVES("{ merged = models[0:2:1][0] }", 2, "1:23-24 slices of a merge have no step");
    GIVES("{ merged = models[0, 1] }", 2, "1:12-24 a list has one index");
    GIVES("{ merged = models[norm(base)] }", 2,
          "1:19-29 this must be known before lists are written out (a number, a "
          "parameter, or what follows from len(models))");
    GIVES("{ merged = sum([base for i in range(-1)]) }", 2,
          "1:31-40 value: range takes 0 to 100000, not -1");
    GIVES("{ l = [1, 2]; l = 3; merged = base }", 2, "1:15-20 `l` is a list, and this is not one");
    GIVES("{ merged = sum([models]) }", 2, "1:16-24 " TWO);
    GIVES("{ merged = sum([x + 1 for x in [models]]) }", 2, "1:17-18 " TWO);
    GIVES("{ merged = abs(models) }", 2, "1:16-22 " TWO);
    GIVES("{ merged = foo(models) }", 2,
          "1:12-23 a merge knows no function `foo` (help rules lists those that it knows)");
    GIVES("{ merged = dot(models, base) }", 2, "1:16-22 " TWO);
    GIVES("{ merged = sum([x for x in zip(base)]) }", 2,
          "1:32-36 zip takes lists, and this is not one");
    GIVES("{ merged = trimmed_mean(models, 0.5) }", 2, "1:33-36 this is not an integer");
    GIVES("{ for m[0] in models { merged = base } }", 2,
          "1:7-11 a loop of a merge gives names to items");
    GIVES("{ merged = mean([]) }", 2, "1:12-20 value: mean of an empty list");
    GIVES("{ rows present; merged = base }", 2, "1:3-15 merges have no `rows present`");
    GIVES("{ merged = models[-3:9][-2] + 0 * len(models[5:]) }", 2, "1 2 3 4");
}

/* Numbers and texts that are no arrays: what a rule computes with them, and what it cannot. */
TEST(merge_host_values)
{
    GIVES("{ fail \"no %d of %s\" % (len(models), \"a\") }", 2, "0:0-0 value: no 2 of a");
    GIVES("{ fail f\"no {len(models)} {1.5:.2f} {'a'!r}\" }", 2, "0:0-0 value: no 2 1.50 'a'");
    GIVES("{ fail \"%d\" % len(models) }", 2, "0:0-0 value: 2");
    GIVES("{ fail f\"{key!r} has {size(base):>6}\" }", 2, "0:0-0 value: 'k' has      4");
    GIVES("{ if \"%d\" % 2 == \"2\" { merged = base } else { merged = 0 * base } }", 2, "1 1 1 1");
    GIVES("{ merged = 2 ** 3 * f64(1) * base }", 2, "8 8 8 8");
    GIVES("{ fail \"%d %d\" % (1, \"a\") }", 2, "1:8-26 dtype: %d takes a whole number, not text");
    GIVES("{ fail \"%d %q\" % (size(base), 1) }", 2,
          "1:8-33 value: a % directive does not know the letter q (the letters are d i s r e f g "
          "x X o)");
    GIVES("{ fail f\"{size(base):q}\" }", 2,
          "1:10-24 value: a field does not know the letter q (the letters are d s e f g n x X o "
          "b %)");
    GIVES("{ c = size(base) + key; merged = base * c }", 2,
          "1:7-23 dtype: + takes numbers, not int and text (str(x) is the text of a number; "
          "f\"{x}\" holds one)");
    GIVES("{ c = 1 / (len(models) - 2); merged = c * base }", 2,
          "1:7-28 value: a number is divided by 0 (arrays give inf or nan: array(x) / 0)");
    GIVES("{ c = -key; merged = c * base }", 2, "1:7-11 dtype: - takes a number, not text");
    GIVES("{ c = sqrt(key); merged = base * c }", 2, "1:7-16 dtype: sqrt takes numbers, not text");
}
