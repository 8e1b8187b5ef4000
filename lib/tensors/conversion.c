/* See conversion.h. Keys are walked input by input, so that files are read from begin to end;
 * several small inputs share a walk, which keeps all threads busy. */
#include "tensors/conversion.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/regexp.h"
#include "checkpoint/tensor_codec.h"
#include "engine/pool.h"
#include "tensors/walk.h"

/* A walk ends behind so many keys, because they take memory while it runs; and files are added to
 * it until it has so many bytes, or files. */
#define WALK_KEYS  ((int64_t)1 << 16)
#define WALK_BYTES ((int64_t)256 << 20)
#define WALK_FILES 16

typedef struct run {
    const conversion *c;
    checkpoint_out *out;
    int64_t first;     /* the key that is the first of the walk */
    char *memory;      /* of all workers */
    int64_t room;      /* of one: converted pieces */
    int64_t done, all; /* bytes before the walk, and of everything */
} run;

static const tensor_info *info_of(const conversion *c, int64_t i)
{
    return checkpoint_at(c->inputs[c->keys[i].input], c->keys[i].at);
}

static const char *file_of(const conversion *c, int64_t i)
{
    return checkpoint_name(c->inputs[c->keys[i].input]);
}

/* ---- What cannot be -------------------------------------------------------------------------- */

/* Names in messages: the first bytes. */
#define SHOWN_BYTES 80

static int check_type(const conversion *c, int64_t i, kv_err *e)
{
    const tensor_info *t = info_of(c, i);
    tensor_type to = c->keys[i].type;
    tensor_kind kind = tensor_type_kind(t->type), goal = tensor_type_kind(to);
    int rc = checkpoint_has_numbers(c->inputs[c->keys[i].input], c->keys[i].at, e);
    if (rc)
        return kv_err_hint(e, "--exclude leaves keys out"), rc;
    if (to == t->type || (kind < TENSOR_KIND_COMPLEX && goal < TENSOR_KIND_COMPLEX))
        return KV_OK;
    file_bad(e, KV_E_DTYPE, file_of(c, i), "\"%.*s\" is %s, which cannot become %s", SHOWN_BYTES,
             t->name, tensor_type_name(t->type), tensor_type_name(to));
    return kv_err_hint(e, "such keys are copied as they are: leave out --dtype for them"),
           KV_E_DTYPE;
}

/* Keys i and j get one name, i first. */
static int refuse_pair(const conversion *c, int64_t i, int64_t j, kv_err *e)
{
    const char *a = info_of(c, i)->name, *b = info_of(c, j)->name, *name = c->keys[i].name;
    if (strcmp(a, b) != 0) {
        kv_err_set(e, KV_E_KEY, "\"%.*s\" and \"%.*s\" would both become \"%.*s\"", SHOWN_BYTES, a,
                   SHOWN_BYTES, b, SHOWN_BYTES, name);
        if (c->keys[i].input == c->keys[j].input)
            kv_err_hint(e, "both stand in %.200s", file_of(c, i));
        else
            kv_err_hint(e, "they stand in %.90s and %.90s", file_of(c, i), file_of(c, j));
        return KV_E_KEY;
    }
    kv_err_set(e, KV_E_KEY, "\"%.*s\" stands in %.120s and in %.120s", SHOWN_BYTES, a,
               file_of(c, i), file_of(c, j));
    return kv_err_hint(e, "--exclude leaves a name out of all of them"), KV_E_KEY;
}

int conversion_check(const conversion *c, kv_err *e)
{
    own_map names = {0};
    TRY(map_reserve(&names, c->nkeys, e));
    for (int64_t i = 0; i < c->nkeys; i++) {
        kv_key key = {.name = c->keys[i].name};
        int64_t other = map_get(&names, key);
        TRY(other >= 0 ? refuse_pair(c, other, i, e) : map_put(&names, key, i, e));
        TRY(check_type(c, i, e));
    }
    return KV_OK;
}

