/* The language as a whole: its commands and functions are put together here, above all rooms. */
#pragma once

#include "syntax/command.h"
#include "syntax/function.h"

/* The commands in the order of help; an entry without a name ends the table. */
extern const command command_table[];

/* Sorted by name; an entry without a name ends it. */
extern const function function_table[];
extern const int function_count;

/* Fills the registry. Must run before a text is read. */
void language_init(void);
