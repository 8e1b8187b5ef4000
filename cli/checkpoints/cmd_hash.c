/* `hash`: the hash of each key of a checkpoint, to write down or to compare with a list. */
#include <string.h>

#include "base/mem.h"
#include "checkpoints/checkpoints.h"
#include "checkpoints/choose.h"
#include "checkpoints/hash_list.h"
#include "session/show.h"
#include "session/unit.h"
#include "tensors/tensor_hash.h"
#include "term/progress.h"

/* The keys that are hashed. */
typedef struct hashing {
    checkpoint *file;
    int64_t *keys;
    int64_t n;
    digest_kind kind;
    tensor_hash *hashes;
} hashing;

static int make_hashes(hashing *h, kv_err *e)
{
    h->hashes = mem_alloc(h->n, sizeof *h->hashes, e);
    if (!h->hashes)
        return KV_E_MEMORY;
    progress_begin("hash", 0, PROGRESS_BYTES);
    int code = tensor_hash_all(h->hashes, h->file, h->keys, h->n, h->kind, progress_bytes, NULL, e);
    progress_end();
    return code;
}

static void release(hashing *h)
{
    mem_free(h->hashes);
    mem_free(h->keys);
    checkpoint_close(h->file);
}

static const char *name_of(const hashing *h, int64_t i)
{
    return checkpoint_at(h->file, h->keys[i])->name;
}

/* Two columns: a key, and another text. The text that is shown has the key last, since it may have
 * any length. */
static int add_line(result *out, buf *text, const char *key, const char *other, kv_err *e)
{
    int code = rows_add_text(&out->entries, key, e);
    buf_printf(text, "%s  ", other);
    show_key(text, (kv_key){.name = key});
    buf_char(text, '\n');
    return code ? code : rows_add_text(&out->entries, other, e);
}

/* ---- hash ------------------------------------------------------------------------------------ */

static int list_hashes(session *s, hashing *h, choice *chosen, result *out, buf *text, kv_err *e)
{
    static const rows_column columns[] = {{"key", NULL}, {"hash", NULL}};
    char hex[DIGEST_TEXT];
    out->entries = (rows){columns, 2, NULL, 0, 0};
    int code = choose_keys(s, chosen, h->file, &h->keys, &h->n, e);
    if (code == KV_OK)
        code = make_hashes(h, e);
    for (int64_t i = 0; i < h->n && code == KV_OK; i++) {
        digest_text(hex, h->kind, h->hashes[i].bytes);
        code = add_line(out, text, name_of(h, i), hex, e);
    }
    return code;
}

/* ---- hash --verify --------------------------------------------------------------------------- */

/* The keys that are chosen, of the checkpoint and of the list: a pattern may match in either. */
static int choose_both(session *s, hashing *h, hash_list *list, choice *chosen, int64_t *listed,
                       kv_err *e)
{
    int64_t all = checkpoint_count(h->file);
    if (!(h->keys = mem_alloc(all, sizeof *h->keys, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < all; i++)
        if (choose_takes(chosen, checkpoint_at(h->file, i)->name))
            h->keys[h->n++] = i;
    for (int64_t i = 0; i < list->n; i++) {
        list->items[i].met = !choose_takes(chosen, list->items[i].name);
        *listed += !list->items[i].met;
    }
    return choose_check(s, chosen, e);
}

/* One line for each key that differs; met is set for those of the list that the checkpoint has. */
static int add_differences(const hashing *h, hash_list *list, result *out, buf *text, kv_err *e)
{
    int code = KV_OK;
    for (int64_t i = 0; i < h->n && code == KV_OK; i++) {
        int64_t at = map_get(&list->by_name, (kv_key){.name = name_of(h, i)});
        if (at < 0)
            code = add_line(out, text, name_of(h, i), "not listed", e);
        else if (memcmp(list->items[at].bytes, h->hashes[i].bytes,
                        (size_t)digest_bytes(h->kind)) != 0)
            code = add_line(out, text, name_of(h, i), "differs", e);
        if (at >= 0)
            list->items[at].met = true;
    }
    for (int64_t i = 0; i < list->n && code == KV_OK; i++)
        if (!list->items[i].met)
            code = add_line(out, text, list->items[i].name, "missing", e);
    return code;
}

/* The keys of either side. */
static int64_t count_all(const hashing *h, const hash_list *list, int64_t listed)
{
    int64_t both = 0;
    for (int64_t i = 0; i < h->n; i++)
        both += map_get(&list->by_name, (kv_key){.name = name_of(h, i)}) >= 0;
    return h->n + listed - both;
}

static int verify(session *s, hashing *h, const ast *call, choice *chosen, result *out, buf *text,
                  kv_err *e)
{
    static const rows_column columns[] = {{"key", NULL}, {"state", NULL}};
    hash_list list = {0};
    int64_t listed = 0;
    const char *path = eval_option_word(s, call, "verify", "a path", out, e);
    out->entries = (rows){columns, 2, NULL, 0, 0};
    int code = path ? hash_list_read(&list, path, e) : e->code;
    if (code)
        unit_at(s, command_option_of(call, "verify"), e);
    if (code == KV_OK) {
        h->kind = list.kind;
        code = choose_both(s, h, &list, chosen, &listed, e);
    }
    if (code == KV_OK && (code = make_hashes(h, e)) == KV_OK &&
        (code = add_differences(h, &list, out, text, e)) == KV_OK) {
        int64_t differ = out->entries.n / 2;
        code = result_answer(out, differ == 0, e, "%lld of %lld keys %s not as %s lists them",
                             (long long)differ, (long long)count_all(h, &list, listed),
                             differ == 1 ? "is" : "are", path);
    }
    hash_list_release(&list);
    return code;
}

static int hash_file(session *s, const ast *call, const word *path, choice *chosen, result *out,
                     kv_err *e)
{
    const ast *listed = command_option_of(call, "verify");
    hashing h = {.kind = command_option_of(call, "sha256") ? DIGEST_SHA256 : DIGEST_XXH3};
    buf text = {0};
    if (listed && chosen->goes_on)
        return unit_err(s, listed, e, KV_E_USAGE, "--verify compares one file with its list");
    int code = choose_open_word(s, path, command_option_of(call, "all"), &h.file, e);
    if (code == KV_OK)
        code = listed ? verify(s, &h, call, chosen, out, &text, e)
                      : list_hashes(s, &h, chosen, out, &text, e);
    release(&h);
    return result_text(out, &text, code, e);
}

int cmd_hash(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *sha256 = command_option_of(call, "sha256");
    if (sha256 && command_option_of(call, "verify"))
        return unit_err(s, sha256, e, KV_E_USAGE,
                        "--verify knows the kind of hash by its length: leave --sha256 out");
    return choose_each(s, call, hash_file, false, out, e);
}