/* Element i of the piece does not fit. */
static int refuse_number(const conversion *c, int64_t key, const walk_piece *p, const void *data,
                         int64_t i, kv_err *e)
{
    int rc;
    own_buf place = {0}, number = {0};
    const tensor_info *t = info_of(c, key);
    tensor_words_place(&place, t, p->first + i);
    if (t->type == TENSOR_BOOL) {
        rc = file_bad(e, KV_E_FORMAT, file_of(c, key),
                      "\"%.*s\" has a byte at %s that is neither 0 nor 1", SHOWN_BYTES, t->name,
                      buf_text(&place));
    } else {
        tensor_words_number(&number, t->type, data, i);
        rc = file_bad(e, KV_E_VALUE, file_of(c, key),
                      "\"%.*s\" is %s at %s, which %s cannot hold", SHOWN_BYTES, t->name,
                      buf_text(&number), buf_text(&place), tensor_type_name(c->keys[key].type));
    }
    return rc;
}

/* ---- The walk -------------------------------------------------------------------------------- */

static int convert_piece(void *arg, const walk_piece *p, int worker, kv_err *e)
{
    const run *r = arg;
    int64_t key = r->first + p->tensor;
    tensor_type from = info_of(r->c, key)->type, to = r->c->keys[key].type;
    const void *data = NULL;
    for (int i = 0; !data; i++)
        data = p->data[i];
    int64_t begin = tensor_type_bytes(to, p->first), n = tensor_type_bytes(to, p->n);
    if (from == to)
        return checkpoint_out_put(r->out, key, begin, data, n, e);
    void *to_data = r->memory + worker * r->room;
    tensor_loss loss = {.first = -1};
    losses *lost = r->c->lost;
    int64_t misfit =
        tensor_convert_counting(to_data, to, data, from, p->n, lost ? &loss : NULL);
    bool refused = misfit < 0 && lost && lost->strict && loss.first >= 0;
    if (misfit >= 0)
        return refuse_number(r->c, key, p, data, misfit, e);
    if (refused) {
        refuse_number(r->c, key, p, data, loss.first, e);
        return kv_err_hint(e, LOSSES_HINT), KV_E_VALUE;
    }
    losses_add(lost, key, &loss);
    return checkpoint_out_put(r->out, key, begin, to_data, n, e);
}

static void tell(void *arg, int64_t done, int64_t all)
{
    const run *r = arg;
    (void)all;
    if (r->c->progress)
        r->c->progress(r->c->progress_arg, r->done + done, r->all);
}

/* Walks the keys from r->first on, as many as one walk takes, and sets it behind them. */
static int walk_some(run *r, kv_err *e)
{
    const conversion *c = r->c;
    int64_t cap = c->nkeys - r->first < WALK_KEYS ? c->nkeys - r->first : WALK_KEYS, bytes = 0;
    int base = c->keys[r->first].input, ninputs = 1;
    int64_t n = 0;
    for (; n < cap; n++) {
        const conversion_key *k = &c->keys[r->first + n];
        int input = k->input - base;
        if (input >= WALK_FILES || (input >= ninputs && bytes >= WALK_BYTES))
            break;
        ninputs = input + 1;
        bytes += info_of(c, r->first + n)->bytes;
    }
    int64_t *at = mem_alloc(n, (size_t)ninputs * sizeof *at, e);
    if (!at)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < ninputs; k++)
            at[i * ninputs + k] =
                c->keys[r->first + i].input == base + k ? c->keys[r->first + i].at : -1;
    walk w = {.inputs = c->inputs + base,
              .ninputs = ninputs,
              .at = at,
              .ntensors = n,
              .piece = convert_piece,
              .arg = r,
              .progress = tell,
              .progress_arg = r};
    int rc = walk_run(&w, e);
    mem_free(at);
    r->done += bytes;
    r->first += n;
    return rc;
}

