/* Functions of NumPy that are written in the language itself. */
#pragma once

/* The text that defines one, a def; NULL for any other name. */
const char *prelude_text(const char *name);
/* The names in order; NULL behind the last. */
const char *prelude_name(int i);
