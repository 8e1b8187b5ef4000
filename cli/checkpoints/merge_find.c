/* A word is the name of a rule of the library, the path of a file that ends in .kvu, or the text of
 * a rule. A text that stands in the command as it is keeps its place there; files and other texts
 * become units of their own. */
#include "checkpoints/checkpoints.h"

#include <string.h>

#include "base/file.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "eval/eval.h"
#include "lang/parse.h"
#include "merge/merge_texts.h"
#include "syntax/command.h"
#include "syntax/parse_statement.h"
#include "syntax/rules.h"
#include "vm/rule.h"

/* The name of a text that stands in no file. */
#define TEXT_NAME "<rule>"

#define RULE_MOST 100000 /* bytes: what is longer is most likely another file */

/* ---- Kinds of words -------------------------------------------------------------------------- */

/* Returns true if a word is the text of a rule: behind comments it begins with a brace, or with
 * `merge`. */
static bool is_rule_text(const char *word)
{
    for (;;) {
        word += strspn(word, " \t\r\n");
        if (*word != '#')
            break;
        word += strcspn(word, "\n");
    }
    return *word == '{' ||
           (strncmp(word, "merge", 5) == 0 && letter_is_blank(word[5]));
}

static bool is_rule_file(const char *word)
{
    return utf8_ends_in(word, ".kvu");
}

/* ---- Sources --------------------------------------------------------------------------------- */

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
    int rc = parse_merge(&rule, &f->src, &f->nodes, e);
    if (rc == KV_OK)
        f->rule = rule;
    return rc;
}

static int find_in_library(const source *src, const ast *at, const char *word, merge_found *f,
                           kv_err *e)
{
    const merge_text *t = merge_text_find(word);
    if (!t) {
        source_err(src, at->pos, at->end, e, KV_E_USAGE, "there is no merge `%.64s`", word);
        if (strchr(word, '.') || strchr(word, '/')) {
            return kv_err_hint(e,
                               "the rule stands first: merge average A B --out C; that of a file "
                               "ends in .kvu"),
                   KV_E_USAGE;
        }
        merge_text_suggest(word, e);
        return kv_err_hint(e, "help merge lists them; one of your own stands in a file .kvu, or in "
                              "braces: merge '{ merged = … }'"),
               KV_E_USAGE;
    }
    f->library = t->name;
    f->src = (source){
        .name = t->name, .text = t->text, .len = (uint32_t)strlen(t->text), .line = 1, .col = 1};
    return parse(f, e);
}

int merge_find_literal(const source *src, const ast *call, merge_found *f, kv_err *e)
{
    const ast *at = call->kid[0];
    const char *word = at->kind == AST_TEXT ? at->u.text : NULL;
    if (at->kind == STMT_RULE) {
        f->src = *src;
        f->rule = at->op == STMT_RULE_BROKEN ? NULL : at->u.other;
        return KV_OK;
    }
    if (!word || is_rule_file(word))
        return KV_OK;
    if (!is_rule_text(word))
        return find_in_library(src, at, word, f, e);
    if (!stands_there(src, at, word, &f->src))
        f->src = (source){
            .name = TEXT_NAME, .text = word, .len = (uint32_t)strlen(word), .line = 1, .col = 1};
    int rc = parse(f, e);
    if (rc && *word == '{' && !strchr(word, '}'))
        kv_err_hint(e, "merge '{ … }' A B: quotes keep a shell from cutting the rule");
    return rc;
}

/* A rule that stands in a text of its own, which is taken. */
static int find_in_text(session *s, const char *name, char *text, size_t n, merge_found *f,
                        kv_err *e)
{
    int rc = unit_of_text(s, &f->unit, name, text, n, e);
    if (rc)
        return rc;
    f->src = f->unit->src;
    return parse(f, e);
}

static int find_in_file(session *s, const ast *at, const char *path, merge_found *f, kv_err *e)
{
    char *text;
    size_t n;
    int rc = file_read_text(path, &text, &n, e);
    if (rc)
        return unit_at(s, at, e);
    if (n <= RULE_MOST)
        return find_in_text(s, path, text, n, f, e);
    mem_free(text);
    return unit_err(s, at, e, KV_E_VALUE, "%s: a rule has at most %d bytes", path, RULE_MOST);
}

