/* Folders whose files are trusted because nobody else can have put them there: code that is kept in
 * one runs later. */
#ifndef BASE_OWN_FOLDER_H
#define BASE_OWN_FOLDER_H

#include "base/kv_err.h"

/* Makes the folder, where it is not there, and those above it, all for this user alone; then opens
 * it. Out: *fd, for openat or /proc/self/fd; the caller closes it. The checks are of the folder
 * that was opened. Errors: io (it cannot be made or opened; it is a link; another user owns it, or
 * may write into it). */
int own_folder_open(int *fd, const char *path, kv_err *e);

#endif
