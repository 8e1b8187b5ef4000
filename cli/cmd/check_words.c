/* Checks of the words of commands before anything runs. */
#include "cmd/check_words.h"

#include <string.h>
#include <strings.h>

#include "cmd/help.h"
#include "syntax/command.h"
#include "syntax/parse_statement.h"
#include "syntax/rules.h"

/* The literal word of a node, or NULL. */
static const char *literal(const ast *node)
{
    return node && node->kind == AST_TEXT ? node->u.text : NULL;
}

static int at(const source *src, const ast *node, kv_err *e)
{
    return source_at(src, node->pos, node->end, e), e->code;
}

/* Types have their names in any case. */
static bool registers(const map *types, const char *word)
{
    bool found = false;
    for (int64_t i = 0; i < types->cap; i++)
        found |= types->entries[i].hash && strcasecmp(types->entries[i].key.name, word) == 0;
    return found;
}

int check_type(const source *src, const ast *call, const map *types, kv_err *e)
{
    const kv_type_ops *ops;
    const char *word = literal(call->kid[0]);
    if (!word || !types || registers(types, word) || kv_find_type(word, &ops, e) == KV_OK)
        return KV_OK;
    return at(src, call->kid[0], e);
}

/* A new store refuses the parameters that the optimizer does not take. */
int check_compression(const source *src, const ast *call, const map *types, kv_err *e)
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

/* set-optimizer --update leaves the endings of names that decay as they are. */
static int check_update(const source *src, const ast *call, kv_err *e)
{
    bool update = command_option_of(call, "update") != NULL;
    for (uint32_t i = 0; i < call->n && update; i++) {
        const ast *kid = call->kid[i];
        if (kid && kid->kind == STMT_OPTION && strcmp(kid->u.text, "decay-names") == 0)
            return source_err(src, kid->pos, kid->end, e, KV_E_USAGE,
                              "--decay-names is set with the optimizer, not changed later");
    }
    return KV_OK;
}

/* Checks that the optimizer has the given parameters: it is set in a new store, whose error counts.
 * Values may need variables, so they are checked when the command runs. */
int check_params(const source *src, const ast *call, const map *types, kv_err *e)
{
    const char *word = literal(call->kid[0]);
    kv *store = NULL;
    int code = KV_OK;
    (void)types;
    if (word && optimizer_text(word) && (code = kv_create(NULL, NULL, 0, &store, e)))
        return code;
    for (uint32_t i = 1; i < call->n && store && !code; i++) {
        const ast *kid = call->kid[i];
        kv_err why = {0};
        if (!kid || kid->kind != STMT_OPTION || strcmp(kid->u.text, "update") == 0 ||
            strcmp(kid->u.text, "fresh") == 0)
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

int check_capability(const source *src, const ast *call, const map *types, kv_err *e)
{
    const char *word = literal(call->kid[0]);
    bool yes;
    (void)types;
    return !word || kv_is_capable(NULL, word, &yes, e) == KV_OK ? KV_OK : at(src, call->kid[0], e);
}

int check_help(const source *src, const ast *call, const map *types, kv_err *e)
{
    const char *topic = literal(call->kid[0]), *word = literal(call->n > 1 ? call->kid[1] : NULL);
    (void)types;
    if (!topic || call->n < 2 || !call->kid[1])
        return KV_OK;
    const help_group *g = help_group_find(topic, e);
    bool known = g && (!word || g->check(word, e) == KV_OK);
    return known ? KV_OK : at(src, call->kid[1], e);
}
