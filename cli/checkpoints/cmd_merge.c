/* `merge`: checkpoints into another one, by a rule. Words, options and keys of the command are
 * here; merge/merge.h does the work. */
#include <math.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/choose.h"
#include "checkpoints/outputs.h"
#include "eval/eval.h"
#include "eval/rule_variables.h"
#include "lang/parse.h"
#include "merge/merge.h"
#include "merge/merge_adapter.h"
#include "merge/merge_texts.h"
#include "session/session.h"
#include "session/unit.h"
#include "syntax/command.h"
#include "syntax/parse_statement.h"
#include "syntax/rules.h"
#include "term/terminal.h"
#include "vm/rule.h"

/* ---- The rule -------------------------------------------------------------------------------- */

/* The rule that the word or the block of a merge stands for: the name of one of the library, the
 * path of a file that ends in .kvu, or a text. A text that stands in the command as it is keeps its
 * place there; files and other texts become units of their own. Begins zeroed. */
typedef struct merge_found {
    const rule_ast *rule; /* NULL: not known without reading a file, or evaluating a word */
    const char *library;  /* its name, of one that the library has; else NULL */
    source src;           /* of the rule */
    arena nodes;
    unit *unit; /* of a file or a computed text */
} merge_found;

/* The name of a text that stands in no file. */
#define TEXT_NAME "<rule>"

#define RULE_MOST 100000 /* bytes: what is longer is most likely another file */

/* Returns true if a word is the text of a rule: behind comments it begins with a brace, or with
 * `merge`. */
static bool is_rule_text(const char *text)
{
    for (;;) {
        text += strspn(text, " \t\r\n");
        if (*text != '#')
            break;
        text += strcspn(text, "\n");
    }
    return *text == '{' ||
           (strncmp(text, "merge", 5) == 0 && letter_is_blank(text[5]));
}

/* Returns true if the text stands in the source at the node as it is, and where. */
static bool stands_there(const source *src, const ast *at, const char *text, source *out)
{
    size_t n = strlen(text);
    const char *from = src->text + at->pos;
    const char *found = n > 0 ? memmem(from, at->end - at->pos, text, n) : NULL;
    if (!found)
        return false;
    *out = (source){.name = src->name, .text = text, .len = (uint32_t)n};
    source_locate(src, (uint32_t)(found - src->text), &out->line, &out->col);
    return true;
}

static int parse(merge_found *f, kv_err *e)
{
    rule_ast *rule;
    TRY(parse_merge(&rule, &f->src, &f->nodes, e));
    f->rule = rule;
    return KV_OK;
}

static int find_in_library(const source *src, const ast *at, const char *name, merge_found *f,
                           kv_err *e)
{
    const merge_text *t = merge_text_find(name);
    if (!t) {
        source_err(src, at->pos, at->end, e, KV_E_USAGE, "there is no merge `%.64s`", name);
        if (strchr(name, '.') || strchr(name, '/')) {
            return kv_err_hint(e,
                               "the rule stands first: merge average A B --out C; that of a file "
                               "ends in .kvu");
        }
        merge_text_suggest(name, e);
        return kv_err_hint(e, "help merge lists them; one of your own stands in a file .kvu, or in "
                              "braces: merge '{ merged = … }'");
    }
    f->library = t->name;
    f->src = (source){
        .name = t->name, .text = t->text, .len = (uint32_t)strlen(t->text), .line = 1, .col = 1};
    return parse(f, e);
}

/* A rule that stands in a text of its own, which is taken. */
static int find_in_text(session *s, const char *name, char *text, size_t n, merge_found *f,
                        kv_err *e)
{
    TRY(unit_of_text(s, &f->unit, name, text, n, e));
    f->src = f->unit->src;
    return parse(f, e);
}

static int find_in_file(session *s, const ast *at, const char *path, merge_found *f, kv_err *e)
{
    char *text;
    size_t n;
    if (file_read_text(path, &text, &n, e))
        return unit_at(s, at, e);
    if (n <= RULE_MOST)
        return find_in_text(s, path, text, n, f, e);
    mem_free(text);
    return unit_err(s, at, e, KV_E_VALUE, "%s: a rule has at most %d bytes", path, RULE_MOST);
}

/* The rule that the word `at` of a source names, or is. s NULL: nothing runs yet, so no file is
 * read. Errors, with place: usage (no such rule), syntax (in a text), io. */
