/* A rule in use, as parts of a file: the texts kvstore.rule (the text of the rule) and
 * kvstore.param.X (the parameter X as it was given; none for those that were not). */
#ifndef CORE_RULE_PARTS_H
#define CORE_RULE_PARTS_H

#include "core/image.h"
#include "core/updater.h"

#define RULE_PART  "kvstore.rule"
#define PARAM_PART "kvstore.param."

/* Adds the parts. Error: memory. */
int rule_parts_add(image *im, const optimizer *o, kv_err *e);

/* Makes *u run the rule of a file, with counts at their begin. path is for messages. Errors: format
 * (it has no rule, or one that cannot be read), memory; *u is not changed then. */
int rule_parts_read(updater *u, const safetensors *f, const char *path, kv_err *e);

/* Says whether a text belongs to the parts. */
bool rule_parts_has(const char *name);

#endif
