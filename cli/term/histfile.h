/* The file of the lines typed at the prompt. */
#ifndef TERM_HISTFILE_H
#define TERM_HISTFILE_H

#include "base/buf.h"

/* Puts the path of the history file into `path`. `option` is what --history said, or NULL; then
 * $KVCTL_HISTORY, $XDG_STATE_HOME/kvctl/history and ~/.local/state/kvctl/history are tried in this
 * order. An empty path means that no history is kept: "off", or no home. */
void histfile_path(buf *path, const char *option);

/* Makes the file with mode 0600 and the folders above it, where they are missing.
 * Errors: io, with the path and the reason. */
int histfile_prepare(const char *path, kv_err *e);

#endif
