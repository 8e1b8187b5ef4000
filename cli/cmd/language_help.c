/* Help on the language: sections of its page, found by the words and signs that they are about. */
#include "cmd/help.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "lang/lex.h"

/* Words joined by blanks, and the heading of their section. */
static const struct section {
    const char *words, *heading;
} sections[] = {
    {"$ literal computed words blanks", "Literal and computed"},
    {"values numbers", "Values"},
    {".. ranges", "Ranges"},
    {"lists arrays tuples names", "Lists and arrays"},
    {"slices index [] ...", "Slices"},
    {"dicts {}", "Dicts"},
    {"texts strings fstrings", "Texts"},
    {"files @ # csv npy safetensors npz gguf shards", "Files"},
    {"redirects -> --out > >> | ! -", "Where results go"},
    {"statements if elif else for in while repeat break continue loops blocks", "Statements"},
    {"functions def return", "Functions"},
    {"stores", "Stores and types"},
    {"key patterns", "Keys"},
    {"updater updaters", "Rules"},
    {"python class try with lambda", "What Python has and this has not"},
    {"idioms", "Ten idioms"},
};

/* Returns true if the word, or its plural, is among the words. */
static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (; *words; words += strcspn(words, " "), words += *words == ' ') {
        size_t length = strcspn(words, " ");
        if (n > 0 && strncasecmp(words, word, n) == 0 &&
            (length == n || (length == n + 1 && words[n] == 's')))
            return true;
    }
    return false;
}

static const struct section *find_section(const char *word)
{
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (has_word(sections[i].words, word))
            return &sections[i];
    return NULL;
}

bool language_section(buf *out, const char *word)
{
    const struct section *section = find_section(word);
    buf heading = {0};
    if (!section)
        return false;
    buf_printf(&heading, "\n## %s\n", section->heading);
    const char *at = heading.failed ? NULL : strstr(language_text, buf_text(&heading));
    const char *end = at ? strstr(at + heading.len, "\n## ") : NULL;
    out->failed |= heading.failed;
    buf_release(&heading);
    if (at) {
        at += strlen("\n## ");
        buf_put(out, at, end ? (size_t)(end - at) : strlen(at));
        buf_add(out, end ? "\nhelp language: the whole page.\n" : "");
    }
    return true;
}

void language_words(void (*offer)(void *arg, const char *word), void *arg)
{
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        char words[100], *rest = words, *word;
        snprintf(words, sizeof words, "%s", sections[i].words);
        while ((word = strsep(&rest, " ")))
            if (lex_is_letter(*word))
                offer(arg, word);
    }
}

int language_check(const char *word, kv_err *e)
{
    if (find_section(word))
        return KV_OK;
    kv_err_set(e, KV_E_NAME, "the page on the language has no section `%.64s`", word);
    return kv_err_hint(e, "`help language` shows all of it"), KV_E_NAME;
}
