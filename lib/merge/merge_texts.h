/* The merges of src/merges, as texts by their names. */
#pragma once

#include "base/kv_err.h"

/* An alias has the same text, and stands behind the first name. */
typedef struct merge_text {
    const char *name, *text;
} merge_text;

/* Made by the build; an entry without a name ends it. */
extern const merge_text merge_texts[];

/* The entry of a name, in any case and with - or _ alike; NULL when there is none. */
const merge_text *merge_text_find(const char *name);

/* Hints which merges a word that names none may have meant, or nothing. */
void merge_text_suggest(const char *word, kv_err *e);
