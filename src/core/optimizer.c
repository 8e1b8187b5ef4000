/* Optimizers: they are made, their parameters are read and changed, a transaction restores them. */
#include "core/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/suggest.h"
#include "core/image.h"
#include "lang/parse.h"
#include "vm/rule.h"

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Puts a key, whose room is reserved, or replaces what it has. key and text are not copied. Error:
 * memory. */
static int table_put(optimizer_table *t, const char *key, const char *text, double number,
                     kv_err *e)
{
    int64_t at = map_get(&t->index, (kv_key){0, key});
    if (at < 0) {
        if (map_put(&t->index, (kv_key){0, key}, t->n, e))
            return KV_E_MEMORY;
        at = t->n++;
    }
    t->keys[at] = key;
    t->texts[at] = text;
    t->numbers[at] = number;
    return KV_OK;
}

/* Makes room for n keys in a's memory. Error: memory. */
static int table_reserve(optimizer_table *t, int64_t n, arena *a, kv_err *e)
{
    t->keys = arena_alloc(a, (size_t)n * sizeof *t->keys, e);
    t->texts = arena_alloc(a, (size_t)n * sizeof *t->texts, e);
    t->numbers = arena_alloc(a, (size_t)n * sizeof *t->numbers, e);
    return t->keys && t->texts && t->numbers ? KV_OK : KV_E_MEMORY;
}

/* Reads pairs of a key and a number, or of a key and a name, each key once, into an empty table.
 * what: the parameter, for errors: value (no such pairs, a key twice), memory. */
