/* From a key to its text in files, and back to its slot. */
#include "core/key_text.h"

#include <string.h>

#include "base/num.h"

const char *key_text_of(char number[32], const kv_key *key)
{
    if (key->name)
        return key->name;
    number[num_int(number, key->id)] = '\0';
    return number;
}

int64_t key_text_slot(const slot_table *t, const char *text, size_t n, int64_t guess)
{
    char name[KV_KEY_MAX + 1], again[32];
    kv_key key = {0};
    bool over = false;
    if (t->n == 0 || n > KV_KEY_MAX)
        return -1;
    memcpy(name, text, n);
    name[n] = '\0';
    if (t->items[0].key.name)
        key.name = name;
    else if (num_parse_int(name, n, &key.id, &over) != n || over ||
             strcmp(key_text_of(again, &key), name) != 0)
        return -1;
    return slot_find(t, &key, guess);
}
