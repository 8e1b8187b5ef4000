/* The scripts of the shells. */
#include "options/completion_script.h"

#include <stddef.h>
#include <string.h>

const completion_script completion_scripts[] = {
    {"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}, {0}};

const char *completion_script_of(const char *shell)
{
    for (const completion_script *c = completion_scripts; c->shell; c++)
        if (strcmp(shell, c->shell) == 0)
            return c->text;
    return NULL;
}
