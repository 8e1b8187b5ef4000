/* Recognises files that are no checkpoints, and says what to do with them. */
#pragma once

#include <stdbool.h>

#include "checkpoint/input.h"

/* Looks at the first bytes of a file that could not be read as a checkpoint. KV_OK: they look like
 * nothing that is known. Else an error of code format, with a hint: `m.bin: this looks like a
 * PyTorch file, which is not read`. Other errors: io. */
int looks_like(const input *in, kv_err *e);

/* The same for a file that could not be read as CSV, JSON or npy: a text that might be one of these
 * looks like nothing. */
int looks_like_table(const input *in, kv_err *e);

/* The same for files that other tools know by their names. */
int looks_like_name(const input *in, kv_err *e);

/* The same for a folder without files that are read, by the names in it. */
int looks_like_folder(const char *path, kv_err *e);

/* The same for a zip archive without arrays, by its members. An error always. */
typedef enum zip_kind { ZIP_OTHER, ZIP_TORCH, ZIP_SCRIPT, ZIP_KERAS } zip_kind;
int looks_like_zip(const input *in, zip_kind kind, kv_err *e);