static int find_by_word(session *s, const source *src, const ast *at, const char *text,
                        merge_found *f, kv_err *e)
{
    size_t n = strlen(text);
    if (!is_rule_text(text))
        return !utf8_ends_in(text, ".kvu") ? find_in_library(src, at, text, f, e)
               : s                         ? find_in_file(s, at, text, f, e)
                                           : KV_OK;
    bool there = at->kind == AST_TEXT && stands_there(src, at, at->u.text, &f->src);
    if (!there && s) {
        char *copy = mem_text(text, n, e);
        return copy ? find_in_text(s, TEXT_NAME, copy, n, f, e) : KV_E_MEMORY;
    }
    if (!there)
        f->src = (source){.name = TEXT_NAME, .text = text, .len = (uint32_t)n, .line = 1, .col = 1};
    int rc = parse(f, e);
    if (rc && *text == '{' && !strchr(text, '}'))
        kv_err_hint(e, "merge '{ … }' A B: quotes keep a shell from cutting the rule");
    return rc;
}

/* Finds the rule of the call. s NULL: as far as its words tell. Errors as above. */
static int merge_find(session *s, const source *src, const ast *call, merge_found *f, kv_err *e)
{
    const ast *at = call->kid[0];
    own_value given = value_none();
    if (at->kind == STMT_RULE) {
        f->src = *src;
        f->rule = at->op == STMT_RULE_BROKEN ? NULL : at->u.other;
        return KV_OK;
    }
    TRY(s ? eval_text(s, at, "a merge", &given, e) : KV_OK);
    const char *text = s ? given.u.text : at->kind == AST_TEXT ? at->u.text : NULL;
    return text ? find_by_word(s, src, at, text, f, e) : KV_OK;
}

/* failed: the text stays, since the report of the error shows its lines. */
static void merge_found_release(session *s, merge_found *f, bool failed)
{
    arena_release(&f->nodes);
    if (!failed)
        unit_drop(s, f->unit);
}

/* The rule as messages call it: "ties", "the rule". */
static const char *name_of(const merge_found *f)
{
    return f->library ? f->library : f->rule->nnames > 0 ? f->rule->names[0] : "the rule";
}

/* ---- The words of the command ---------------------------------------------------------------- */

static int suggest_free(void *arg, const ast *at, kv_err *e)
{
    (void)e;
    suggest_add(arg, at->u.text);
    return KV_OK;
}

static int unknown_param(const source *src, const ast *call, const ast *option,
                         const merge_found *f, kv_err *e)
{
    const command *c = call->u.other;
    suggest near = {.word = option->u.text, .by_first_letters = true};
    source_err(src, option->pos, option->end, e, KV_E_USAGE, "%s has no parameter `%s`",
               name_of(f), option->u.text);
    for (int i = 0; i < f->rule->nparams; i++)
        suggest_add(&near, f->rule->params[i].name);
    merge_names_each(f->rule, suggest_free, &near, NULL);
    for (const command_option *o = c->options; o->name; o++)
        suggest_add(&near, o->name);
    suggest_done(&near, e);
    if (f->rule->nparams == 0)
        kv_err_hint(e, "it takes none");
    else if (f->library)
        kv_err_hint(e, "help merge %s shows its parameters", f->library);
    return e->code;
}

/* Returns true if the default of a parameter is true or false. */
static bool is_switch(const rule_ast *r, const char *name)
{
    for (int i = 0; i < r->nparams; i++)
        if (name_is_word(r->params[i].name, name, strlen(name)))
            return r->params[i].value && r->params[i].value->kind == AST_BOOL;
    return false;
}

/* Returns true if a word such as `a.safetensors` stands behind a switch: it was meant for a model,
 * while the language reads an attribute. */
static bool is_path_behind_switch(const merge_found *f, const ast *option)
{
    return option->n > 1 && option->kid[0]->kind == AST_CALL && is_switch(f->rule, option->u.text);
}

/* The value of a parameter as its text, where it is a literal; else NULL. */
static const char *literal_value(const source *src, const ast *option, arena *a, kv_err *e)
{
    const ast *v = option->n > 0 ? option->kid[0] : NULL;
    const ast *number = v && v->kind == AST_UNARY ? v->kid[0] : v;
    if (!v)
        return "true";
    if (v->kind == AST_TEXT)
        return v->u.text;
    bool literal = number->kind == AST_INT || number->kind == AST_FLOAT || number->kind == AST_BOOL;
    return literal && !(v->flags & AST_PARENS) && !(number->flags & AST_PARENS)
               ? arena_text(a, src->text + v->pos, v->end - v->pos, e)
               : NULL;
}