static int table_read(optimizer_table *t, const char *what, const char *text, bool numbers,
                      arena *a, kv_err *e)
{
    int64_t npairs = *text != '\0';
    for (const char *c = text; *c; c++)
        npairs += *c == ',';
    if (table_reserve(t, npairs + 64, a, e))
        return KV_E_MEMORY;
    while (*text) {
        size_t n = strcspn(text, ","), at = strcspn(text, "=");
        double x = 0;
        if (at >= n || (!numbers && at + 1 == n))
            return kv_err_set(e, KV_E_VALUE, "%s takes pairs such as 0=%s, not \"%.*s\"", what,
                              numbers ? "0.5" : "fc_weight", (int)n, text);
        const char *value = text + at + 1;
        size_t m = n - at - 1;
        if (numbers && (m == 0 || num_parse(value, m, NUM_BINARY64, &x, NULL) != m || isnan(x)))
            return kv_err_set(e, KV_E_VALUE, "%s: \"%.*s\" is not a number", what, (int)m, value);
        const char *key = arena_text(a, text, at, e),
                   *name = key ? arena_text(a, value, m, e) : NULL;
        if (!name)
            return KV_E_MEMORY;
        if (optimizer_table_find(t, key) >= 0)
            return kv_err_set(e, KV_E_VALUE, "%s: the key %.80s is given twice", what, key);
        if (table_put(t, key, name, x, e))
            return KV_E_MEMORY;
        text += n + (text[n] == ',');
    }
    return KV_OK;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static const char *const own_params[] = {"lr_scheduler", "lr_mult", "wd_mult", "names", "seed"};
enum { OWN_SCHEDULER, OWN_LR_MULT, OWN_WD_MULT, OWN_NAMES, OWN_SEED, OWN_COUNT };

static int own_param(const char *name)
{
    for (int i = 0; i < OWN_COUNT; i++)
        if (name_is_word(own_params[i], name, strlen(name)))
            return i;
    return -1;
}

/* A name with none of the endings has wd multiplier 0, unless the user set one. */
static bool decays(const char *name, const char *endings)
{
    size_t n = strlen(name);
    while (*endings) {
        size_t m = strcspn(endings, " ");
        if (m > 0 && n >= m && memcmp(name + n - m, endings, m) == 0)
            return true;
        endings += m + (endings[m] == ' ');
    }
    return false;
}

/* The multipliers of the weight decay: 0 for names without an ending that decays, then what the
 * user set. */
static int default_multipliers(optimizer_params *p, const rule_binding *b, kv_err *e)
{
    host endings = rule_value(b, RULE_DECAY_NAMES);
    optimizer_table all = {0};
    if (table_reserve(&all, p->names.n + p->wd_mult.n + 1, &p->memory, e))
        return KV_E_MEMORY;
    int rc = KV_OK;
    for (int64_t i = 0; i < p->names.n && !rc; i++)
        if (!decays(p->names.texts[i], endings.u.text))
            rc = table_put(&all, p->names.texts[i], NULL, 0, e);
    for (int64_t i = 0; i < p->wd_mult.n && !rc; i++)
        rc = table_put(&all, p->wd_mult.keys[i], NULL, p->wd_mult.numbers[i], e);
    map_release(&p->wd_mult.index);
    p->wd_mult = all;
    return rc;
}

static optimizer_table *table_of(optimizer_params *p, int own)
{
    return own == OWN_LR_MULT ? &p->lr_mult : own == OWN_WD_MULT ? &p->wd_mult : &p->names;
}

/* The tables of all parameters that were ever given; `given` are the latest. */
static int read_tables(optimizer_params *p, const rule_ast *tree, const kv_opt *given, int n,
                       kv_err *e)
{
    int rc = KV_OK;
    for (int i = 0; i < p->n && !rc; i++) {
        int own = rule_lists(tree, p->given[i].name) ? -1 : own_param(p->given[i].name);
        if (own < 0 || own == OWN_SEED || own == OWN_SCHEDULER)
            continue;
        rc = table_read(table_of(p, own), own_params[own], p->given[i].value,
                                  own != OWN_NAMES, &p->memory, e);
        for (int j = n - 1; j >= 0 && rc; j--)
            if (own_param(given[j].name) == own)
                kv_err_option(e, j);
    }
    return rc;
}

static int set_own(optimizer *o, int which, const char *text, kv_err *e)
{
    int64_t seed = 0;
    bool over = false;
    if (which == OWN_SCHEDULER) {
        o->scheduled = strcmp(text, "none") != 0;
        return o->scheduled ? lr_schedule_parse(&o->now.schedule, text, &o->memory, e) : KV_OK;
    }
    if (which != OWN_SEED)
        return KV_OK; /* read_tables */
    if (num_parse_int(text, strlen(text), &seed, &over) != strlen(text) || over || seed < 0)
        return kv_err_set(e, KV_E_VALUE, "seed is a whole number from 0 on, not \"%s\"", text);
    o->seed = (uint64_t)seed;
    return KV_OK;
}

static void params_unref(optimizer_params *p)
{
    if (!p || --p->refs > 0)
        return;
    map_release(&p->lr_mult.index);
    map_release(&p->wd_mult.index);
    map_release(&p->names.index);
    arena_release(&p->memory);
    mem_free(p);
}

/* Makes o use these parameters, whose reference becomes its own. */
static void use_params(optimizer *o, optimizer_params *p)
{
    o->params = p;
    o->binding = (rule_binding){o->rule->ast, &o->rule->src, p->values, o->varies};
    host norm = rule_value(&o->binding, RULE_CLIP_GLOBAL_NORM);
    o->clip_norm = host_is_number(norm) ? host_number(norm) : 0;
}

static int check_norm(const rule_binding *b, const kv_opt *given, int n, kv_err *e)
{
    host norm = rule_value(b, RULE_CLIP_GLOBAL_NORM);
    if (norm.kind == HOST_NONE || host_number(norm) > 0)
        return KV_OK;
    kv_err_set(e, KV_E_VALUE, "parameter clip_global_norm takes a number above 0, or none");
    for (int i = 0; i < n; i++)
        if (rule_base_find(given[i].name) == RULE_CLIP_GLOBAL_NORM)
            kv_err_option(e, i);
    return KV_E_VALUE;
}

/* The parameters as they were given, later ones in the place of earlier ones. */
static int keep_given(optimizer_params *p, const optimizer_params *old, const kv_opt *given, int n,
                      kv_err *e)
{
    int before = old ? old->n : 0;
    kv_opt *kept = arena_alloc(&p->memory, (size_t)(before + n + 1) * sizeof *kept, e);
    if (!kept)
        return KV_E_MEMORY;
    for (int i = 0; i < before + n; i++) {
        const kv_opt *one = i < before ? &old->given[i] : &given[i - before];
        int at = 0;
        while (at < p->n && !name_is_word(kept[at].name, one->name, strlen(one->name)))
            at++;
        p->n += at == p->n;
        kept[at].name = arena_text(&p->memory, one->name, strlen(one->name), e);
        kept[at].value = arena_text(&p->memory, one->value, strlen(one->value), e);
        if (!kept[at].name || !kept[at].value)
            return KV_E_MEMORY;
    }
    p->given = kept;
    return KV_OK;
}

/* Sorts parameters into the rule's and our own, and reads them. */
static int read_params(optimizer *o, optimizer_params *p, const kv_opt *given, int n, kv_err *e)
{
    const rule_ast *tree = o->rule->ast;
    size_t texts = (size_t)(n + 1) * sizeof(char *);
    const char **names = arena_alloc(&p->memory, texts, e);
    const char **values = names ? arena_alloc(&p->memory, texts, e) : NULL;
    host *bound =
        values ? arena_alloc(&p->memory, (size_t)rule_nvalues(tree) * sizeof *bound, e) : NULL;
    TRY(bound ? keep_given(p, o->params, given, n, e) : KV_E_MEMORY);
    for (int i = 0; i < n; i++) {
        int own = rule_lists(tree, given[i].name) ? -1 : own_param(given[i].name);
        names[i] = own < 0 ? given[i].name : NULL;
        values[i] = given[i].value;
        int refused = own >= 0 ? set_own(o, own, given[i].value, e) : KV_OK;
        if (refused)
            return kv_err_option(e, i), refused;
    }
    p->values = bound;
    TRY(rule_bind(tree, o->params ? o->params->values : NULL, names, values, n, bound, &p->memory,
                  e));
    const rule_binding made = {tree, &o->rule->src, bound, NULL};
    TRY(rule_check_given(&made, e));
    TRY(check_norm(&made, given, n, e));
    TRY(read_tables(p, tree, given, n, e));
    return default_multipliers(p, &made, e);
}

/* Gives o new parameters: those that it has, changed by the given ones. */
static int bind(optimizer *o, const kv_opt *given, int n, kv_err *e)
{
    optimizer_params *p = mem_zalloc(1, sizeof *p, e);
    if (!p)
        return KV_E_MEMORY;
    p->refs = 1;
    int rc = read_params(o, p, given, n, e);
    if (rc)
        params_unref(p);
    else
        use_params(o, p);
    return rc;
}

/* A learning rate that was given, or that the rule has by default, is a schedule's base. */
static void settle_schedule(optimizer *o)
{
    host rate = rule_value(&o->binding, RULE_LEARNING_RATE);
    if (o->scheduled && host_is_number(rate))
        o->now.schedule.base_lr = host_number(rate);
}

int optimizer_new(optimizer **out, const kv_rule *rule, const kv_opt *params, int n, kv_err *e)
{
    optimizer *o = mem_zalloc(1, sizeof *o, e);
    if (!o)
        return KV_E_MEMORY;
    o->rule = kv_rule_ref((kv_rule *)rule); /* only the count changes */
    int rc = rule_states(rule->ast, o->states, &o->nstates, e);
    if (!rc) {
        /* Rates are often changed, and reach rules as lr and wd: few read them by the names of the
         * parameters. */
        const rule_ast *tree = o->rule->ast;
        o->varies = mem_zalloc(rule_nvalues(tree), sizeof *o->varies, e);
        for (int i = 0; o->varies && i < rule_nvalues(tree); i++) {
            int base = i < tree->nparams ? rule_base_find(tree->params[i].name) : i - tree->nparams;
            o->varies[i] = base == RULE_LEARNING_RATE || base == RULE_WD;
        }
        rc = o->varies ? KV_OK : KV_E_MEMORY;
    }
    if (!rc)
        rc = bind(o, params, n, e);
    if (!rc) {
        /* Counts go on from the first one, and rules compute with them in binary64. */
        int64_t begin = rule_value(&o->binding, RULE_BEGIN_NUM_UPDATE).u.integer;
        rc = begin >= 0 && begin <= (int64_t)1 << 53
                 ? KV_OK
                 : kv_err_set(e, KV_E_VALUE, "begin_num_update lies in 0 .. 2^53, %lld does not",
                              (long long)begin);
    }
    if (rc) {
        optimizer_free(o);
        return rc;
    }
    kv_assert(o->nstates >= 0 && o->nstates <= PLAN_MAX_STATES,
              "a rule that was checked has %d states, and a key has room for %d", o->nstates,
              PLAN_MAX_STATES);
    settle_schedule(o);
    o->now.num_update = rule_value(&o->binding, RULE_BEGIN_NUM_UPDATE).u.integer;
    *out = o;
    return KV_OK;
}

/* Forgets the updates that were made of other parameters, and the cases unless they take these from
 * the binding. */
static void drop_made(optimizer *o, bool cases)
{
    for (int i = 0; i < OPTIMIZER_RECENT; i++) {
        optimizer_unref_update(o->recent[i]);
        o->recent[i] = NULL;
    }
    o->next_recent = 0;
    for (int i = 0; i < OPTIMIZER_CASES && cases; i++) {
        rule_case_unref(o->cases[i]);
        o->cases[i] = NULL;
    }
    o->next_case = cases ? 0 : o->next_case;
}

static bool same_value(host a, host b)
{
    if (a.kind != b.kind || a.kind == HOST_NONE)
        return a.kind == b.kind;
    bool texts = a.kind == HOST_TEXT && a.u.text && b.u.text; /* NULL: a def's lr, never given */
    return texts ? strcmp(a.u.text, b.u.text) == 0 : a.u.integer == b.u.integer;
}

/* Notes which parameters are changed, so that cases take them from the binding from now on. Returns
 * true if those that there are do not. */
static bool vary(optimizer *o, const host *values)
{
    bool news = false;
    for (int i = 0; i < rule_nvalues(o->rule->ast); i++) {
        bool changed = !o->varies[i] && !same_value(o->params->values[i], values[i]);
        news |= changed;
        o->varies[i] |= changed;
    }
    return news;
}

void optimizer_free(optimizer *o)
{
    if (!o)
        return;
    drop_made(o, true);
    mem_free(o->varies);
    params_unref(o->params);
    arena_release(&o->memory);
    kv_rule_free(o->rule);
    mem_free(o);
}

int optimizer_change(optimizer *o, const kv_opt *params, int n, kv_err *e)
{
    optimizer next = *o;
    bool rate = false;
    for (int i = 0; i < n; i++) {
        rate |= rule_base_find(params[i].name) == RULE_LEARNING_RATE;
        if (rule_base_find(params[i].name) == RULE_DECAY_NAMES)
            return kv_err_set(e, KV_E_USAGE, "%s is set with the optimizer, not changed later",
                              rule_base_name(RULE_DECAY_NAMES));
    }
    int rc = bind(&next, params, n, e);
    o->memory = next.memory; /* grew, also when something was refused */
    if (!rc && (rc = optimizer_check(&next, e)))
        params_unref(next.params);
    if (rc)
        return rc;
    drop_made(o, vary(o, next.params->values));
    params_unref(o->params);
    use_params(o, next.params);
    o->seed = next.seed;
    o->scheduled = next.scheduled;
    o->now.schedule = next.now.schedule;
    if (rate)
        settle_schedule(o);
    return KV_OK;
}

/* ---- A key gets another name ----------------------------------------------------------------- */

static bool is_key(const char *key, const char *text, size_t n)
{
    return strlen(key) == n && memcmp(key, text, n) == 0;
}

/* Appends the pairs of a parameter with the key `from` called `to`. kept: `from` is also the name
 * of another key, for which its pair stays. */
static void rename_pairs(buf *out, const char *text, const char *from, const char *to, bool kept)
{
    while (*text) {
        size_t n = strcspn(text, ","), at = strcspn(text, "=");
        bool is_from = is_key(from, text, at), is_to = is_key(to, text, at);
        if (!is_to && (!is_from || kept))
            buf_printf(out, "%s%.*s", out->len ? "," : "", (int)n, text);
        if (is_from)
            buf_printf(out, "%s%s%.*s", out->len ? "," : "", to, (int)(n - at), text + at);
        text += n + (text[n] == ',');
    }
}

/* Returns true if some other key has this name. */
static bool names_other(const optimizer_table *names, const char *name)
{
    for (int64_t i = 0; i < names->n; i++)
        if (strcmp(names->texts[i], name) == 0 && strcmp(names->keys[i], name) != 0)
            return true;
    return false;
}

int optimizer_rename(optimizer *o, const kv_key *from, const kv_key *to, kv_err *e)
{
    char numbers[2][NUM_TEXT_MAX];
    const char *old = image_key(numbers[0], from), *key = image_key(numbers[1], to);
    optimizer_params *p = o->params;
    bool has_old = false, has_key = false, kept = names_other(&p->names, old);
    kv_opt changed[OWN_COUNT];
    buf texts[OWN_COUNT] = {{0}};
    int n = 0, rc = KV_OK;
    for (int i = 0; i < p->n && !rc; i++) {
        const char *name = p->given[i].name;
        int own = rule_lists(o->rule->ast, name) ? -1 : own_param(name);
        if (own != OWN_LR_MULT && own != OWN_WD_MULT && own != OWN_NAMES)
            continue;
        has_old |= optimizer_table_find(table_of(p, own), old) >= 0;
        has_key |= optimizer_table_find(table_of(p, own), key) >= 0;
        rename_pairs(&texts[own], p->given[i].value, old, key, kept && own != OWN_NAMES);
        rc = buf_check(&texts[own], e);
        changed[n++] = (kv_opt){name, buf_text(&texts[own])};
    }
    if (!rc && has_old && key[strcspn(key, ",=")])
        rc = slot_error(e, KV_E_KEY, to, NULL,
                        "key %s has a multiplier or a name, which no key with , or = has",
                        SLOT_KEY(from));
    else if (!rc && (has_old || has_key))
        rc = optimizer_change(o, changed, n, e);
    for (int i = 0; i < OWN_COUNT; i++)
        buf_release(&texts[i]);
    return rc;
}

/* ---- Another one in its place ---------------------------------------------------------------- */

bool optimizer_continues(const optimizer *next, const optimizer *o, bool by_name)
{
    const rule_ast *a = next->rule->ast, *b = o->rule->ast;
    bool same = by_name ? b->nnames > 0 && strcmp(a->names[0], b->names[0]) == 0
                        : kv_rule_same_text(next->rule, o->rule);
    host ours = rule_value(&next->binding, RULE_MULTI_PRECISION);
    host theirs = rule_value(&o->binding, RULE_MULTI_PRECISION);
    same = same && next->nstates == o->nstates && ours.u.integer == theirs.u.integer;
    for (int i = 0; i < o->nstates && same; i++)
        same = strcmp(next->states[i].name, o->states[i].name) == 0 &&
               next->states[i].how == o->states[i].how;
    return same;
}

/* Returns true if both schedules are the same and stand on the same rate. */
static bool same_schedule(const optimizer *a, const optimizer *b)
{
    buf texts[2] = {{0}};
    host x = rule_value(&a->binding, RULE_LEARNING_RATE);
    host y = rule_value(&b->binding, RULE_LEARNING_RATE);
    bool own = a->now.schedule.kind == LR_POLY || a->now.schedule.kind == LR_COSINE;
    if (!a->scheduled || !b->scheduled)
        return false;
    lr_schedule_print(&a->now.schedule, &texts[0]);
    lr_schedule_print(&b->now.schedule, &texts[1]);
    bool same = !texts[0].failed && !texts[1].failed &&
                strcmp(buf_text(&texts[0]), buf_text(&texts[1])) == 0;
    buf_release(&texts[0]);
    buf_release(&texts[1]);
    bool same_rate = host_is_number(x) == host_is_number(y) &&
                     (!host_is_number(x) || !(host_number(x) < host_number(y) ||
                                              host_number(x) > host_number(y)));
    return same && (own || same_rate);
}

void optimizer_continue(optimizer *next, const optimizer *o)
{
    if (same_schedule(next, o)) {
        next->now.schedule.base_lr = o->now.schedule.base_lr;
        next->now.schedule.at = o->now.schedule.at;
        next->now.schedule.count = o->now.schedule.count;
    }
    if (next->now.num_update < o->now.num_update)
        next->now.num_update = o->now.num_update;
    next->now.have = o->now.have;
    memcpy(next->now.shared, o->now.shared, sizeof next->now.shared);
}

void optimizer_reads_text(const optimizer *o, buf *out)
{
    const rule_ast *tree = o->rule->ast;
    const char *between = "";
    for (int i = 0; i < tree->nparams; i++) {
        if (tree->params[i].value || !rule_is_given(&o->binding, i))
            continue;
        buf_printf(out, "%s%s ", between, tree->params[i].name);
        host_print(out, o->binding.values[i], true);
        between = ", ";
    }
}

/* ---- Marks ----------------------------------------------------------------------------------- */

/* The schedule of a mark may point to texts of the optimizer, which frees none while it lives. */
void optimizer_mark_take(const optimizer *o, optimizer_mark *m)
{
    *m = (optimizer_mark){.params = o->params, .scheduled = o->scheduled, .seed = o->seed};
    m->params->refs++;
    optimizer_begin(o, &m->draft);
}

void optimizer_mark_release(optimizer_mark *m)
{
    params_unref(m->params);
    m->params = NULL;
}

void optimizer_mark_restore(optimizer *o, const optimizer_mark *m)
{
    kv_assert(m->params, "an optimizer with %d states gets back no parameters", o->nstates);
    drop_made(o, vary(o, m->params->values));
    m->params->refs++;
    params_unref(o->params);
    use_params(o, m->params);
    o->scheduled = m->scheduled;
    o->seed = m->seed;
    optimizer_commit(o, &m->draft);
}

/* ---- The texts of rules ---- */

static int read_rule(kv_rule *r, const char *text, const char *file, int line, int col, kv_err *e)
{
    size_t len = strlen(text);
    if (len > SOURCE_MAX)
        return kv_err_set(e, KV_E_SYNTAX, "a rule of %zu bytes is too long", len);
    if (!(r->text = mem_text(text, len, e)))
        return KV_E_MEMORY;
    if (file && !(r->file = mem_text(file, strlen(file), e)))
        return KV_E_MEMORY;
    r->src = (source){.name = r->file,
                      .text = r->text,
                      .len = (uint32_t)len,
                      .line = line > 0 ? line : 1,
                      .col = col > 0 ? col : 1};
    int rc = parse_rule(&r->ast, &r->src, &r->memory, e);
    return rc ? rc : rule_check(r->ast, &r->src, &r->memory, e);
}

int kv_rule_new(kv_rule **rule, const char *text, const char *file, int line, int col, kv_err *e)
{
    e = e ? e : &(kv_err){0};
    TRY(arg_given(rule, "rule", e));
    TRY(arg_given(text, "text", e));
    kv_rule *r = mem_zalloc(1, sizeof *r, e);
    if (!r)
        return KV_E_MEMORY;
    r->refs = 1;
    int rc = read_rule(r, text, file, line, col, e);
    if (rc)
        kv_rule_free(r);
    else
        *rule = r;
    return rc;
}

kv_rule *kv_rule_ref(kv_rule *r)
{
    __atomic_fetch_add(&r->refs, 1, __ATOMIC_RELAXED);
    return r;
}

void kv_rule_free(kv_rule *r)
{
    if (!r || __atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    arena_release(&r->memory);
    mem_free(r->text);
    mem_free(r->file);
    mem_free(r);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ';'; /* ; is a line's end */
}

/* Skips blanks and comments. A comment begins at the start or behind a blank. */
static const char *skip_blanks(const char *begin, const char *at)
{
    for (;; at++) {
        if (*at == '#' && (at == begin || is_blank(at[-1])))
            at += strcspn(at, "\n");
        if (!is_blank(*at))
            return at;
    }
}

bool kv_rule_same_text(const kv_rule *a, const kv_rule *b)
{
    const char *x = a->text, *y = b->text;
    char quote = 0; /* blanks in a text count */
    for (;; x++, y++) {
        x = quote ? x : skip_blanks(a->text, x);
        y = quote ? y : skip_blanks(b->text, y);
        if (*x != *y || !*x)
            return *x == *y;
        if (quote && *x == '\\' && x[1] && x[1] == y[1])
            x++, y++;
        else if (quote ? *x == quote : *x == '"' || *x == '\'')
            quote = quote ? 0 : *x;
    }
}

int builtin_rule(kv_rule **out, const char *name, kv_err *e)
{
    char file[64];
    for (const builtin_text *t = builtin_texts; t->name; t++) {
        if (strcasecmp(t->name, name) != 0)
            continue;
        snprintf(file, sizeof file, "%s.kvu", t->name);
        TRY(kv_rule_new(out, t->text, file, 1, 1, e));
        (*out)->builtin = true;
        return KV_OK;
    }
    kv_err_set(e, KV_E_USAGE, "there is no optimizer `%s`", name);
    suggest near = {.word = name, .by_first_letters = true};
    for (const builtin_text *t = builtin_texts; t->name; t++)
        suggest_add(&near, t->name);
    return suggest_done(&near, e), KV_E_USAGE;
}

const char *kv_optimizer_text(int i, const char **name)
{
    const builtin_text *t = builtin_texts;
    if (i < 0)
        return NULL;
    while (i-- > 0 && t->name)
        t++;
    if (name)
        *name = t->name;
    return t->text;
}
