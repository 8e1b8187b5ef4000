/* Fills the registry. */
#include "language.h"

#include "session/registry.h"

void language_init(void)
{
    registry.commands = command_table;
}