static int open_out(run *r, const char *path, const checkpoint_out_options *o, kv_err *e)
{
    const conversion *c = r->c;
    own_mem checkpoint_entry *entries = mem_alloc(c->nkeys, sizeof *entries, e);
    if (!entries)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < c->nkeys; i++) {
        const tensor_info *t = info_of(c, i);
        entries[i] = (checkpoint_entry){c->keys[i].name, c->keys[i].type, t->ndim, t->shape};
    }
    return checkpoint_out_open(&r->out, path, entries, c->nkeys, c->metadata, c->nmetadata, o, e);
}

int conversion_run(const conversion *c, const char *path, const checkpoint_out_options *o,
                   kv_err *e)
{
    run r = {.c = c};
    /* Memory for the pieces that are converted. */
    for (int64_t i = 0; i < r.c->nkeys; i++) {
        int64_t bytes = tensor_type_bytes(r.c->keys[i].type, WALK_PIECE);
        r.all += info_of(r.c, i)->bytes;
        if (r.c->keys[i].type != info_of(r.c, i)->type && bytes > r.room)
            r.room = bytes;
    }
    r.memory = mem_alloc_data(r.room * pool_workers(), e);
    int rc = r.memory ? KV_OK : KV_E_MEMORY;
    if (rc == KV_OK)
        rc = open_out(&r, path, o, e);
    while (rc == KV_OK && r.first < c->nkeys)
        rc = walk_some(&r, e);
    mem_free_data(r.memory);
    if (rc == KV_OK)
        return checkpoint_out_commit(r.out, e);
    checkpoint_out_abandon(r.out);
    return rc;
}

/* ---- Metadata -------------------------------------------------------------------------------- */

/* Puts a text in the place of one of its name, or if that stays, drops it. */
static int put_text(checkpoint_text *texts, int64_t *n, map *names, const checkpoint_text *t,
                    bool replaces, kv_err *e)
{
    kv_key key = {.name = t->name};
    int64_t at = map_get(names, key);
    if (at >= 0) {
        texts[at] = replaces ? *t : texts[at];
        return KV_OK;
    }
    texts[*n] = *t;
    return map_put(names, key, (*n)++, e);
}

int conversion_metadata(checkpoint_text **out, int64_t *n, checkpoint *const *inputs, int ninputs,
                     bool drop, const checkpoint_text *set, int64_t nset, kv_err *e)
{
    own_map names = {0};
    int64_t most = nset;
    for (int i = 0; i < ninputs && !drop; i++)
        most += checkpoint_metadata_count(inputs[i]);
    own_mem checkpoint_text *texts = mem_alloc(most, sizeof *texts, e);
    *n = 0;
    if (!texts)
        return KV_E_MEMORY;
    for (int i = 0; i < ninputs && !drop; i++)
        for (int64_t k = 0; k < checkpoint_metadata_count(inputs[i]); k++)
            TRY(put_text(texts, n, &names, checkpoint_metadata_at(inputs[i], k), false, e));
    for (int64_t k = 0; k < nset; k++)
        TRY(put_text(texts, n, &names, &set[k], true, e));
    *out = texts;
    texts = NULL;
    return KV_OK;
}

/* ---- Losses ---------------------------------------------------------------------------------- */

void losses_add(losses *l, int64_t key, const tensor_loss *loss)
{
    const int64_t n[LOSSES_KINDS] = {loss->inf, loss->nan, loss->saturated, loss->rounded,
                                     loss->fraction};
    if (!l || loss->first < 0)
        return;
    for (int i = 0; i < LOSSES_KINDS; i++)
        atomic_fetch_add_explicit(&l->keys[key].count[i], n[i], memory_order_relaxed);
}

void tensor_words_number(buf *out, tensor_type type, const void *data, int64_t i)
{
    int64_t most = tensor_type_run(type), inner = i % most;
    const char *at = (const char *)data + i / most * tensor_type_run_bytes(type);
    char text[NUM_TEXT_MAX];
    double x[4];
    int64_t integer;
    uint64_t large;
    bool is_float = tensor_type_kind(type) == TENSOR_KIND_FLOAT;
    if (is_float)
        tensor_decode_f64(x, type, at, inner + 1);
    if (is_float)
        num_plain(text, x[inner], NUM_BINARY64);
    else if (tensor_decode_i64(&integer, type, at, 1) < 0)
        num_int(text, integer);
    else if (tensor_decode_u64(&large, type, at, 1) < 0)
        snprintf(text, sizeof text, "%llu", (unsigned long long)large);
    buf_add(out, text);
}

