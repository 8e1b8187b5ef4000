/* A def of the script as an updater: the same text, read as a rule. */
#ifndef SYNTAX_UPDATER_DEF_H
#define SYNTAX_UPDATER_DEF_H

#include "base/mem.h"
#include "lang/ast.h"
#include "lang/source.h"

/* Reads an STMT_DEF of a text as a rule, whose tree lives in a. Errors with place: syntax, usage,
 * those of rule_check. */
int updater_of_def(rule_ast **out, const source *src, const ast *def, arena *a, kv_err *e);

#endif