/* Checks one value of a parameter. Errors, at the value: value (out of range), dtype (of another
 * kind). */
static int merge_param_check(const source *src, const ast *option, const merge_found *f,
                             const char *name, const char *text, kv_err *e)
{
    own_arena memory = {0};
    if (!rule_lists(f->rule, name))
        return KV_OK;
    host *values = arena_alloc(&memory, (size_t)rule_nvalues(f->rule) * sizeof *values, e);
    int rc =
        !values ? KV_E_MEMORY : rule_bind(f->rule, NULL, &name, &text, 1, values, &memory, e);
    const ast *at = option->n > 0 ? option->kid[0] : option;
    if (rc)
        source_at(src, at->pos, at->end, e);
    return rc;
}

static int check_param(const source *src, const ast *call, const ast *option, const merge_found *f,
                       kv_err *e)
{
    const char *name = option->u.text;
    own_arena memory = {0};
    if (!rule_lists(f->rule, name) && !merge_names_has(f->rule, name))
        return unknown_param(src, call, option, f, e);
    if (option->n == 0 && rule_lists(f->rule, name) && !is_switch(f->rule, name))
        return source_err(src, option->pos, option->end, e, KV_E_USAGE, "--%s needs a value", name);
    const char *text = is_path_behind_switch(f, option) ? option->kid[1]->u.text
                                                        : literal_value(src, option, &memory, e);
    int rc = text ? merge_param_check(src, option, f, name, text, e) : KV_OK;
    if (rc == KV_E_DTYPE && is_switch(f->rule, name))
        kv_err_hint(e, "the word behind it is its value: --%s true", name);
    return rc;
}

/* An option of the command would take what is meant for a parameter of its name. */
static int check_hidden(const ast *call, const merge_found *f, kv_err *e)
{
    const command *c = call->u.other;
    for (int i = 0; i < f->rule->nparams; i++) {
        const rule_param *p = &f->rule->params[i];
        if (!command_option_find(c, p->name, strlen(p->name)))
            continue;
        source_err(&f->src, p->pos, p->end, e, KV_E_USAGE,
                   "the parameter `%s` could not be given: --%s is an option of merge", p->name,
                   p->name);
        return kv_err_hint(e, "give it another name");
    }
    return KV_OK;
}

/* Base and weights are given where the rule reads them, and models are not adapters too. */
static int check_given(const source *src, const ast *call, const merge_found *f, kv_err *e)
{
    const ast *at = call->kid[0], *weights = command_option_of(call, "weights");
    const ast *base = rule_reader(f->rule, "base"), *paths = call->kid[1];
    bool adapters = rule_reader(f->rule, "lora_A") || rule_reader(f->rule, "lora_B");
    if (base && !command_option_of(call, "base") && !(adapters && paths->n > 1)) {
        if (f->library)
            source_err(src, at->pos, at->end, e, KV_E_USAGE, "%s needs a base", f->library);
        else
            source_err(&f->src, base->pos, base->end, e, KV_E_USAGE, "the rule needs a base");
        return kv_err_hint(e, "--base CKPT: the model that the others were made of");
    }
    const ast *models = rule_reader(f->rule, "models");
    if (models && adapters)
        return source_err(&f->src, models->pos, models->end, e, KV_E_USAGE,
                          "a merge of adapters reads lora_A and lora_B, not `models`");
    if (weights && !rule_reader(f->rule, "weights"))
        return source_err(src, weights->pos, weights->end, e, KV_E_USAGE, "%s reads no weights",
                          name_of(f));
    return KV_OK;
}

/* Checks the words that need no models: that each option which the command lacks is a parameter,
 * that literal ones have values which it takes, that the command does not hide one, that base and
 * weights are there for a rule that reads them, and only then. */
static int merge_words_check(const source *src, const ast *call, const merge_found *f, kv_err *e)
{
    const command *c = call->u.other;
    TRY(check_hidden(call, f, e));
    for (uint32_t i = 1; i < call->n; i++) {
        const ast *option = call->kid[i];
        if (option && option->kind == STMT_OPTION &&
            !command_option_find(c, option->u.text, strlen(option->u.text)))
            TRY(check_param(src, call, option, f, e));
    }
    return check_given(src, call, f, e);
}

/* ---- The command and its words --------------------------------------------------------------- */

/* A merge while its words are read and its keys are chosen. The result owns its arrays. */
typedef struct merging {
    target o;
    merge_found found;
    rule_params params;
    words models;
    word base; /* no text without one */
    merge all; /* as far as it is known */
    double *weights;
    int64_t nweights, weights_cap;
    bool widens; /* codes with scales become BF16 */
} merging;

