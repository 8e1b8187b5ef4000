/* Commands on how a store works: its update of a push (set-updater, set-optimizer) and the states
 * of that, compression, and what a type of store can do. Words of commands are checked before
 * anything runs. */
#ifndef CMD_CMD_UPDATER_H
#define CMD_CMD_UPDATER_H

#include "base/map.h"
#include "lang/ast.h"
#include "lang/source.h"

/* Checks of the words of commands that stand for something of which the library has a list: types
 * of stores, optimizers and their parameters, compressions, capabilities. Only literal words are
 * looked at; what a variable holds shows when the command runs. See `check` in syntax/command.h. */

/* The type of a store. */
int check_type(const source *src, const ast *call, const map *types, kv_err *e);
/* The type of a gradient compression. */
int check_compression(const source *src, const ast *call, const map *types, kv_err *e);
/* An optimizer and the names of its parameters. */
int check_params(const source *src, const ast *call, const map *types, kv_err *e);
/* A capability of stores. */
int check_capability(const source *src, const ast *call, const map *types, kv_err *e);
/* The optimizer, merge or word of the language that help is asked about. */
int check_help(const source *src, const ast *call, const map *types, kv_err *e);

#endif