int merge_find(session *s, const ast *call, merge_found *f, kv_err *e)
{
    const ast *at = call->kid[0];
    const source *src = &s->unit->src;
    value word;
    if (at->kind == STMT_RULE)
        return merge_find_literal(src, call, f, e);
    int rc = eval_text(s, at, "a merge", &word, e);
    if (rc)
        return rc;
    const char *text = word.u.text;
    if (is_rule_file(text) && !is_rule_text(text)) {
        rc = find_in_file(s, at, text, f, e);
    } else if (!is_rule_text(text)) {
        rc = find_in_library(src, at, text, f, e);
    } else if (at->kind == AST_TEXT && stands_there(src, at, at->u.text, &f->src)) {
        rc = parse(f, e);
    } else {
        char *copy = mem_text(text, strlen(text), e);
        rc = copy ? find_in_text(s, TEXT_NAME, copy, strlen(text), f, e) : KV_E_MEMORY;
    }
    value_release(&word);
    return rc;
}

void merge_found_release(session *s, merge_found *f, bool failed)
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

int merge_param_check(const source *src, const ast *option, const merge_found *f, const char *name,
                      const char *text, kv_err *e)
{
    arena memory = {0};
    if (!rule_lists(f->rule, name))
        return KV_OK;
    host *values = arena_alloc(&memory, (size_t)rule_nvalues(f->rule) * sizeof *values, e);
    int rc =
        !values ? KV_E_MEMORY : rule_bind(f->rule, NULL, &name, &text, 1, values, &memory, e);
    arena_release(&memory);
    const ast *at = option->n > 0 ? option->kid[0] : option;
    if (rc)
        source_at(src, at->pos, at->end, e);
    return rc;
}

static int check_param(const source *src, const ast *call, const ast *option, const merge_found *f,
                       kv_err *e)
{
    const char *name = option->u.text;
    arena memory = {0};
    if (!rule_lists(f->rule, name) && !merge_names_has(f->rule, name))
        return unknown_param(src, call, option, f, e);
    if (option->n == 0 && rule_lists(f->rule, name) && !is_switch(f->rule, name))
        return source_err(src, option->pos, option->end, e, KV_E_USAGE, "--%s needs a value", name);
    const char *text = is_path_behind_switch(f, option) ? option->kid[1]->u.text
                                                        : literal_value(src, option, &memory, e);
    int rc = text ? merge_param_check(src, option, f, name, text, e) : KV_OK;
    if (rc == KV_E_DTYPE && is_switch(f->rule, name))
        kv_err_hint(e, "the word behind it is its value: --%s true", name);
    arena_release(&memory);
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
        return kv_err_hint(e, "give it another name"), KV_E_USAGE;
    }
    return KV_OK;
}

/* Base and weights are given where the rule reads them, and models are not adapters too. */
static int check_given(const source *src, const ast *call, const merge_found *f, kv_err *e)
{
    const ast *at = call->kid[0], *weights = command_option_of(call, "weights");
    const ast *base = rule_reader(f->rule, "base"), *paths = call->kid[1];
    bool adapters = rule_reader(f->rule, "lora_A") || rule_reader(f->rule, "lora_B");
    if (base && !command_option_of(call, "base")) {
        if (f->library)
            source_err(src, at->pos, at->end, e, KV_E_USAGE, "%s needs a base", f->library);
        else
            source_err(&f->src, base->pos, base->end, e, KV_E_USAGE, "the rule needs a base");
        if (adapters && paths->n > 1) /* merge lora BASE ADAPTER */
            kv_err_hint(e, "%.*s%.*s --base %.*s", (int)(paths->kid[0]->pos - call->pos),
                        src->text + call->pos, (int)(call->end - paths->kid[1]->pos),
                        src->text + paths->kid[1]->pos,
                        (int)(paths->kid[0]->end - paths->kid[0]->pos),
                        src->text + paths->kid[0]->pos);
        return kv_err_hint(e, "--base CKPT: the model that the others were made of"), KV_E_USAGE;
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

int merge_words_check(const source *src, const ast *call, const merge_found *f, kv_err *e)
{
    const command *c = call->u.other;
    int rc = check_hidden(call, f, e);
    for (uint32_t i = 1; i < call->n && rc == KV_OK; i++) {
        const ast *option = call->kid[i];
        if (option && option->kind == STMT_OPTION &&
            !command_option_find(c, option->u.text, strlen(option->u.text)))
            rc = check_param(src, call, option, f, e);
    }
    return rc ? rc : check_given(src, call, f, e);
}
