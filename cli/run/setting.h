/* Settings, which `set a.b VALUE` and --set a.b=VALUE change. */
#ifndef RUN_SETTING_H
#define RUN_SETTING_H

#include "base/buf.h"
#include "session/session.h"

/* Sets one. Errors: usage (no such setting, with "did you mean"), dtype, value. */
int setting_set(session *s, const char *name, value v, kv_err *e);

/* Appends "name value" of one, or a line for each when name is NULL. Error: usage. */
int setting_show(session *s, buf *out, const char *name, kv_err *e);

/* The name of setting i, NULL behind the last. */
const char *setting_name(int i);

#endif
