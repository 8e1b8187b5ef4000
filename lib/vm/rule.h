/* Rules: updaters in the rule language, from syntax tree to program.
 *
 * rule_check proves once that a rule makes sense: names and kinds on every path, that `stored` is
 * written. rule_update_make then runs the host lines for one key (numbers, `if`, `print`, `skip`,
 * `fail`) and leaves a straight line of element operations, which becomes a program.
 *
 * Element lines compute in float32; for float64 keys in float64; for integer keys in their dtype,
 * exactly and wrapping after every operation. A host number or literal is rounded once where it
 * meets elements; a host line is binary64.
 *
 * GAP: this version has no states, reductions, `rows present`, `normal`, `sparse`, `counts after`,
 * nor the names that only optimizers have, and does not print arrays; a rule that uses one of them
 * is refused as unsupported. States become further slots of the program, a reduction ends a pass
 * and gives the next one a constant.
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

/* Fills values (r->nparams of them) with the defaults, replaced by what names/texts say. Parameters
 * are written with - or _ alike. Texts live in a. Errors: usage (unknown parameter, with "did you
 * mean"), value (out of range), dtype (not of the default's kind). */
int rule_bind(const rule_ast *r, const char *const *names, const char *const *texts, int n,
              host *values, arena *a, kv_err *e);

/* What the host lines of a rule may read besides parameters. */
typedef struct rule_given {
    kv_key key;
    int64_t t; /* how often this key was updated, this update included */
} rule_given;

/* What they leave behind for one key. */
typedef struct rule_update {
    bool skipped;  /* `skip`: leave the key as it is */
    buf printed;   /* lines that `print` wrote, each with its newline */
    prog *program; /* arrays[0] is stored (read and written), arrays[1] input (read), both of the
                      key's dtype; NULL when skipped */
} rule_update;

/* Runs the host lines for a key whose stored array has dtype, and builds the program. The rule was
 * checked. Errors: value (`fail`, without a place, since it is the update that is refused;
 * arithmetic of host values; a number that an integer key cannot hold), dtype, both with their
 * place; memory. On an error *u needs no release. */
int rule_update_make(const rule_binding *b, const rule_given *given, kv_dtype dtype, rule_update *u,
                     kv_err *e);
void rule_update_release(rule_update *u);

/* True when the rule's update never depends on key or t and prints nothing, so that one rule_update
 * of a dtype serves every key and push. */
bool rule_is_constant(const rule_ast *r);

#endif
