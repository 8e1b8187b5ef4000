/* Functions of NumPy that are written in the language itself. */
#pragma once

/* A def, as prelude.kv has it. The build makes the table of it; a row without a name ends that. */
typedef struct prelude_def {
    const char *name, *text;
} prelude_def;

extern const prelude_def prelude_defs[];

/* The text that defines one, a def; NULL for any other name. */
const char *prelude_text(const char *name);
/* The names in order; NULL behind the last. */
const char *prelude_name(int i);
