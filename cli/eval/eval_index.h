/* An index, evaluated once: `l[f()] += 1` reads and writes the item, and calls f once. */
#ifndef EVAL_EVAL_INDEX_H
#define EVAL_EVAL_INDEX_H

#include "array/slice.h"
#include "lang/ast.h"
#include "session/session.h"

/* An AST_INDEX whose parts are evaluated. */
typedef struct index_place {
    value whole;
    value key; /* of a dict */
    int n;     /* of the ranges, of anything else */
    array_range ranges[KV_MAX_NDIM];
} index_place;

/* The caller releases *p, but not after an error. */
int index_find(session *s, const ast *node, index_place *p, kv_err *e);
void index_release(index_place *p);

int index_read(session *s, const ast *node, const index_place *p, value *out, kv_err *e);

int index_write(session *s, const ast *node, const index_place *p, value v, kv_err *e);
/* Errors: dtype (a tuple, a text), usage (a part of an array, which is a copy). */
int index_may_write(session *s, const ast *node, const index_place *p, kv_err *e);

#endif
