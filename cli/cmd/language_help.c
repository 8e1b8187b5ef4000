/* Help on the language: sections of its page, found by the words and signs that they are about. */
#include "cmd/help.h"

#include <string.h>
#include <strings.h>

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

bool language_section(buf *out, const char *word)
{
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (!has_word(sections[i].words, word))
            continue;
        buf heading = {0};
        buf_printf(&heading, "\n## %s\n", sections[i].heading);
        const char *at = heading.failed ? NULL : strstr(language_text, buf_text(&heading));
        const char *end = at ? strstr(at + heading.len, "\n## ") : NULL;
        buf_release(&heading);
        if (!at)
            continue;
        at += strlen("\n## ");
        buf_put(out, at, end ? (size_t)(end - at) : strlen(at));
        buf_add(out, end ? "\nhelp language: the whole page.\n" : "");
        return true;
    }
    return false;
}
