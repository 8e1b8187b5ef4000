/* Values into files, by the ending of their names: all of a file or nothing. */
#ifndef FILES_SAVE_H
#define FILES_SAVE_H

#include "session/session.h"
#include "syntax/command.h"

/* Writes what a command gave to path, "-" for stdout. {key} in the path stands for the key of each
 * of several values; then all files are written before the first is renamed, and an error or a
 * crash between two renames leaves the files behind it as they were. append: lines are added behind
 * what the file holds. Nothing is written before everything was checked. A .txt
 * file gets what would be shown, never shortened. A safetensors file gets the metadata of other
 * tools that the store in use holds. Errors: usage (see file_kind_check; several values for a file
 * of one), dtype, shape, value, io, interrupted. */
int save_result(session *s, const char *path, const result *r, bool append, kv_err *e);

/* Writes text that is whole as it is to path, or adds it. Errors: unsupported (--safe), io. */
int save_text(session *s, const char *path, const buf *text, bool append, kv_err *e);

/* Writes v to stdout as a file would hold it: JSON when that is the session's format, else CSV. */
int save_stdout(session *s, value v, kv_err *e);

#endif
