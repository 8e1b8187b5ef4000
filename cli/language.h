/* The language as a whole: its commands are put together here, above all rooms. */
#ifndef LANGUAGE_H
#define LANGUAGE_H

#include "syntax/command.h"

/* As help lists them; an entry without a name ends it. */
extern const command command_table[];

/* Fills the registry. Must run before a text is read. */
void language_init(void);

#endif
