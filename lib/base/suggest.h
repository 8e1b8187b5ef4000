/* Names of commands, options and keys, and "did you mean …?" for a word that is not a name.
 *
 * Close means an edit distance (insert, drop, replace, swap two neighbours) of at most 2, and of 1
 * where the longer name has no more than 4 letters, so that short words do not match everything.
 * Closest of all are names of several words that the word abbreviates: their first words, `f8` of
 * F8_E4M3, their last, `optimizer` of set-optimizer, or their initials, `lr` of learning_rate; and
 * a name that abbreviates the word, wd for weight_decay.
 * - and _ are the same letter.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "kv_err.h"

#define SUGGEST_MAX 3 /* names in a hint */

/* So that an error costs some milliseconds at most, however many keys there are. */
#define SUGGEST_COMPARED 10000

/* The closest names so far, closest first, equally close ones in the order they came. Words and
 * names are borrowed. Begin with {.word = word}. by_first_letters: three letters or more abbreviate
 * a name that begins with them, `mom` of momentum; where names are few. as_methods: names are shown
 * with _ for -, as a call has them. */
typedef struct suggest {
    const char *word;
    bool by_first_letters, as_methods;
    const char *names[SUGGEST_MAX];
    int distance[SUGGEST_MAX];
    int n;
    int compared; /* names; only the first SUGGEST_COMPARED are */
} suggest;

/* Adds a name that the word may have meant; one that was added already adds nothing. */
void suggest_add(suggest *s, const char *name);

/* Hints "did you mean a, b or c?", or nothing when no name was close. */
void suggest_done(const suggest *s, kv_err *e);

/* All of it for a list of names; NULL names in it are passed over. */
void suggest_hint(kv_err *e, const char *word, const char *const *names, int n);

/* Names of commands, options and parameters, in which - and _ are the same letter: a word of a
 * command has dashes, a keyword of a call has underscores. */

/* Returns true if n bytes of a word are the name. */
bool name_is_word(const char *name, const char *word, size_t n);

/* The index of word among n names, compared letter by letter; -1: not among them. */
int name_among(const char *word, const char *const *names, size_t n);
#define NAME_AMONG(word, names) name_among(word, names, sizeof(names) / sizeof *(names))

/* Returns a bit for each of some names, which end with NULL, that a text has as a word. Its
 * comments do not count: as in Python, they begin with # and end with the line. */
unsigned name_words_in(const char *text, const char *const *names);

/* Appends n bytes of a name with this sign, - or _, for both. */
void name_put(buf *out, const char *name, size_t n, char sign);
