/* What commands say of their own words before anything runs: a table of checks by command. */
#include "syntax/check_words.h"

#include <string.h>
#include <strings.h>

#include "lang/lex.h"
#include "syntax/command.h"
#include "cmd/commands.h"
#include "cmd/optimizer_help.h"
#include "syntax/statement.h"

/* The literal word of a node, or NULL. */
static const char *literal(const ast *node)
{
    return node && node->kind == AST_TEXT ? node->u.text : NULL;
}

static int at(const source *src, const ast *node, kv_err *e)
{
    return source_at(src, node->pos, node->end, e);
}

/* Types have their names in any case. */
static bool registers(const map *types, const char *word)
{
    bool found = false;
    for (int64_t i = 0; i < types->cap; i++)
        found |= types->entries[i].hash && strcasecmp(types->entries[i].key.name, word) == 0;
    return found;
}

static int check_type(const source *src, const ast *call, const map *types, kv_err *e)
{
    const kv_type_ops *ops;
    const char *word = literal(call->kid[0]);
    if (!word || !types || registers(types, word) || kv_find_type(word, &ops, e) == KV_OK)
        return KV_OK;
    return at(src, call->kid[0], e);
}

/* A store of its own says what it does not take. */
static int check_compression(const source *src, const ast *call, const map *types, kv_err *e)
{
    kv *store = NULL;
    kv_opt type = {"type", literal(call->kid[0])};
    (void)types;
    if (!type.value || kv_create("device", NULL, 0, &store, e))
        return e->code;
    int code = kv_set_gradient_compression(store, &type, 1, e);
    kv_free(store);
    return code ? at(src, call->kid[0], e) : KV_OK;
}

/* set-optimizer --update leaves names and multipliers as they are. */
static int check_update(const source *src, const ast *call, kv_err *e)
{
    static const char *const fixed[] = {"lr-mult", "wd-mult", "names", "decay-names"};
    bool update = command_option_of(call, "update") != NULL;
    for (uint32_t i = 0; i < call->n && update; i++) {
        const ast *kid = call->kid[i];
        for (size_t f = 0; kid && kid->kind == STMT_OPTION && f < sizeof fixed / sizeof *fixed; f++)
            if (strcmp(kid->u.text, fixed[f]) == 0)
                return source_err(src, kid->pos, kid->end, e, KV_E_USAGE,
                                  "--%s is set with the optimizer, not changed later", fixed[f]);
    }
    return KV_OK;
}

/* Whether the optimizer has the parameters that are given: the library says, of a store of its own.
 * Values may need variables, so they are looked at later. */
static int check_params(const source *src, const ast *call, const map *types, kv_err *e)
{
    const char *word = literal(call->kid[0]);
    kv *store = NULL;
    kv_err unknown = {0};
    int code = KV_OK;
    (void)types;
    if (word && optimizer_check(word, &unknown) == KV_OK &&
        (code = kv_create(NULL, NULL, 0, &store, e)))
        return code;
    for (uint32_t i = 1; i < call->n && store && !code; i++) {
        const ast *kid = call->kid[i];
        kv_err why = {0};
        if (!kid || kid->kind != STMT_OPTION || strcmp(kid->u.text, "update") == 0)
            continue;
        kv_opt one = {kid->u.text, "none"};
        if (kv_set_optimizer(store, word, &one, 1, &why) != KV_E_USAGE)
            continue;
        *e = why;
        kv_err_hint(e, "help optimizer %s lists its parameters", word); /* unless one is close */
        code = at(src, kid, e);
    }
    kv_free(store);
    return code ? code : check_update(src, call, e);
}

static int check_capability(const source *src, const ast *call, const map *types, kv_err *e)
{
    const char *word = literal(call->kid[0]);
    bool yes;
    (void)types;
    return !word || kv_is_capable(NULL, word, &yes, e) == KV_OK ? KV_OK : at(src, call->kid[0], e);
}

static int check_help(const source *src, const ast *call, const map *types, kv_err *e)
{
    const char *topic = literal(call->kid[0]), *word = literal(call->n > 1 ? call->kid[1] : NULL);
    (void)types;
    bool known = !topic || !word || !optimizer_topic(topic) || optimizer_check(word, e) == KV_OK;
    return known ? KV_OK : at(src, call->kid[1], e);
}

static int check_bench(const source *src, const ast *call, const map *types, kv_err *e)
{
    const ast *bad = NULL;
    (void)types;
    return cmd_bench_check(call, &bad, e) ? at(src, bad, e) : KV_OK;
}

static const struct {
    command_fn *run;
    int (*check)(const source *src, const ast *call, const map *types, kv_err *e);
} checks[] = {{cmd_create, check_type},
              {cmd_set_gradient_compression, check_compression},
              {cmd_set_optimizer, check_params},
              {cmd_is_capable, check_capability},
              {cmd_help, check_help},
              {cmd_bench, check_bench}};

int check_words(const source *src, const ast *call, const map *types, kv_err *e)
{
    const command *c = call->u.other;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if (checks[i].run == c->run)
            return checks[i].check(src, call, types, e);
    return KV_OK;
}

/* ---- Words that are variables, too ---- */

/* Whether a node is a word that stands without quotes. */
static bool is_bare(const source *src, const ast *node)
{
    return node && node->kind == AST_TEXT && node->end > node->pos &&
           lex_is_letter(src->text[node->pos]) && src->text[node->end - 1] != '"' &&
           src->text[node->end - 1] != '\'';
}

void hint_variable(const source *src, const ast *call,
                   bool (*is_variable)(void *arg, const char *name), void *arg, kv_err *e)
{
    for (uint32_t i = 0; i < call->n; i++) {
        const ast *word = call->kid[i];
        int line, col;
        if (word && word->kind == STMT_OPTION)
            word = word->n == 1 ? word->kid[0] : NULL;
        if (!is_bare(src, word) || !is_variable(arg, word->u.text))
            continue;
        source_locate(src, word->pos, &line, &col);
        if (e->line == line && e->col == col)
            e->hint[0] = '\0';
        kv_err_hint(e, "`%s` is a word here; $%s is what the variable holds", word->u.text,
                    word->u.text);
    }
}
