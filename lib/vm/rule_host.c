/* Host values of rules: what is known before an array is read. */
#include "vm/rule_run.h"

#include <string.h>

#include "vm/element.h"
#include "vm/rule_case.h"

void rule_refuse(rule_run *r, const ast *node, int rc)
{
    source_at(r->binding->src, node->pos, node->end, r->e);
    r->rc = rc;
}

/* The values of all children; NULL after a failure. */
static host *evaluate_all(rule_run *r, const ast *node)
{
    host *values = arena_alloc(&r->memory, sizeof *values * (node->n ? node->n : 1), r->e);
    if (!values)
        r->rc = KV_E_MEMORY;
    for (uint32_t i = 0; i < node->n && !r->rc; i++)
        values[i] = rule_host(r, node->kid[i]);
    return r->rc ? NULL : values;
}

/* A text is made anew for each push that another one may be of. */
static void note_text(const rule_run *r, host x)
{
    if (r->note && rule_case_varies(x))
        r->note->failed = true;
}

/* TEXT % (a, b) */
static host evaluate_format(rule_run *r, const ast *node, const char *fmt)
{
    host *values = evaluate_all(r, node->kid[1]), out = host_none();
    int n = (int)node->kid[1]->n;
    for (int i = 0; values && i < n; i++)
        note_text(r, values[i]);
    int rc = values ? host_format_text(&out, fmt, values, n, &r->memory, r->e) : KV_OK;
    if (rc)
        rule_refuse(r, node, rc);
    return out;
}

host rule_host_binary(rule_run *r, const ast *node, ast_op op, host x, host y)
{
    host out = host_none();
    int rc = r->rc ? KV_OK : host_binary(op, x, y, &out, &r->memory, r->e);
    if (rc)
        rule_refuse(r, node, rc);
    rule_case_note(r, CASE_BINARY, op, (const host[]){x, y}, 2, &out);
    return out;
}

static host evaluate_binary(rule_run *r, const ast *node)
{
    host x = rule_host(r, node->kid[0]);
    if (x.kind == HOST_TEXT && node->op == OP_MOD && node->kid[1]->kind == AST_TUPLE) {
        note_text(r, x);
        return evaluate_format(r, node, x.u.text);
    }
    return rule_host_binary(r, node, (ast_op)node->op, x, rule_host(r, node->kid[1]));
}

/* Appends {x}, {x!r} or {x:format}, whose format may have fields of its own. */
static void put_field(rule_run *r, buf *out, const ast *field)
{
    buf shown = {0};
    host x = rule_host(r, field->kid[0]), how = host_text(field->u.text);
    if (field->n > 1)
        how = rule_host(r, field->kid[1]);
    note_text(r, x);
    note_text(r, how);
    if (r->rc)
        return;
    if (field->op) {
        host_print(&shown, x, field->op == 'r');
        x = host_text(buf_text(&shown));
    }
    int rc = host_format_field(out, x, how.u.text, r->e);
    buf_release(&shown);
    if (rc)
        rule_refuse(r, field, rc);
}

static host evaluate_pieces(rule_run *r, const ast *node)
{
    buf text = {0};
    for (uint32_t i = 0; i < node->n && !r->rc; i++) {
        const ast *piece = node->kid[i];
        if (piece->kind == AST_FIELD)
            put_field(r, &text, piece);
        else
            buf_add(&text, piece->u.text);
    }
    const char *kept = NULL;
    if (!r->rc && buf_check(&text, r->e) == KV_OK)
        kept = arena_text(&r->memory, buf_text(&text), text.len, r->e);
    if (!r->rc && !kept)
        r->rc = KV_E_MEMORY;
    buf_release(&text);
    return kept ? host_text(kept) : host_none();
}

static host evaluate_call(rule_run *r, const ast *node)
{
    const element_function *f = element_called(node);
    if (f->kind == FN_SPARSE) {
        bool input = strcmp(node->kid[0]->u.text, "input") == 0;
        return host_bool(input ? r->given->sparse_input : r->given->sparse_stored);
    }
    if (f->kind == FN_SIZE || f->kind == FN_LEN)
        return rule_case_input(r, f->kind == FN_SIZE ? CASE_SIZE : CASE_ROWS);
    host *args = evaluate_all(r, node), out = host_none();
    /* host values are binary64 as they are */
    if (args && f->kind == FN_F64)
        return args[0];
    int rc = args ? host_apply(f, args, (int)node->n, &out, r->e) : KV_OK;
    if (rc)
        rule_refuse(r, node, rc);
    if (args)
        rule_case_note(r, CASE_CALL, (int)(f - element_functions), args, (int)node->n, &out);
    return out;
}

host rule_host(rule_run *r, const ast *node)
{
    if (r->rc)
        return host_none();
    switch (node->kind) {
    case AST_NAME:
        return rule_env_find(&r->env, node->u.text)->number;
    case AST_FTEXT:
        return evaluate_pieces(r, node);
    case AST_CALL:
        return evaluate_call(r, node);
    case AST_UNARY: {
        host x = rule_host(r, node->kid[0]), out = host_none();
        int rc = r->rc ? KV_OK : host_unary((ast_op)node->op, x, &out, r->e);
        if (rc)
            rule_refuse(r, node, rc);
        rule_case_note(r, CASE_UNARY, (int)node->op, &x, 1, &out);
        return out;
    }
    case AST_BINARY:
        if (node->op == OP_AND || node->op == OP_OR) {
            /* as Python's: one of the two operands */
            host x = rule_host(r, node->kid[0]);
            rule_case_branch(r, x);
            return host_truth(x) == (node->op == OP_OR) ? x : rule_host(r, node->kid[1]);
        }
        return evaluate_binary(r, node);
    default: /* literals; rule_check leaves no other kinds */
        return host_literal(node);
    }
}
