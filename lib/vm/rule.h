/* Rules: updaters in the rule language, from syntax tree to program.
 *
 * rule_check proves once that a rule makes sense: names and kinds on every path, that `stored` is
 * written. rule_run_host then runs the host lines for one key (numbers, `if`, `print`, `skip`, `fail`) and
 * leaves a straight line of element operations, which becomes a program.
 *
 * This version has neither states nor reductions, `rows present`, `normal`, `f64`; a rule that uses
 * them is refused as unsupported.
 */
#ifndef VM_RULE_H
#define VM_RULE_H

#include "lang/ast.h"
#include "lang/source.h"
#include "vm/host.h"
#include "vm/program.h"

/* Checks a parsed rule. Errors with place: syntax, usage, unsupported. */
int rule_check(const rule_ast *r, const source *s, kv_err *e);

/* The parameters of one use of a rule, defaults filled in: values[i] belongs to r->params[i]. */
typedef struct rule_binding {
    const rule_ast *rule;
    const source *src;
    const host *values;
} rule_binding;

/* Fills values (r->nparams of them) with the defaults, replaced by what names/texts say. Parameters are written
 * with - or _ alike. Texts live in a. Errors: usage (unknown parameter, with "did you mean"), value (out of range),
 * dtype (not of the default's kind). */
int rule_bind(const rule_ast *r, const char *const *names, const char *const *texts, int n,
              host *values, arena *a, kv_err *e);

/* What the host lines of a rule may read besides parameters. */
typedef struct rule_given {
    kv_key key;
    int64_t t; /* how often this key was updated, this update included */
} rule_given;

/* What they leave behind for one key. */
typedef struct rule_update {
    bool skipped; /* `skip`: leave the key as it is */
    buf printed;  /* lines that `print` wrote, each with its newline; whole arrays are printed by
                     print_array from the caller's arrays */
    prog *program; /* arrays[0] is stored (read and written), arrays[1] input (read) */
} rule_update;

/* Runs the host lines for a key whose stored array has dtype and whose input (rounded to dtype
 * already) is held in input_dtype, and builds the program. stored and input are given for `print`
 * only and may be NULL otherwise. Errors with place: value (`fail`, arithmetic), dtype. On an error
 * *u needs no release. */
int rule_update_make(const rule_binding *b, const rule_given *given, kv_dtype dtype,
                     rule_update *u, kv_err *e);
void rule_update_release(rule_update *u);

/* True when the rule's update never depends on key or t and prints nothing, so that one rule_update
 * of a dtype serves every key and push. */
bool rule_is_constant(const rule_ast *r);

#endif
