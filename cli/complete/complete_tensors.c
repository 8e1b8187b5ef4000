/* Names of tensors: from the header of the checkpoint in the statement. */
#include "complete/complete_tensors.h"

#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "checkpoint/checkpoint.h"

#define TENSORS_MOST 10000

/* The word behind the command, without its quotes; false when it is no plain one. */
static bool first_word(buf *out, const char *statement)
{
    const char *from = statement + strcspn(statement, " \t");
    from += strspn(from, " \t");
    char quote = *from == '"' || *from == '\'' ? *from : 0;
    size_t n = quote ? strcspn(from + 1, quote == '"' ? "\"\n" : "'\n") : strcspn(from, " \t\n;|>");
    if (n == 0 || (!quote && strchr("-$(", *from)) || (quote && from[n + 1] != quote))
        return false;
    buf_put(out, from + (quote != 0), n);
    return !buf_check(out, NULL);
}

void complete_tensors(const char *statement, void (*offer)(void *arg, const char *name), void *arg)
{
    checkpoint_options weights = {.weights = true};
    checkpoint *c = NULL;
    struct stat about;
    buf path = {0};
    kv_err unused = {0};
    if (first_word(&path, statement) && stat(buf_text(&path), &about) == 0 &&
        (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)) &&
        checkpoint_open(&c, buf_text(&path), &weights, &unused) == KV_OK &&
        checkpoint_count(c) <= TENSORS_MOST)
        for (int64_t i = 0; i < checkpoint_count(c); i++)
            offer(arg, checkpoint_at(c, i)->name);
    checkpoint_close(c);
    buf_release(&path);
}

void complete_tensor_types(void (*offer)(void *arg, const char *name), void *arg)
{
    for (int t = 0; t < TENSOR_NSAFE; t++)
        offer(arg, tensor_type_name((tensor_type)t));
}
