/* Values of a def beside its text. The calls that run share them with the definition. */
#ifndef SESSION_DEF_VALUES_H
#define SESSION_DEF_VALUES_H

#include "base/map.h"
#include "session/value.h"

typedef struct def_values {
    int64_t refs;
    map assigned; /* the names that the function sets, to 0 */
    int64_t n;
    value defaults[]; /* for each parameter; none where it has no default */
} def_values;

void def_values_unref(def_values *d); /* NULL is fine */

#endif
