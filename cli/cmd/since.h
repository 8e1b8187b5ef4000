/* pull --since: the rounds that arrays hold, as numbers of the language. */
#ifndef CMD_SINCE_H
#define CMD_SINCE_H

#include "cmd/pairs.h"

/* Pulls into the arrays of --out what changed behind the rounds of --since: a number or none for
 * all keys, or a list with one of them for each key. The result becomes the round that the arrays
 * hold then: a number, of a list of keys one a key. Errors: usage (without --out, or with
 * --ignore-sparse), dtype, value, those of kv_pull_since. */
int since_pull(session *s, const ast *call, kv *store, const key_list *keys, const pairs *p,
               const kv_call *how, result *out, kv_err *e);

/* The options that go with it, before anything is done: error usage. */
int since_check(session *s, const ast *call, kv_err *e);

#endif
