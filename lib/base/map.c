/* A hash map with open addressing and linear probing.
 *
 * Invariant: from the home slot of an entry (its hash modulo cap) to the entry itself no slot is
 * empty. Removal keeps it by moving later entries of the run back, so that no tombstones are
 * needed. At most three quarters of the slots are in use.
 */
#include "base/map.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

/* Spreads the bits of x over all 64: two multiplications by odd numbers without a pattern (the
 * golden ratio, and digits of pi), each followed by a fold of the high half into the low one. */
static uint64_t mix(uint64_t x)
{
    x *= 0x9E3779B97F4A7C15u;
    x ^= x >> 32;
    x *= 0x243F6A8885A308D3u;
    return x ^ x >> 29;
}

static uint64_t hash_text(const char *text)
{
    uint64_t h = 0x452821E638D01377u;
    size_t n = strlen(text);
    for (; n >= 8; n -= 8, text += 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        h = mix(h ^ word);
    }
    uint64_t rest = n;
    for (size_t i = 0; i < n; i++)
        rest = rest << 8 | (unsigned char)text[i];
    return mix(h ^ rest);
}

/* Never 0, which marks an empty slot. */
static uint64_t hash_key(kv_key key)
{
    uint64_t h = key.name ? hash_text(key.name) : mix((uint64_t)key.id + 1);
    return h ? h : 1;
}

/* The slot of key, or the empty one where it belongs. There is at least one empty slot. */
static map_entry *find(const map *m, uint64_t hash, kv_key key)
{
    uint64_t mask = (uint64_t)m->cap - 1;
    uint64_t i = hash & mask;
    while (m->entries[i].hash &&
           !(m->entries[i].hash == hash && map_same_key(&m->entries[i].key, &key)))
        i = (i + 1) & mask;
    return &m->entries[i];
}

int64_t map_get(const map *m, kv_key key)
{
    if (m->n == 0)
        return -1;
    const map_entry *slot = find(m, hash_key(key), key);
    return slot->hash ? slot->value : -1;
}

int map_reserve(map *m, int64_t n, kv_err *e)
{
    if (n <= m->cap / 4 * 3)
        return KV_OK;
    int64_t cap = m->cap ? m->cap : 16;
    while (cap / 4 * 3 < n && cap <= INT64_MAX / 2)
        cap *= 2;
    map grown = {.cap = cap, .n = m->n};
    grown.entries = mem_zalloc(cap, sizeof *grown.entries, e);
    if (!grown.entries)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < m->cap; i++) {
        const map_entry *old = &m->entries[i];
        if (old->hash)
            *find(&grown, old->hash, old->key) = *old;
    }
    mem_free(m->entries);
    *m = grown;
    return KV_OK;
}

int map_put(map *m, kv_key key, int64_t value, kv_err *e)
{
    uint64_t hash = hash_key(key);
    map_entry *slot = m->cap ? find(m, hash, key) : NULL;
    if (slot && slot->hash) {
        slot->value = value;
        return KV_OK;
    }
    TRY(map_reserve(m, m->n + 1, e));
    *find(m, hash, key) = (map_entry){hash, key, value};
    m->n++;
    return KV_OK;
}

void map_remove(map *m, kv_key key)
{
    if (m->n == 0)
        return;
    map_entry *slot = find(m, hash_key(key), key);
    if (!slot->hash)
        return;
    uint64_t mask = (uint64_t)m->cap - 1;
    uint64_t hole = (uint64_t)(slot - m->entries);
    for (uint64_t i = (hole + 1) & mask; m->entries[i].hash; i = (i + 1) & mask) {
        /* An entry may move back to the hole unless that lies before its home. */
        uint64_t home = m->entries[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->entries[hole] = m->entries[i];
            hole = i;
        }
    }
    m->entries[hole] = (map_entry){0};
    m->n--;
}

void map_release(map *m)
{
    mem_free(m->entries);
    *m = (map){0};
}
