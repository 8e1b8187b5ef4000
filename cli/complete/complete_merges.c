/* Names and heads of merges. A file is read only when it is small. */
#include "complete/complete_merges.h"

#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "lang/parse.h"
#include "merge/merge_texts.h"

#define FILE_MOST 100000 /* bytes: no rule has more */

void complete_merges(void (*offer)(void *arg, const char *name), void *arg)
{
    for (const merge_text *t = merge_texts; t->name; t++)
        offer(arg, t->name);
}

static void offer_parameters(const char *text, void (*offer)(void *arg, const char *name),
                             void *arg)
{
    rule_ast *rule;
    arena nodes = {0};
    kv_err unused = {0};
    source src = {.name = "", .text = text, .len = (uint32_t)strlen(text), .line = 1, .col = 1};
    if (parse_merge(&rule, &src, &nodes, &unused) == KV_OK)
        for (int i = 0; i < rule->nparams; i++)
            offer(arg, rule->params[i].name);
    arena_release(&nodes);
}

void complete_merge_parameters(const char *word, size_t n,
                               void (*offer)(void *arg, const char *name), void *arg)
{
    buf path = {0};
    struct stat about;
    kv_err unused = {0};
    char *read;
    size_t bytes;
    buf_put(&path, word, n);
    const merge_text *t = merge_text_find(buf_text(&path));
    if (t)
        offer_parameters(t->text, offer, arg);
    else if (stat(buf_text(&path), &about) == 0 && S_ISREG(about.st_mode) &&
             about.st_size <= FILE_MOST &&
             !file_read_text(buf_text(&path), &read, &bytes, &unused)) {
        offer_parameters(read, offer, arg);
        mem_free(read);
    }
    buf_release(&path);
}
