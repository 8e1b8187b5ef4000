/* Keys as files name them. */
#ifndef CORE_KEY_TEXT_H
#define CORE_KEY_TEXT_H

#include "core/slot.h"

/* The text of a key in files: "3", "fc1.weight". number is room for a number. */
const char *key_text_of(char number[32], const kv_key *key);

/* The slot whose key has this text of n bytes, or -1. */
int64_t key_text_slot(const slot_table *t, const char *text, size_t n, int64_t guess);

#endif
