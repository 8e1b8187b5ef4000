/* For the tests of statements: their trees as texts, as test_lang.h has those of expressions. */
#pragma once

#include "language.h"
#include "syntax/command.h"
#include "syntax/parse_statement.h"
#include "test_lang.h"

static inline void dump_redirect(buf *out, const ast *node)
{
    static const char *const signs[] = {"->", ">", ">>", "|"};
    buf_printf(out, "(%s ", signs[node->op]);
    if (node->n > 0)
        lang_dump(out, node->kid[0], NULL);
    else
        buf_add(out, node->u.text);
    buf_char(out, ')');
}

static inline void dump_statement(buf *out, const ast *node)
{
    const char *sign = node->op == STMT_PLAIN ? "" : ast_op_text((ast_op)node->op);
    switch ((statement_kind)node->kind) {
    case STMT_ASSIGN:
        buf_printf(out, "(%s=", sign);
        lang_kids(out, node, 0, dump_statement);
        buf_char(out, ')');
        break;
    case STMT_SHOW:
        buf_add(out, "(show ");
        lang_dump(out, node->kid[0], dump_statement);
        if (node->kid[1])
            lang_kids(out, node, 1, dump_statement);
        buf_char(out, ')');
        break;
    case STMT_COMMAND:
        lang_form(out, ((const command *)node->u.other)->name, node, 0, dump_statement);
        break;
    case STMT_OPTION:
        buf_printf(out, "(--%s", node->u.text);
        lang_kids(out, node, 0, dump_statement);
        buf_char(out, ')');
        break;
    case STMT_REDIRECT: dump_redirect(out, node); break;
    case STMT_IF: lang_form(out, "if", node, 0, dump_statement); break;
    case STMT_FOR: lang_form(out, "for", node, 0, dump_statement); break;
    case STMT_WHILE: lang_form(out, "while", node, 0, dump_statement); break;
    case STMT_REPEAT: lang_form(out, "repeat", node, 0, dump_statement); break;
    case STMT_DEF:
        buf_printf(out, "(def (%s", node->u.text);
        lang_kids(out, node, 1, dump_statement);
        buf_add(out, node->op ? ") = " : ") ");
        lang_dump(out, node->kid[0], dump_statement);
        buf_char(out, ')');
        break;
    case STMT_RETURN: lang_form(out, "return", node, 0, dump_statement); break;
    case STMT_BREAK: buf_add(out, "(break)"); break;
    case STMT_CONTINUE: buf_add(out, "(continue)"); break;
    case STMT_RULE: lang_dump_rule(out, node->u.other); break;
    case STMT_SHELL: buf_printf(out, "(! %s)", node->u.text); break;
    case STMT_SOURCE: buf_add(out, "(source)"); break;
    case STMT_BROKEN: buf_add(out, "(broken)"); break;
    }
}

/* Statements with a blank between them. */
static inline bool parse_statements(lang_text *t)
{
    language_init();
    const ast *body = statement_parse_all(&t->p);
    for (uint32_t i = 0; body && i < body->n; i++) {
        if (i > 0)
            buf_char(&t->out, ' ');
        lang_dump(&t->out, body->kid[i], dump_statement);
    }
    return body != NULL;
}
