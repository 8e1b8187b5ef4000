/* The keys that a rank knows of, where they live, and the calls to servers that this takes. */
#pragma once

#include "core/kv_rule.h"
#include "distributed/worker.h"

/* A call to a server, for net_call_wait; the same call to every server; and one to the coordinator,
 * with bytes and a reply, or NULL. Errors of the two that wait: peer, timeout, memory. */
net_call worker_call(const worker *w, int server, dist_ask what);
int worker_call_all(const worker *w, net_call c, kv_err *e);
int worker_ask(const worker *w, dist_ask what, link_args args, const buf *b, void **reply,
               int64_t *bytes, kv_err *e);

/* The slot of each key; asks the coordinator for keys that this rank does not know yet.
 * makes: keys that no rank knows are made, like their arrays; else arrays are not read. Errors:
 * key, peer, timeout, memory. */
int worker_find(worker *w, const kv_pairs *pairs, bool makes, int64_t *numbers, kv_err *e);

/* The slot of a key of which another rank has told, or -1: key, memory. Where the key has moved its
 * pushes and pulls count from 0 again. */
int64_t worker_know(worker *w, const ask_key *k, const kv_key *key, kv_err *e);

/* The way in which a rule lets keys be cut: anywhere, by rows, or not at all. */
place_need worker_need(const worker *w, const kv_rule *rule);

/* The description of a key for the coordinator, for a key that is to hold arrays like a. */
ask_key worker_key_like(const worker *w, const kv_key *key, const kv_array *a);

/* Makes keys that no rank has yet, with these values; where nothing is stored, with their shapes.
 * inits: by the first worker's init. The steps: asks for places of keys in `list`, whose place has
 * no parts where the key is there already, which for an init is an error; sends their first values
 * to the servers. */
int worker_make_keys(worker *w, const kv_pairs *pairs, bool inits, kv_err *e);
int worker_place_keys(worker *w, const kv_key *keys, int64_t n, ask_key *list, bool inits,
                      kv_err *e);
int worker_send_values(const worker *w, const kv_pairs *pairs, const ask_key *list, bool inits,
                       kv_err *e);

/* Waits for keys that the first worker makes; any: or another worker, by a push. Where one of them
 * is refused, this rank may know some of the others. */
int worker_ask_keys(worker *w, const kv_key *keys, int64_t n, bool any, kv_err *e);