/* ---- Models ---------------------------------------------------------------------------------- */

static int no_file(const merging *m, const word *w, kv_err *e)
{
    file_error(e, "read", w->text, ENOENT);
    return unit_at(m->o.s, w->at, e);
}

/* Models up to the first word that names no file; patterns behind it. */
static int cut_words(merging *m, const words *all, kv_err *e)
{
    int64_t n = 0, streams = strcmp(m->base.text ? m->base.text : "", "-") == 0;
    while (n < all->n &&
           (strcmp(all->items[n].text, "-") == 0 || checkpoint_stands(all->items[n].text))) {
        const word *w = &all->items[n++];
        streams += strcmp(w->text, "-") == 0;
        if (streams > 1)
            return unit_err(m->o.s, w->at, e, KV_E_USAGE, "stdin is read once");
        if (n > MERGE_MODELS)
            return unit_err(m->o.s, w->at, e, KV_E_USAGE, "a merge takes at most %d models",
                            MERGE_MODELS);
    }
    if (n == 0)
        return all->n > 0
                   ? no_file(m, &all->items[0], e)
                   : unit_err(m->o.s, m->o.call, e, KV_E_USAGE, "merge needs models to merge");
    m->models = (words){all->items, n, n};
    m->o.chosen.globs = (words){all->items + n, all->n - n, all->n - n};
    return KV_OK;
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* Rules add weights in float32: within these bounds no sum of them becomes inf, by which a rule
 * would divide to 0, and none loses digits to 0. */
#define LEAST_WEIGHT   1e-30
#define LARGEST_WEIGHT 1e30

/* Adds a number, or those of a list or an array. */
static int add_weights(merging *m, const ast *at, value v, int depth, kv_err *e)
{
    value number;
    bool several =
        value_is_sequence(v) || (v.kind == VALUE_ARRAY && kv_array_ndim(v.u.box->array) > 0);
    if (several && depth < 3) {
        own_value items = value_none();
        if (eval_items_of(v, &items, e))
            return unit_at(m->o.s, at, e);
        for (int64_t i = 0; i < items.u.list->n; i++)
            TRY(add_weights(m, at, items.u.list->items[i], depth + 1, e));
        return KV_OK;
    }
    if (several || value_item(&number, v, e) || number.kind == VALUE_BOOL) {
        *e = (kv_err){0};
        return unit_err(m->o.s, at, e, KV_E_DTYPE, "a weight is a number, not %s",
                        value_kind_name(v));
    }
    double size = fabs(value_number(number));
    if (!isfinite(size))
        return unit_err(m->o.s, at, e, KV_E_VALUE, "a weight is a finite number");
    if (size != 0 && (size < LEAST_WEIGHT || size > LARGEST_WEIGHT))
        return unit_err(m->o.s, at, e, KV_E_VALUE, "a weight is 0, or from %g to %g in size",
                        LEAST_WEIGHT, LARGEST_WEIGHT);
    TRY(arena_grow(&m->o.out->names, &m->weights, &m->weights_cap, m->nweights, sizeof *m->weights,
                   e));
    m->weights[m->nweights++] = value_number(number);
    m->all.weights = m->weights;
    return KV_OK;
}

static int read_weight(merging *m, const ast *node, kv_err *e)
{
    own_value v = value_none();
    TRY(eval(m->o.s, node, &v, e));
    return add_weights(m, node, v, 0, e);
}

static int wrong_count(const source *src, const ast *weights, int64_t n, int64_t models, kv_err *e)
{
    return source_err(src, weights->pos, weights->end, e, KV_E_USAGE,
                      "there %s %lld weight%s for %lld model%s", n == 1 ? "is" : "are",
                      (long long)n, n == 1 ? "" : "s", (long long)models, models == 1 ? "" : "s");
}

static int read_weights(merging *m, kv_err *e)
{
    const ast *given = command_option_of(m->o.call, "weights");
    bool list = given && given->kind == AST_LIST;
    if (!given)
        return KV_OK;
    for (uint32_t i = 0; list && i < given->n; i++)
        TRY(read_weight(m, given->kid[i], e));
    if (!list)
        TRY(read_weight(m, given, e));
    return m->nweights == m->models.n
               ? KV_OK
               : wrong_count(&m->o.s->unit->src, given, m->nweights, m->models.n, e);
}

/* ---- Parameters ------------------------------------------------------------------------------ */

/* Returns true if the default of a parameter is a text: a word is its value then. */
static bool takes_text(void *arg, const char *param)
{
    return optimizer_takes_text(param, ((const merging *)arg)->found.rule);
}

static int unknown_name(const merging *m, const ast *at, kv_err *e)
{
    const char *name = at->u.text;
    suggest near = {.word = name};
    source_err(&m->found.src, at->pos, at->end, e, KV_E_USAGE, "a merge knows no name `%s` here",
               name);
    merge_names_suggest(m->found.rule, &near);
    for (int64_t i = 0; i < m->o.s->globals.n; i++)
        suggest_add(&near, m->o.s->globals.items[i].name);
    suggest_done(&near, e);
    return kv_err_hint(e, "--%s V gives it a value; so does a head: merge my(%s = 0.5) { … }", name,
                       name);
}

/* Takes the value of the variable that the merge reads, unless an option gave one. */
static int take_variable(void *arg, const ast *at, kv_err *e)
{
    merging *m = arg;
    variable *found = session_variable(m->o.s, at->u.text, false);
    value text;
    if (rule_params_has(&m->params, at->u.text))
        return KV_OK;
    if (!found)
        return unknown_name(m, at, e);
    if (!value_is_scalar(found->v))
        return source_err(&m->found.src, at->pos, at->end, e, KV_E_USAGE,
                          "`%s` is %s, and a rule reads numbers, texts, true, false and none",
                          at->u.text, value_kind_name(found->v));
    TRY(follow_text(&text, found->v, true, e));
    return rule_params_add(&m->params, at->u.text, text, e);
}

/* The values of options, which the rule takes as they are known now. */
static int check_values(merging *m, kv_err *e)
{
    const ast *option;
    int rc = KV_OK, n = 0;
    for (uint32_t i = 0; rc == KV_OK && (option = rule_options_next(m->o.call, &i));) {
        rc = merge_param_check(&m->o.s->unit->src, option, &m->found, m->params.opts[n].name,
                               m->params.opts[n].value, e);
        if (rc && e->option)
            e->option = (uint8_t)(n + 1); /* it was checked alone */
        n++;
    }
    return rc;
}

static int read_params(merging *m, kv_err *e)
{
    TRY(merge_find(m->o.s, &m->o.s->unit->src, m->o.call, &m->found, e));
    TRY(merge_words_check(&m->o.s->unit->src, m->o.call, &m->found, e));
    TRY(rule_options_read(m->o.s, m->o.call, takes_text, m, &m->params, e));
    if (check_values(m, e))
        return rule_options_explain(m->o.s, m->o.call, e);
    return m->found.library ? KV_OK : merge_names_each(m->found.rule, take_variable, m, e);
}

/* ---- Words ----------------------------------------------------------------------------------- */

static int read_path(merging *m, const char *option, word *to, kv_err *e)
{
    to->at = command_option_of(m->o.call, option);
    to->text = eval_option_word(m->o.s, m->o.call, option, "a path", m->o.out, e);
    return e->code;
}

/* Returns true if a path is a folder as PEFT writes one. */
static bool is_adapter(const char *folder)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/adapter_config.json", folder) < PATH_MAX &&
           access(path, F_OK) == 0;
}

