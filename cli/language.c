/* Fills the registry. */
#include "language.h"

#include "files/load.h"
#include "run/run.h"
#include "session/session.h"

void language_init(void)
{
    registry.commands = command_table;
    registry.functions = function_table;
    registry.nfunctions = function_count;
    registry.run_block = run_block;
    registry.run_method_call = run_method_call;
    registry.load = load_eval;
}