void tensor_words_place(buf *out, const tensor_info *t, int64_t element)
{
    int64_t at[KV_MAX_NDIM];
    tensor_info_index(at, t, element);
    buf_char(out, '[');
    for (int j = 0; j < t->ndim; j++)
        buf_printf(out, "%s%lld", j ? ", " : "", (long long)at[j]);
    buf_char(out, ']');
}

/* ---- Names ----------------------------------------------------------------------------------- */

struct renaming {
    regex *re;
    buf to; /* Python's form of what was written */
    bool all;
    bool dollar; /* TO has $1, which other tools take for a group */
};

/* The part up to the next delimiter, which *at then stands behind; false: there is none. */
static bool read_part(buf *out, const char **at, char delimiter)
{
    const char *p = *at;
    for (; *p && *p != delimiter; p++) {
        if (*p == '\\' && p[1] == delimiter)
            p++;
        else if (*p == '\\' && p[1])
            buf_char(out, *p++);
        buf_char(out, *p);
    }
    *at = p + 1;
    return *p != 0;
}

/* TO in Python's form: & and \0, which sed and others have, are the whole match, \$ is $. Returns
 * true if $ stands before a number. */
static bool write_to(buf *out, const char *to)
{
    bool dollar = false;
    for (; *to; to++) {
        bool escaped = *to == '\\' && to[1];
        dollar |= *to == '$' && strchr("0123456789", to[1 + (to[1] == '{')]) && to[1];
        if (*to == '&' || (escaped && to[1] == '0'))
            buf_add(out, "\\g<0>");
        else if (escaped && to[1] != '&' && to[1] != '$')
            buf_put(out, to, 2);
        else
            buf_char(out, to[escaped]);
        to += escaped;
    }
    return dollar;
}

static int malformed(kv_err *e, const char *text)
{
    kv_err_set(e, KV_E_USAGE, "`%.64s` is not a substitution", text);
    kv_err_hint(e, "s/RE/TO/ replaces the first match of RE in each name by TO, s/RE/TO/g every "
                   "match");
    return KV_E_USAGE;
}

/* Reads the parts. An escape that TO ends in is refused with the others. */
static int read_text(renaming *r, buf *re, const char *text, kv_err *e)
{
    char delimiter = text[0] == 's' ? text[1] : 0;
    const char *at = text + 2;
    own_buf to = {0};
    if (delimiter <= ' ' || delimiter == '\\' || delimiter == 127 ||
        !read_part(re, &at, delimiter) || !read_part(&to, &at, delimiter))
        return malformed(e, text);
    r->dollar = write_to(&r->to, buf_text(&to));
    TRY(buf_check(&to, e));
    r->all = strcmp(at, "g") == 0;
    if (*at && !r->all)
        return malformed(e, text);
    TRY(buf_check(re, e));
    return buf_check(&r->to, e);
}

int renaming_new(renaming **out, const char *text, kv_err *e)
{
    own_buf re = {0};
    kv_err why = {0};
    renaming *r = mem_zalloc(1, sizeof *r, e);
    if (!r)
        return KV_E_MEMORY;
    int rc = read_text(r, &re, text, e);
    if (!rc && !(rc = regex_new(&r->re, buf_text(&re), &why)))
        rc = regex_check_replacement(r->re, buf_text(&r->to), &why);
    if (!rc && r->dollar && regex_groups(r->re) > 0) {
        rc = kv_err_set(e, KV_E_USAGE, "`%.64s`: $1 is not a group here", text);
        kv_err_hint(e, "\\1 is the text of the first group, \\$1 a dollar and 1");
    }
    if (why.code == KV_E_VALUE)
        rc = kv_err_set(e, KV_E_USAGE, "`%.64s`: %s", text, why.text);
    else if (why.code) {
        rc = kv_err_set(e, (kv_code)why.code, "%s", why.text);
        kv_err_hint(e, "%s", why.hint);
    }
    if (!rc) {
        *out = r;
        return KV_OK;
    }
    renaming_free(r);
    return rc;
}

