/* A worker hashes one tensor after the other, piece by piece. */
#include "tensors/tensor_hash.h"

#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "engine/pool.h"
#include "tensors/walk.h"

/* One worker's. */
typedef struct hasher {
    digest *d;
    buf title;
    int64_t tensor; /* whose hash it is at, or -1 */
} hasher;

typedef struct hashing {
    const checkpoint *c;
    const int64_t *numbers;
    hasher *workers;
    int nworkers;
    tensor_hash *hashes;
} hashing;

/* "BF16 [4096, 4096]\n": the same bytes with another shape are another tensor. */
int tensor_hash_begin(digest *d, buf *line, tensor_type type, int ndim, const int64_t *shape,
                      kv_err *e)
{
    buf_clear(line);
    buf_add(line, tensor_type_name(type));
    buf_add(line, " [");
    for (int i = 0; i < ndim; i++)
        buf_printf(line, i ? ", %lld" : "%lld", (long long)shape[i]);
    buf_add(line, "]\n");
    digest_begin(d);
    digest_add(d, buf_text(line), (int64_t)line->len);
    return buf_check(line, e);
}

static int begin(hasher *h, const tensor_info *t, kv_err *e)
{
    return tensor_hash_begin(h->d, &h->title, t->type, t->ndim, t->shape, e);
}

static int hash_piece(void *arg, const walk_piece *p, int worker, kv_err *e)
{
    hashing *job = arg;
    hasher *h = &job->workers[worker];
    const tensor_info *t = checkpoint_at(job->c, job->numbers[p->tensor]);
    if (p->first == 0) {
        h->tensor = p->tensor;
        TRY(begin(h, t, e));
    }
    kv_assert(h->tensor == p->tensor, "a tensor went to two workers");
    digest_add(h->d, p->data[0], tensor_type_bytes(t->type, p->n));
    return p->first + p->n < t->elements ? KV_OK
                                         : digest_end(h->d, job->hashes[p->tensor].bytes, e);
}

