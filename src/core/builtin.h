/* The optimizers of the library: the texts of src/optimizers/NAME.kvu, put in at build time. */
#ifndef CORE_BUILTIN_H
#define CORE_BUILTIN_H

#include "kvstore.h"

/* The rule of a name, in any case. Error: usage, with "did you mean". */
int builtin_rule(kv_rule **out, const char *name, kv_err *e);

/* Made by the Makefile; ends with a NULL name. A rule with several names stands once for each. */
typedef struct builtin_text {
    const char *name, *text;
} builtin_text;

extern const builtin_text builtin_texts[];

#endif