void renaming_free(renaming *r)
{
    if (!r)
        return;
    regex_free(r->re);
    buf_release(&r->to);
    mem_free(r);
}

int renaming_apply(renaming *r, const char *name, buf *out, int *matches, kv_err *e)
{
    int64_t n = (int64_t)strlen(name), replaced = 0, first;
    size_t from = out->len;
    int rc = regex_replace(r->re, name, n, buf_text(&r->to), r->all ? 0 : 2, out, &replaced, e);
    if (matches)
        *matches = r->all ? replaced > 0 : (int)replaced;
    if (rc || r->all || replaced < 2)
        return rc;
    out->len = from;
    return regex_replace(r->re, name, n, buf_text(&r->to), 1, out, &first, e);
}

/* ---- One tensor ------------------------------------------------------------------------------ */

/* Each piece is converted into memory of its thread and written from there. */

enum { PIECE = 1 << 17, WIDEST = 8 }; /* elements: whole bytes of every type; bytes of the widest */

typedef struct putting {
    checkpoint_out *out;
    int64_t i, n;
    tensor_type to, from;
    const char *data;
    char *blocks;           /* one a worker, of PIECE elements; NULL: the data go as they are */
    losses *lost;           /* or NULL */
    _Atomic(int64_t) wrong; /* the first found so far, or INT64_MAX */
} putting;

/* Does nothing behind an element that is wrong already, since only the first one is reported. */
static int put_piece(void *arg, int64_t piece, int worker, kv_err *e)
{
    putting *p = arg;
    int64_t at = piece * PIECE, n = p->n - at < PIECE ? p->n - at : PIECE;
    const char *data = p->data + tensor_type_bytes(p->from, at);
    if (atomic_load(&p->wrong) < at)
        return KV_OK;
    if (p->blocks) {
        char *block = p->blocks + (int64_t)worker * PIECE * WIDEST;
        tensor_loss loss = {.first = -1};
        int64_t wrong = tensor_convert_counting(block, p->to, data, p->from, n,
                                                p->lost ? &loss : NULL);
        if (wrong < 0 && p->lost && p->lost->strict)
            wrong = loss.first;
        if (wrong >= 0) {
            int64_t first = atomic_load(&p->wrong);
            while (at + wrong < first &&
                   !atomic_compare_exchange_weak(&p->wrong, &first, at + wrong))
                ;
            return KV_OK;
        }
        losses_add(p->lost, p->i, &loss);
        data = block;
    }
    return checkpoint_out_put(p->out, p->i, tensor_type_bytes(p->to, at), data,
                              tensor_type_bytes(p->to, n), e);
}

int tensor_put(checkpoint_out *out, int64_t i, tensor_type to, const void *data, tensor_type from,
               int64_t n, losses *lost, int64_t *wrong, kv_err *e)
{
    int64_t npieces = n / PIECE + (n % PIECE > 0);
    putting p = {.out = out, .i = i, .n = n, .to = to, .from = from, .data = data, .lost = lost};
    *wrong = -1;
    if (to != from && npieces > 0) {
        int64_t room = npieces == 1 ? n : (int64_t)pool_workers() * PIECE;
        if (!(p.blocks = mem_alloc(room, WIDEST, e)))
            return KV_E_MEMORY;
    }
    atomic_store(&p.wrong, INT64_MAX);
    int rc = npieces == 1 ? put_piece(&p, 0, 0, e) : pool_each(npieces, put_piece, &p, e);
    mem_free(p.blocks);
    if (!rc && p.wrong != INT64_MAX)
        *wrong = atomic_load(&p.wrong);
    return rc;
}
