/* The checks of --safe. See safe.h. */
#include "syntax/safe.h"

#include <string.h>

#include "syntax/command.h"
#include "syntax/statement.h"

int safe_shell(const session *s, kv_err *e)
{
    return s->safe ? kv_err_set(e, KV_E_UNSUPPORTED, "--safe forbids shell commands") : KV_OK;
}

int safe_write(const session *s, const char *path, kv_err *e)
{
    if (strcmp(path, "-") == 0)
        return KV_OK;
    if (session_is_state(s, path)) {
        kv_err_set(e, KV_E_USAGE, "\"%s\" is the file of -s", path);
        return kv_err_hint(e, "commit --disk writes it"), KV_E_USAGE;
    }
    if (!s->safe)
        return KV_OK;
    if (!*path)
        return kv_err_set(e, KV_E_UNSUPPORTED, "--safe forbids writing files");
    return kv_err_set(e, KV_E_UNSUPPORTED, "--safe forbids writing \"%s\"", path);
}

int safe_plugin(const session *s, kv_err *e)
{
    return s->safe ? kv_err_set(e, KV_E_UNSUPPORTED, "--safe forbids plugins") : KV_OK;
}

/* The word of `profile off`, which names no file. */
static bool is_off(const command *c, int arg, const ast *node)
{
    return strstr(c->args[arg].name, "|off") && strcmp(node->u.text, "off") == 0;
}

/* The file that a command writes, when its name is literal. */
static const ast *literal_file(const ast *node)
{
    const command *c = node->u.other;
    if (!(c->flags & COMMAND_WRITES))
        return NULL;
    for (int i = 0; c->args[i].kind != ARG_END; i++)
        if (c->args[i].kind == ARG_FILE && node->kid[i] && node->kid[i]->kind == AST_TEXT &&
            !is_off(c, i, node->kid[i]))
            return node->kid[i];
    return NULL;
}

int safe_check(const session *s, const source *src, const ast *node, kv_err *e)
{
    int code = KV_OK;
    if (!s->safe)
        return KV_OK;
    if (node->kind == STMT_SHELL || (node->kind == STMT_REDIRECT && node->op == REDIRECT_PIPE))
        code = safe_shell(s, e);
    else if (node->kind == STMT_REDIRECT && node->op != REDIRECT_VARIABLE)
        code = safe_write(s, node->kid[0]->kind == AST_TEXT ? node->kid[0]->u.text : "", e);
    else if (node->kind == STMT_COMMAND && literal_file(node))
        code = safe_write(s, literal_file(node)->u.text, e);
    else if (node->kind == STMT_COMMAND && command_option_of(node, "plugin"))
        code = safe_plugin(s, e);
    if (code)
        source_at(src, node->pos, node->end, e);
    return code;
}