int tensor_hash_all(tensor_hash *hashes, checkpoint *c, const int64_t *numbers, int64_t n,
                    digest_kind kind, void (*progress)(void *arg, int64_t done, int64_t all),
                    void *progress_arg, kv_err *e)
{
    hashing job = {c, numbers, NULL, pool_workers(), hashes};
    if (!(job.workers = mem_zalloc(job.nworkers, sizeof *job.workers, e)))
        return KV_E_MEMORY;
    int rc = KV_OK;
    for (int i = 0; i < job.nworkers && !rc; i++)
        rc = digest_new(&job.workers[i].d, kind, e);
    for (int64_t i = 0; i < n && !rc; i++) {
        const tensor_info *t = checkpoint_at(c, numbers[i]);
        /* a tensor without elements has no pieces */
        if (t->elements == 0 && !(rc = begin(&job.workers[0], t, e)))
            rc = digest_end(job.workers[0].d, hashes[i].bytes, e);
    }
    const walk w = {.inputs = &c,
                    .ninputs = 1,
                    .at = numbers,
                    .ntensors = n,
                    .piece = hash_piece,
                    .arg = &job,
                    .in_order = true,
                    .progress = progress,
                    .progress_arg = progress_arg};
    if (!rc)
        rc = walk_run(&w, e);
    for (int i = 0; i < job.nworkers; i++) {
        digest_free(job.workers[i].d);
        buf_release(&job.workers[i].title);
    }
    mem_free(job.workers);
    return rc;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* A line as it is read: n bytes, the hash first. */
typedef struct reading {
    hash_list *list;
    const char *path, *line;
    size_t n;
    int64_t number;
    buf name;
} reading;

static int refuse(const reading *r, const char *why, kv_err *e)
{
    return file_bad(e, KV_E_FORMAT, r->path, "line %lld: %s", (long long)r->number, why);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Takes what stands behind the backslash at r->line[*i]: a quote, a backslash, x1b or u{202e}. */
static bool unescape(reading *r, size_t *i)
{
    size_t at = *i + 2, digits = 0;
    char kind = *i + 1 < r->n ? r->line[*i + 1] : '\0', utf8[4];
    uint32_t x = 0;
    if (kind == '"' || kind == '\\') {
        buf_char(&r->name, kind);
        *i = at;
        return true;
    }
    if (kind == 'u' && at < r->n && r->line[at] == '{')
        at++;
    else if (kind != 'x')
        return false;
    for (; at < r->n && digits < (kind == 'x' ? 2 : 6) && digit_of(r->line[at]) >= 0; digits++)
        x = x * 16 + (uint32_t)digit_of(r->line[at++]);
    if (x == 0 || (kind == 'x' && digits != 2))
        return false;
    if (kind == 'x') {
        buf_char(&r->name, (char)x);
    } else {
        if (x > 0x10FFFF || at >= r->n || r->line[at++] != '}')
            return false;
        buf_put(&r->name, utf8, utf8_put(utf8, x));
    }
    *i = at;
    return true;
}

/* The name from byte i of the line on: as it is, or in quotes and escaped, as ls shows it. */
static int read_name(reading *r, size_t i, kv_err *e)
{
    buf_clear(&r->name);
    if (i >= r->n)
        return refuse(r, "a name is missing behind the hash", e);
    if (r->line[i] != '"') {
        buf_put(&r->name, r->line + i, r->n - i);
        return buf_check(&r->name, e);
    }
    for (i++; i < r->n && r->line[i] != '"';) {
        if (r->line[i] != '\\')
            buf_char(&r->name, r->line[i++]);
        else if (!unescape(r, &i))
            return refuse(r, "the name has an escape that hash does not write", e);
    }
    if (i + 1 != r->n)
        return refuse(r, i >= r->n ? "the quotes of the name do not end"
                                   : "something stands behind the quotes of the name",
                      e);
    return buf_check(&r->name, e);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static int read_line(reading *r, kv_err *e)
{
    hash_list *list = r->list;
    listed_hash one = {0};
    size_t digits = 0, blanks = 0;
    while (digits < r->n && digit_of(r->line[digits]) >= 0)
        digits++;
    while (digits + blanks < r->n && blanks < 2 && r->line[digits + blanks] == ' ')
        blanks++;
    bool sha256 = digits == 64;
    if ((digits != 32 && !sha256) || blanks < 2)
        return refuse(r, "this is not a hash of 32 or 64 hexadecimal digits, two blanks and a name",
                      e);
    digest_kind kind = sha256 ? DIGEST_SHA256 : DIGEST_XXH3;
    if (list->n > 0 && kind != list->kind)
        return refuse(r, "a hash of another kind than in the lines before", e);
    list->kind = kind;
    TRY(read_name(r, digits + blanks, e));
    int bytes = digest_bytes(kind);
    for (int i = 0; i < bytes; i++)
        one.bytes[i] =
            (unsigned char)(digit_of(r->line[2 * i]) << 4 | digit_of(r->line[2 * i + 1]));
    if (map_get(&list->by_name, (kv_key){.name = buf_text(&r->name)}) >= 0)
        return refuse(r, "a name that stands in an earlier line, too", e);
    int rc = mem_grow(&list->items, &list->cap, list->n + 1, sizeof *list->items, e);
    one.name = rc ? NULL : arena_text(&list->texts, buf_text(&r->name), r->name.len, e);
    if (!one.name)
        return KV_E_MEMORY;
    TRY(map_put(&list->by_name, (kv_key){.name = one.name}, list->n, e));
    list->items[list->n++] = one;
    return KV_OK;
}

int hash_list_read(hash_list *list, const char *path, kv_err *e)
{
    own_mem char *text = NULL;
    size_t n = 0;
    int rc = file_read_text(path, &text, &n, e);
    reading r = {.list = list, .path = path};
    for (size_t at = 0; rc == KV_OK && at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        r.line = text + at;
        r.n = end ? (size_t)(end - r.line) : n - at;
        at += r.n + 1;
        r.n -= r.n > 0 && r.line[r.n - 1] == '\r';
        r.number++;
        rc = read_line(&r, e);
    }
    buf_release(&r.name);
    return rc;
}

void hash_list_release(hash_list *list)
{
    mem_free(list->items);
    map_release(&list->by_name);
    arena_release(&list->texts);
    *list = (hash_list){0};
}
