/* A hash map from keys (integers or texts) to indices. All zero is an empty map.
 *
 * Open addressing with linear probing: an entry is found in one or two cache lines, which is what
 * makes a call over 100,000 small keys cost tens of nanoseconds a key. Texts are borrowed: they
 * must live as long as the entry.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "mem.h"

/* Integers and texts are different keys, also where a text is a number. Here, so that it is inlined
 * in the loops over the keys of a call. */
static inline bool map_same_key(const kv_key *a, const kv_key *b)
{
    if (!a->name || !b->name)
        return !a->name && !b->name && a->id == b->id;
    return strcmp(a->name, b->name) == 0;
}

typedef struct map_entry {
    uint64_t hash; /* 0: empty */
    kv_key key;
    int64_t value;
} map_entry;

typedef struct map {
    map_entry *entries;
    int64_t cap; /* a power of two, or 0 */
    int64_t n;
} map;

/* The value of key, or -1. */
int64_t map_get(const map *m, kv_key key);

/* Sets the value (>= 0) of key. On failure nothing changes. */
int map_put(map *m, kv_key key, int64_t value, kv_err *e);

/* Room for n entries in all, so that map_put cannot fail until then. */
int map_reserve(map *m, int64_t n, kv_err *e);

/* Removes key if it is there. */
void map_remove(map *m, kv_key key);

void map_release(map *m);
#define own_map OWN(map_release) map
