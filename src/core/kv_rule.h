/* A rule as the public interface hands it out: its text, its tree, a count of references. */
#ifndef CORE_KV_RULE_H
#define CORE_KV_RULE_H

#include "base/mem.h"
#include "kvstore.h"
#include "lang/ast.h"
#include "lang/source.h"

struct kv_rule {
    int64_t refs; /* atomic */
    char *text, *file;
    source src;   /* borrows both */
    arena memory; /* of the tree */
    rule_ast *ast;
};

/* Adds a reference; kv_rule_free gives it back. */
kv_rule *kv_rule_ref(kv_rule *r);

#endif
