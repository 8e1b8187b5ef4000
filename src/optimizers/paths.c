/* Paths of rules. Candidates are the same for all parameters: those that one does not take are
 * refused. */
#include "optimizers/paths.h"

#include <string.h>

#include "lang/parse.h"
#include "vm/merge.h"
#include "vm/plan_pass.h"
#include "vm/prog.h"

/* Choices behind those of parameters; and those of merges, whose first parameter may have another
 * value than its default. */
enum { OF_NAME, OF_WD, OF_NUMBERS, OF_HAVE, OF_INPUT, OF_STORED, OF_KEY };
enum { OF_MODELS, OF_WEIGHTS, OF_BF16, OF_PARAM, OF_MERGE };

/* Programs depend on numbers that are 0, 1 or a power of 2, and the others are alike. */
static const char *const common[] = {"0", "1", "3", "4", "0.3", "true", "false", "none"};

static void add_texts(rule_paths *p, const ast *of)
{
    if (!of)
        return;
    if (of->kind == AST_TEXT && p->ntexts < PATH_TEXTS)
        p->texts[p->ntexts++] = of->u.text;
    for (uint32_t i = 0; i < of->n; i++)
        add_texts(p, of->kid[i]);
}

int rule_paths_read(rule_paths *p, const char *text, kv_err *e)
{
    *p = (rule_paths){.src = {"rule", text, (uint32_t)strlen(text), 1, 1, NULL}};
    if (parse_merge(&p->rule, &p->src, &p->memory, NULL) == KV_OK) {
        p->merge = true;
        p->nchoices = OF_MERGE;
        return KV_OK;
    }
    int rc = parse_rule(&p->rule, &p->src, &p->memory, e);
    rc = rc ? rc : rule_check(p->rule, &p->src, &p->memory, e);
    if (rc)
        return rc;
    p->ntexts = sizeof common / sizeof *common;
    memcpy(p->texts, common, sizeof common);
    add_texts(p, p->rule->body);
    p->nchoices = rule_nvalues(p->rule) + OF_KEY;
    return p->nchoices <= PATH_CHOICES
               ? KV_OK
               : kv_err_set(e, KV_E_VALUE, "a rule of %d choices has too many", p->nchoices);
}

void rule_paths_release(rule_paths *p)
{
    arena_release(&p->memory);
}

int rule_paths_count(const rule_paths *p, int i)
{
    if (p->merge) /* programs of merges without parameters are short, so those of eight models have
                     loops, too */
        return i == OF_MODELS && p->rule->nparams == 0 ? 7 : 2;
    int which = i - rule_nvalues(p->rule);
    return which < 0 || which == OF_NAME ? p->ntexts + 1 : which == OF_NUMBERS ? 3 : 2;
}

/* The plan of a large key, of two to eight models. */
static bool merge_path(rule_update *u, const rule_paths *p, const uint8_t *choice)
{
    double weights[MERGE_MODELS], scales[MERGE_MODELS] = {0};
    merge_form form = {.models = 2 + choice[OF_MODELS], .base = true};
    merge_given given = {
        .key = "weight", .weights = weights, .lora_scales = scales, .size = 5000, .row = 5};
    merge_plan x = {0};
    merge_rule *rule = NULL;
    const char *name = p->rule->nparams > 0 ? p->rule->params[0].name : NULL, *text = "0.3";
    int given_params = name && choice[OF_PARAM];
    for (int i = 0; i < MERGE_MODELS; i++)
        weights[i] = choice[OF_WEIGHTS] ? 0.3 + 0.01 * i : 1;
    memset(given.bf16, choice[OF_BF16], sizeof given.bf16);
    bool made = !merge_rule_make(&rule, p->rule, &p->src, form, &name, &text, given_params, NULL) &&
                !merge_plan_make(&x, rule, &given, NULL);
    *u = (rule_update){.plan = x.plan};
    x.plan = NULL;
    merge_plan_release(&x);
    merge_rule_free(rule);
    return made;
}

