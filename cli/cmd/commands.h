/* The functions of the commands; the command table describes them. */
#pragma once

#include "base/map.h"
#include "lang/ast.h"
#include "lang/source.h"
#include "syntax/command.h"

typedef int command_fn(session *s, const ast *call, result *out, kv_err *e);

/* cmd_store.c */
command_fn cmd_create, cmd_use, cmd_init, cmd_push, cmd_pull, cmd_pushpull, cmd_broadcast,
    cmd_call_store, cmd_call_function, cmd_delete, cmd_rename, cmd_commit, cmd_rollback,
    cmd_undo;

/* cmd_updater.c */
command_fn cmd_register, cmd_barrier, cmd_send_command, cmd_set_updater, cmd_save_states,
    cmd_load_states, cmd_set_gradient_compression;

/* cmd_info.c */
command_fn cmd_list, cmd_info, cmd_rounds, cmd_vars, cmd_row_sparse_pull;

/* cmd_value.c */
command_fn cmd_print, cmd_write, cmd_assert, cmd_set, cmd_source, cmd_quit, cmd_expect,
    cmd_expect_error;

/* cmd_plot.c */
command_fn cmd_plot;
struct plot;
/* Draws a prepared plot as `plot` does on the terminal. Errors: io, unsupported, interrupted. */
int cmd_plot_show(session *s, const struct plot *p, kv_err *e);

/* cmd_session.c, explain.c */
command_fn cmd_time, cmd_echo, cmd_history, cmd_profile, cmd_explain, cmd_doctor;
/* Ends the profile of the session, if one is being taken: its file is complete then. Errors: io,
 * memory. */
int cmd_profile_end(session *s, kv_err *e);

/* help.c */
command_fn cmd_help, cmd_version;
/* The i-th word of `help` that is a page of its own, NULL behind the last. */
const char *help_topic(int i);

/* The text of --version and `version`. */
void version_text(buf *out);
/* The part of it that lists the libraries of the build. */
void version_build(buf *out);

/* ---- Checks of words ---- */

/* Checks of words that stand for something that is listed: types of stores, optimizers and their
 * parameters, compressions, capabilities, endings of files. Only literal words are looked at; what
 * a variable holds shows when the command runs. See `check` in syntax/command.h. */
typedef int check_fn(const source *src, const ast *call, const map *types, kv_err *e);

/* The type of a store; that of a gradient compression; an optimizer and the names of its
 * parameters; a capability; what help is asked for of the language or optimizers; write's file. */
check_fn check_type, check_compression, check_params, check_capability, check_help, check_write;
