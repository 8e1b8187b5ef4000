/* Tables and functions of rooms above that rooms below reach only through here, so that neither
 * names the other in a circle. language_init fills it, once, before anything is read. */
#ifndef SESSION_REGISTRY_H
#define SESSION_REGISTRY_H

#include "lang/ast.h"
#include "session/session.h"

struct command;
struct function;

extern struct registry {
    const struct command *commands;   /* as help lists them; an entry without a name ends them */
    const struct function *functions; /* sorted by name; an entry without a name ends them */
    int nfunctions;
    /* Evaluation runs the bodies of functions (run_block) and methods of stores (run_method_call),
     * and loads files (load_eval). */
    int (*run_block)(session *s, const ast *block, run_flow *f, kv_err *e);
    int (*run_method_call)(session *s, const ast *node, value *out, kv_err *e);
    int (*load)(session *s, const ast *node, value *out, kv_err *e);
} registry;

#endif
