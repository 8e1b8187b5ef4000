/* A rule as the public interface hands it out: its text, its tree, a count of references; and the
 * optimizers of the library, which are rules by name. */
#pragma once

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

/* Returns true if the texts differ in nothing but comments and blanks. */
bool kv_rule_same_text(const kv_rule *a, const kv_rule *b);

/* The rule of an optimizer of the library, its name in any case. Error: usage, with
 * "did you mean". */
int builtin_rule(kv_rule **out, const char *name, kv_err *e);

/* The texts of src/optimizers/NAME.kvu, which the Makefile puts in; ends with a NULL name. A rule
 * with several names stands once for each. */
typedef struct builtin_text {
    const char *name, *text;
} builtin_text;

extern const builtin_text builtin_texts[];
