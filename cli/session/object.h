/* Values with a name and named parts that never change: an optimizer of MXNet, such as
 * SGD(momentum=0.9), or a schedule of learning rates. A store and the class that type(x) gives are
 * names without parts, <KVStore local> and <class 'KVStore'>. */
#ifndef SESSION_OBJECT_H
#define SESSION_OBJECT_H

#include "base/map.h"
#include "session/value.h"

/* ---- Values of a def ---- */

typedef struct def_values {
    int64_t refs;
    map assigned; /* the names that the function sets, to 0 */
    int64_t n;
    value defaults[]; /* for each parameter; none where it has no default */
} def_values;

void def_values_unref(def_values *d); /* NULL is fine */

/* ---- Objects ---- */

/* names[i] is NULL for a part given by its position. Takes references of its own. */
int object_new(value *out, const char *name, const value *parts, const char *const *names,
               int64_t n, kv_err *e);
/* A store of this type. */
int object_store(value *out, const char *type, kv_err *e);
/* The class of any value, by the name that Python or MXNet gives it. */
int object_class(value *out, value of, kv_err *e);

const char *object_name(value v);
int64_t object_count(value v);
/* The i-th part; *name is "" where it has none. */
value object_part(value v, int64_t i, const char **name);
/* The part of this name, or NULL. */
const value *object_find(value v, const char *name);

/* Two classes or stores are the same when their names are. */
bool object_same(value a, value b);

bool object_is_optimizer(value v);
bool object_is_schedule(value v);

#endif