/* merge lora BASE ADAPTER...: without --base it is the first one that is not an adapter. */
static int take_base(merging *m, kv_err *e)
{
    const rule_ast *rule = m->found.rule;
    bool adapters = rule_reader(rule, "lora_A") || rule_reader(rule, "lora_B");
    if (m->base.text || !adapters || !rule_reader(rule, "base"))
        return KV_OK;
    if (m->models.n == 1) /* patterns stand behind it */
        return unit_err(m->o.s, m->o.call->kid[0], e, KV_E_USAGE,
                        "one checkpoint is named, and the base is missing");
    word *items = m->models.items;
    int64_t at = 0;
    while (at < m->models.n && is_adapter(items[at].text))
        at++;
    at = at < m->models.n ? at : 0;
    m->base = items[at];
    m->models.n--;
    memmove(items + at, items + at + 1, (size_t)(m->models.n - at) * sizeof *items);
    return KV_OK;
}

static int read_words(merging *m, kv_err *e)
{
    words all = {0};
    TRY(read_path(m, "base", &m->base, e));
    TRY(read_path(m, "out", &m->o.to, e));
    TRY(eval_words(m->o.s, m->o.call->kid[1], "a path", m->o.out, &all, e));
    TRY(cut_words(m, &all, e));
    TRY(take_base(m, e));
    TRY(target_read(&m->o, NULL, e));
    return target_check_path(&m->o, e);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int open_model(const merging *m, const word *w, checkpoint **c, kv_err *e)
{
    TRY(choose_open_tensors(m->o.s, w, c, e));
    return choose_decode(m->o.s, m->o.call, w->at, c, 1, NULL, NULL, e);
}

static int open_all(merging *m, kv_err *e)
{
    merge *all = &m->all;
    TRY(m->base.text ? open_model(m, &m->base, &all->base, e) : KV_OK);
    all->adapters = rule_reader(m->found.rule, "lora_A") || rule_reader(m->found.rule, "lora_B");
    all->nmodels = (int)m->models.n;
    size_t n = (size_t)m->models.n;
    checkpoint **files = arena_alloc(&m->o.out->names, n * sizeof *files, e);
    double *lora = arena_alloc(&m->o.out->names, 2 * n * sizeof *lora, e);
    all->models = files;
    if (!files || !lora)
        return KV_E_MEMORY;
    all->lora_scales = all->adapters ? lora : NULL;
    all->lora_ranks = all->adapters ? lora + n : NULL;
    for (size_t i = 0; i < n; i++) {
        const word *w = &m->models.items[i];
        TRY(open_model(m, w, &files[i], e));
        if (all->adapters && adapter_config_read(w->text, &lora[i], &lora[n + i], e))
            return unit_at(m->o.s, w->at, e);
    }
    return KV_OK;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* The checkpoint that says which keys there are, of which types, and with which metadata. */
static checkpoint *first_file(const merging *m)
{
    return m->all.base ? m->all.base : m->all.models[0];
}

/* A pattern that matches no key may be a model, whose path has a mistake or stands behind a
 * pattern. */
static int check_patterns(merging *m, kv_err *e)
{
    for (int64_t i = 0; i < m->o.chosen.globs.n; i++) {
        const word *w = &m->o.chosen.globs.items[i];
        if (w->matched)
            continue;
        if (strcmp(w->text, "-") == 0 || checkpoint_stands(w->text)) {
            unit_err(m->o.s, w->at, e, KV_E_USAGE, "no name matches \"%s\", which is a file",
                     w->text);
            return kv_err_hint(e, "models stand before the patterns");
        }
        if (choose_ends_as_file(w->text) || (strchr(w->text, '/') && !strpbrk(w->text, "*?[")))
            return no_file(m, w, e);
        unit_err(m->o.s, w->at, e, KV_E_KEY, "no name matches \"%s\"", w->text);
        if (command_option_of(m->o.call, "weights") && strchr("0123456789.", w->text[0]))
            kv_err_hint(e, "weights are one word: --weights 1,%s", w->text);
        if (!strpbrk(w->text, "*?["))
            kv_err_hint(e, "there is no file of this name, either");
        return e->code;
    }
    return KV_OK;
}

/* Refuses to merge codes and scales each by themselves. */
static int check_scales(merging *m, const ast *at, checkpoint *c, kv_err *e)
{
    for (int64_t i = 0; i < m->all.nkeys; i++) {
        int64_t key = checkpoint_find(c, m->all.keys[i].name);
        TRY(choose_check_all_scales(m->o.s, m->o.call, at, c, &key, 1, e));
    }
    return KV_OK;
}

/* The type that key i of the first model gets: of narrow codes with scales, here or in another
 * model, BF16, since the result would need scales of its own. */
static tensor_type type_of(merging *m, const checkpoint *from, int64_t i)
{
    const tensor_info *t = checkpoint_at(from, i), *codes = tensor_values_codes(from, i);
    const char *scaled;
    (void)tensor_values_scales(from, i, &scaled);
    for (int64_t k = 0; k < m->models.n && t->bytes <= t->elements && !scaled; k++) {
        int64_t at = checkpoint_find(m->all.models[k], t->name);
        if (at >= 0)
            (void)tensor_values_scales(m->all.models[k], at, &scaled);
    }
    m->widens |= scaled != NULL;
    return target_type(&m->o, codes ? codes->name : t->name, scaled ? TENSOR_BF16 : t->type);
}

static int choose_all(merging *m, kv_err *e)
{
    const checkpoint *from = first_file(m);
    int64_t n = checkpoint_count(from);
    bool noted = false;
    merge_key *keys = arena_alloc(&m->o.out->names, (size_t)n * sizeof *keys, e);
    if (!keys)
        return KV_E_MEMORY;
    m->all.keys = keys;
    for (int64_t i = 0; i < n; i++) {
        const tensor_info *t = checkpoint_at(from, i);
        if (!choose_takes(&m->o.chosen, t->name))
            continue;
        keys[m->all.nkeys++] = (merge_key){t->name, type_of(m, from, i)};
        noted = noted || choose_tell_training(m->o.s, from, i);
    }
    TRY(check_patterns(m, e));
    TRY(choose_check_some(m->o.s, &m->o.chosen, e));
    if (m->all.base)
        TRY(check_scales(m, m->base.at, m->all.base, e));
    for (int64_t i = 0; i < m->models.n; i++)
        TRY(check_scales(m, m->models.items[i].at, m->all.models[i], e));
    return target_check_types(&m->o, e);
}

/* ---- The command ----------------------------------------------------------------------------- */

/* A key counts once, by the first model that holds codes of it, else by the first that holds it. */
static decoded count_decoded(const merging *m)
{
    decoded d = {0};
    for (int64_t i = 0; i < m->all.nkeys; i++) {
        checkpoint *by = NULL;
        int64_t of = 0;
        for (int k = m->all.base ? -1 : 0; k < m->all.nmodels; k++) {
            checkpoint *c = k < 0 ? m->all.base : m->all.models[k];
            int64_t at = checkpoint_find(c, m->all.keys[i].name);
            bool codes = at >= 0 && tensor_values_codes(c, at);
            if (at >= 0 && (!by || codes)) {
                by = c;
                of = at;
            }
            if (codes)
                break;
        }
        if (by)
            choose_count_decoded(&d, (scales_model){&by, 1}, 0, of,
                                 !command_option_of(m->o.call, "raw"));
    }
    return d;
}

/* Notes that keys get the type of the first file although another one holds more digits of them. */
static void tell_narrowed(const merging *m)
{
    const tensor_info *first = NULL, *wider = NULL;
    int64_t n = 0;
    for (int64_t i = 0; i < m->all.nkeys * m->models.n; i++) {
        const merge_key *key = &m->all.keys[i / m->models.n];
        checkpoint *from = first_file(m), *c = m->all.models[i % m->models.n];
        const tensor_info *was = checkpoint_at(from, checkpoint_find(from, key->name));
        int64_t at = was->type == key->type && was != first ? checkpoint_find(c, key->name) : -1;
        const tensor_info *t = at < 0 ? was : checkpoint_at(c, at);
        if (t->type != was->type && t->bytes >= was->bytes) {
            first = was;
            wider = t;
            n++;
        }
    }
    if (n > 0)
        session_note(m->o.s,
                     "%lld key%s %s in another file, and %s in the first one, which the "
                     "result follows; --dtype %s keeps %s",
                     (long long)n, n == 1 ? " is" : "s are", tensor_info_type(wider),
                     tensor_info_type(first), tensor_info_type(wider), n == 1 ? "it" : "them");
}

/* Gives an error of merge_check its place. What a rule of the library refuses is a mistake in what
 * it was given, so its own place says nothing; `fail` has none. */
static int at_word(merging *m, kv_err *e)
{
    const words base = {&m->base, m->base.text != NULL, 1};
    const ast *model = eval_words_about(&m->models, e);
    model = model ? model : eval_words_about(&base, e);
    bool in_library = e->line > 0 && m->found.library && strcmp(e->file, m->found.library) == 0;
    if (in_library) {
        e->line = 0;
        e->file[0] = '\0';
    }
    bool of_rule = in_library || e->code == KV_E_USAGE || e->code == KV_E_VALUE;
    return unit_at(m->o.s, model ? model : of_rule ? m->o.call->kid[0] : m->o.call, e);
}

/* Warns of adapters whose scale nobody gave. */
static void warn_of_scales(const merging *m)
{
    bool given = rule_params_has(&m->params, "scale") || !rule_reader(m->found.rule, "lora_scale");
    for (int64_t i = 0; i < m->models.n && m->all.adapters && !given; i++)
        if (m->all.lora_ranks[i] == 0) /* no rank: no configuration */
            session_warn(m->o.s, m->models.items[i].at,
                         "%s has no adapter_config.json, so its scale is 1: give alpha / r, such "
                         "as --scale 2",
                         m->models.items[i].text);
}

static int merge_all(merging *m, kv_err *e)
{
    target *o = &m->o;
    merge *all = &m->all;
    checkpoint *const from[] = {first_file(m)};
    const char *names[RULE_PARAMS_MAX], *texts[RULE_PARAMS_MAX];
    for (int i = 0; i < m->params.n; i++) {
        names[i] = m->params.opts[i].name;
        texts[i] = m->params.opts[i].value;
    }
    TRY(target_metadata(o, from, 1, e));
    all->rule = m->found.rule;
    all->src = &m->found.src;
    all->names = names;
    all->texts = texts;
    all->nparams = m->params.n;
    all->keeps_first = command_option_of(o->call, "keep-first") != NULL;
    all->metadata = o->metadata;
    all->nmetadata = o->nmetadata;
    all->lost = &o->lost;
    all->progress = progress_bytes;
    if (merge_check(all, e))
        return at_word(m, e);
    warn_of_scales(m);
    if (session_would(o->s, "write", o->to.text))
        return KV_OK;
    TRY(target_begin(o, all->nkeys, e));
    for (int64_t i = 0; i < all->nkeys; i++)
        o->keys[i] = (target_key){all->keys[i].name, all->keys[i].type};
    const checkpoint *folder = all->base && folder_files_has(all->base) ? all->base : NULL;
    for (int i = 0; i < all->nmodels && !folder && !all->adapters; i++) /* none of adapters */
        folder = folder_files_has(all->models[i]) ? all->models[i] : NULL;
    const decoded values = count_decoded(m);
    o->beside.unquantised = values.scaled > 0; /* other codes are refused */
    o->beside.folded = all->adapters;
    target_plan_files(o, folder);
    if (m->widens && !o->beside.dtype)
        o->beside.dtype = folder_files_dtype(TENSOR_BF16);
    if (PROGRESS("merge", merge_run(all, o->to.text, &o->how, e)))
        return unit_at(o->s, o->to.at, e);
    choose_tell_decoded(o->s, &values, NULL);
    tell_narrowed(m);
    return target_end(o, e);
}

int cmd_merge(session *s, const ast *call, result *out, kv_err *e)
{
    merging m = {.o = {.s = s, .call = call, .out = out}};
    /* Weights are read when it is clear which words are models. */
    int rc = read_params(&m, e) || read_words(&m, e) || open_all(&m, e) || choose_all(&m, e) ||
                     read_weights(&m, e) || merge_all(&m, e)
                 ? (int)e->code
                 : KV_OK;
    rc = target_release(&m.o, rc, e);
    for (int i = 0; m.all.models && i < m.all.nmodels; i++)
        checkpoint_close(m.all.models[i]);
    checkpoint_close(m.all.base);
    merge_found_release(s, &m.found, rc != KV_OK);
    rule_params_release(&m.params);
    return rc;
}

/* ---- Before anything runs -------------------------------------------------------------------- */

/* The numbers that a literal --weights gives; -1: they are not known yet. */
static int64_t count_weights(const ast *given)
{
    int64_t n = 0;
    if (given->kind != AST_LIST)
        return -1;
    for (uint32_t i = 0; i < given->n && n >= 0; i++) {
        const ast *one = given->kid[i];
        const ast *number = one->kind == AST_UNARY ? one->kid[0] : one;
        int64_t more = one->kind == AST_LIST                                  ? count_weights(one)
                       : number->kind == AST_INT || number->kind == AST_FLOAT ? 1
                                                                              : -1;
        n = more < 0 ? -1 : n + more;
    }
    return n;
}

/* Words of which each surely is a model, as its ending says, although it may not be there yet; -1:
 * some are not sure. */
static int64_t count_models(const ast *given)
{
    for (uint32_t i = 0; i < given->n; i++) {
        const ast *w = given->kid[i];
        if (w->kind != AST_TEXT ||
            (strcmp(w->u.text, "-") != 0 && !checkpoint_out_is_path(w->u.text)))
            return -1;
    }
    return given->n;
}

static int check_counts(const source *src, const ast *call, kv_err *e)
{
    const ast *weights = command_option_of(call, "weights"), *models = call->kid[1];
    int64_t n = weights ? count_weights(weights) : -1;
    int64_t m = n >= 0 && models->kind == AST_LIST ? count_models(models) : -1;
    return m < 0 || n == m ? KV_OK : wrong_count(src, weights, n, m, e);
}

int cmd_merge_check(const source *src, const ast *call, const map *types, kv_err *e)
{
    merge_found f = {0};
    (void)types;
    int rc = merge_find(NULL, src, call, &f, e);
    if (rc == KV_OK && f.rule)
        rc = merge_words_check(src, call, &f, e);
    if (rc == KV_OK)
        rc = check_counts(src, call, e);
    arena_release(&f.nodes);
    return rc;
}
