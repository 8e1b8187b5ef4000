/* The names that a merge reads and nobody gives a value: parameters without a default, which
 * options of the command or variables of the script set. */
#ifndef SYNTAX_MERGE_NAMES_H
#define SYNTAX_MERGE_NAMES_H

#include <stdbool.h>

#include "base/suggest.h"
#include "kv_err.h"
#include "lang/ast.h"

/* Calls each with the first place of every such name, until it gives an error, which it returns. */
int merge_names_each(const rule_ast *r, int (*each)(void *arg, const ast *at, kv_err *e), void *arg,
                     kv_err *e);

/* Returns true if the merge reads such a name, written with - or _ alike. */
bool merge_names_has(const rule_ast *r, const char *name);

/* Adds the names that a merge is given or gives values, as what an unknown one may have meant. */
void merge_names_suggest(const rule_ast *r, suggest *near);

#endif