bool rule_path_update(rule_update *u, const rule_paths *p, const uint8_t *choice)
{
    if (p->merge)
        return merge_path(u, p, choice);
    const char *names[PATH_CHOICES] = {0}, *texts[PATH_CHOICES];
    host values[PATH_CHOICES], numbers[PLAN_MAX_STATES];
    int n = rule_nvalues(p->rule), listed = p->rule->nparams;
    const uint8_t *key = choice + n;
    arena memory = {0};
    for (int i = 0; i < n; i++) {
        if (choice[i] > 0)
            names[i] = i < listed ? p->rule->params[i].name : rule_base_name(i - listed);
        texts[i] = choice[i] > 0 ? p->texts[choice[i] - 1] : NULL;
    }
    for (int i = 0; i < PLAN_MAX_STATES; i++)
        numbers[i] = host_float(1 + key[OF_NUMBERS]);
    rule_given given = {.key = {7, NULL},
                        .name = key[OF_NAME] ? p->texts[key[OF_NAME] - 1] : "weight",
                        .t = 3,
                        .lr = 0.1,
                        .base_lr = 0.1,
                        .wd = key[OF_WD] ? 0.01 : 0,
                        .row = 5,
                        .size = 5000,
                        .have = key[OF_HAVE] ? 0 : UINT32_MAX >> (32 - PLAN_MAX_STATES),
                        .sparse_input = key[OF_INPUT],
                        .sparse_stored = key[OF_STORED],
                        .numbers = numbers};
    rule_binding binding = {p->rule, &p->src, values, NULL};
    rule_case *of = NULL;
    kv_err e = {0};
    bool made = !rule_bind(p->rule, NULL, names, texts, n, values, &memory, &e) &&
                !rule_case_make(&binding, &given, true, u, &of, &e);
    rule_case_unref(of);
    arena_release(&memory);
    return made;
}

void rule_path_programs(const rule_update *u, rule_path_visit *visit, void *arg)
{
    for (int i = 0; u->plan && i < u->plan->npasses; i++)
        for (const plan_pass *pass = &u->plan->pass[i]; pass; pass = pass->lean)
            if (!plan_pass_is_of_numbers(pass))
                visit(arg, pass->program,
                      plan_splits(u->plan, NULL) && pass->nslots > 1 &&
                          pass->slot[1] == PLAN_INPUT);
}

/* ---- The walk -------------------------------------------------------------------------------- */

typedef struct path {
    uint8_t choice[PATH_CHOICES];
} path;

typedef struct walk {
    rule_path_visit *visit;
    void *arg;
    path *next;
    uint64_t *met; /* hashes of programs, odd ones of those that add */
    int64_t n, cap, nmet, met_cap;
    bool fresh; /* the path has a program that was not met before */
    int rc;
    kv_err *e;
} walk;

static void meet(void *arg, const prog *p, bool adds)
{
    walk *w = arg;
    uint64_t hash = prog_hash(p) << 1 | adds;
    for (int64_t i = 0; i < w->nmet; i++)
        if (w->met[i] == hash)
            return;
    w->rc = w->rc ? w->rc : mem_grow(&w->met, &w->met_cap, w->nmet + 1, sizeof hash, w->e);
    if (w->rc)
        return;
    w->met[w->nmet++] = hash;
    w->fresh = true;
    w->visit(w->arg, p, adds);
}

static void take(walk *w, const rule_paths *p, const path *x)
{
    rule_update u = {0};
    if (w->rc || !rule_path_update(&u, p, x->choice))
        return;
    w->fresh = false;
    rule_path_programs(&u, meet, w);
    rule_update_release(&u);
    if (!w->fresh || w->rc)
        return;
    w->rc = mem_grow(&w->next, &w->cap, w->n + 1, sizeof *x, w->e);
    if (!w->rc)
        w->next[w->n++] = *x;
}

int rule_paths_walk(const rule_paths *p, rule_path_visit *visit, void *arg, kv_err *e)
{
    walk w = {.visit = visit, .arg = arg, .e = e};
    take(&w, p, &(path){{0}});
    for (int64_t at = 0; at < w.n; at++)
        for (int i = 0; i < p->nchoices; i++)
            for (int c = 0; c < rule_paths_count(p, i); c++) {
                path x = w.next[at];
                x.choice[i] = (uint8_t)c;
                if (c != w.next[at].choice[i])
                    take(&w, p, &x);
            }
    mem_free(w.next);
    mem_free(w.met);
    return w.rc;
}
