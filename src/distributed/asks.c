/* Writing and reading the structs and texts of calls. A reader checks every length, since the
 * record came from another process. Behind that: how many parts a key gets, and where they begin.
 */
#include "distributed/asks.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "array/device.h"
#include "base/xxh64.h"
#include "distributed/link.h"
#include "distributed/server.h"

/* What begins a number of a build. A change of what records mean, without one of how they lie,
 * changes the digits. */
static const char records_are[] = "kvstore records 5, " KV_VERSION;

#define FIELD(type, field) offsetof(type, field), sizeof(((type *)0)->field)

int ask_build(void)
{
    static const size_t lies[] = {
        FIELD(link_rec, kind), FIELD(link_rec, flags), FIELD(link_rec, store),
        FIELD(link_rec, part), FIELD(link_rec, chunk), FIELD(link_rec, request),
        FIELD(link_rec, from), FIELD(link_rec, n), FIELD(link_rec, round), FIELD(link_rec, pulls),
        FIELD(link_rec, args), FIELD(link_rec, priority), FIELD(link_rec, what),
        FIELD(link_rec, state), FIELD(link_rec, dtype), sizeof(link_rec),
        FIELD(ask_store, is_async), FIELD(ask_store, sums), FIELD(ask_store, staleness),
        FIELD(ask_store, type), sizeof(ask_store),
        FIELD(place, first), FIELD(place, size), FIELD(place, step), FIELD(place, row),
        FIELD(place, nparts), FIELD(place, server), sizeof(place),
        FIELD(ask_key, shape), FIELD(ask_key, place), FIELD(ask_key, round),
        FIELD(ask_key, name_bytes), FIELD(ask_key, dtype), FIELD(ask_key, need), sizeof(ask_key),
        FIELD(ask_slot, bytes), FIELD(ask_slot, key), sizeof(ask_slot),
        FIELD(ask_counts, stalest), FIELD(ask_counts, missing), sizeof(ask_counts),
        FIELD(ask_met, epochs), sizeof(ask_met), FIELD(ask_missed, waits), sizeof(ask_missed),
        FIELD(ask_lack, round), sizeof(ask_lack), FIELD(ask_report, place), sizeof(ask_report),
        FIELD(ask_round, ahead), FIELD(ask_round, missing), sizeof(ask_round), sizeof(ask_look),
        FIELD(kv_err, code), FIELD(kv_err, text), FIELD(kv_err, hint), FIELD(kv_err, rank),
        sizeof(kv_err), sizeof(link_args), sizeof(push_codes), sizeof(void *),
        /* counts and limits that both sides must know */
        LINK_KINDS, ASK_RECEIVE, MAIL_LAST_RESIDUALS, ASK_HOLD_ENDS, LINK_PAYLOAD, LINK_EXPRESS,
        KV_MAX_NDIM, KV_DTYPE_END};
    uint64_t both[] = {xxh64(records_are, sizeof records_are), xxh64(lies, sizeof lies)};
    return (int)(xxh64(both, sizeof both) >> 33);
}

const char *ask_name(dist_ask what)
{
    static const char *const names[] = {
        [ASK_FREE] = "the end of a store", [ASK_DONE] = "done",
        [ASK_INIT] = "init",               [ASK_DROP] = "set-optimizer",
        [ASK_OPTIMIZER] = "set-optimizer", [ASK_COMMAND] = "send-command",
        [ASK_STATES] = "save-states",      [ASK_SET_STATES] = "load-states",
        [ASK_COUNTS] = "info",             [ASK_MISSED] = "push",
        [ASK_ROUNDS] = "rounds",           [ASK_LOOK] = "attach",
        [ASK_KEYS] = "attach",             [ASK_GROW] = "launch --grow",
        [ASK_PLACE] = "init",              [ASK_READY] = "init",
        [ASK_RECEIVE] = NULL};
    return names[what];
}

/* Bytes of a key at most, 16 TB: its parts can be counted. */
#define KEY_MOST ((int64_t)1 << 44)

static int64_t up(int64_t n)
{
    return (n + 7) / 8 * 8;
}

static void pad(buf *b)
{
    while (b->len % 8 && !b->failed)
        buf_char(b, 0);
}

void ask_print_workers(char *out, size_t room, uint64_t set)
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < 64 && n + 4 < room; i++)
        if (set >> i & 1)
            n += (size_t)snprintf(out + n, room - n, n ? " %d" : "%d", i);
}

int ask_malformed(kv_err *e)
{
    return kv_err_set(e, KV_E_INTERNAL, "a record of another rank is malformed");
}

int ask_error(kv_err *e, const void *data, int64_t bytes)
{
    kv_err told;
    if (e->code)
        return e->code;
    if (bytes != sizeof told)
        return ask_malformed(e);
    memcpy(&told, data, sizeof told);
    if (told.code <= KV_OK || told.code >= KV_NCODES || !told.text[0])
        return ask_malformed(e);
    told.text[sizeof told.text - 1] = told.hint[sizeof told.hint - 1] = 0;
    told.key_name[sizeof told.key_name - 1] = 0;
    told.file[0] = 0; /* a place in a script of that rank */
    told.line = told.col = told.end = 0;
    *e = told;
    return e->code;
}

void ask_put_key(buf *b, const ask_key *k, const char *name)
{
    ask_key copy = *k;
    copy.name_bytes = name ? (int32_t)strlen(name) + 1 : 0;
    buf_put(b, (const char *)&copy, sizeof copy);
    if (name)
        buf_put(b, name, (size_t)copy.name_bytes);
    pad(b);
}

/* Returns true if the form is valid, and neither the size of such an array nor that of one of its
 * rows overflows. */
static bool is_form(const ask_key *k)
{
    int64_t bytes = k->dtype < KV_DTYPE_END ? kv_dtype_bytes((kv_dtype)k->dtype) : 0;
    bool good = bytes > 0 && k->ndim <= KV_MAX_NDIM && k->storage <= KV_ROW_SPARSE;
    for (int i = 0; good && i < k->ndim; i++) {
        int64_t n = k->shape[i] ? k->shape[i] : 1;
        good = n > 0 && !__builtin_mul_overflow(bytes, n, &bytes) && bytes <= KEY_MOST;
    }
    return good && k->need <= PLACE_WHOLE;
}

/* Returns true if the message holds a text of this length, which includes its NUL. */
static bool is_text(const char *text, const char *end, int64_t bytes)
{
    return bytes >= 0 && up(bytes) <= end - text &&
           (!bytes || strnlen(text, (size_t)bytes) == (size_t)bytes - 1);
}

const ask_key *ask_get_key(const char **at, const char *end, kv_key *key)
{
    const ask_key *k = (const ask_key *)(const void *)*at;
    if (end - *at < (int64_t)sizeof *k || !is_form(k) ||
        !is_text(*at + sizeof *k, end, k->name_bytes))
        return NULL;
    const char *name = *at + sizeof *k;
    *key = (kv_key){.id = k->id, .name = k->name_bytes ? name : NULL};
    *at = name + up(k->name_bytes);
    return k;
}

const ask_slot *ask_get_slot(const char **at, const char *end, kv_key *key, const char **data)
{
    const ask_slot *s = (const ask_slot *)(const void *)*at;
    const char *text = (const char *)&s->key;
    if (end - *at < (int64_t)sizeof *s || !ask_get_key(&text, end, key))
        return NULL;
    const place *p = &s->key.place;
    int64_t each = kv_dtype_bytes((kv_dtype)s->key.dtype);
    if (s->part < 0 || s->from < 0 || s->count < 0 || s->count > INT64_MAX / each || s->bytes < 0 ||
        s->bytes > end - text || p->nparts < 1 || p->row < 0 || (p->nparts > 1 && s->key.ndim < 1))
        return NULL;
    *data = text;
    *at = end - text < up(s->bytes) ? end : text + up(s->bytes);
    return s;
}

void ask_put_rows(buf *b, const kv_array *a, int64_t from, int64_t to)
{
    const int64_t *ids = array_rows(a);
    int64_t row = kv_dtype_bytes((kv_dtype)a->dtype);
    int64_t first = row_ids_find(ids, 0, array_nrows(a), from);
    int64_t n = row_ids_find(ids, first, array_nrows(a), to) - first;
    for (int i = 1; i < a->ndim; i++)
        row *= array_shape(a)[i];
    size_t bytes = (size_t)(n + 1) * sizeof n + (size_t)(n * row);
    char *at = buf_room(b, bytes);
    if (!at)
        return;
    memcpy(at, &n, sizeof n);
    for (int64_t i = first; i < first + n; i++) {
        int64_t id = ids[i] - from;
        memcpy(at += sizeof n, &id, sizeof id);
    }
    if (n * row > 0)
        memcpy(at + sizeof n, (const char *)a->data + first * row, (size_t)(n * row));
    buf_grew(b, bytes);
}

int ask_put_slot(buf *b, const ask_key *k, const char *name, int32_t part, kv_array *value,
                 kv_err *e)
{
    int64_t each = kv_dtype_bytes((kv_dtype)k->dtype);
    ask_slot s = {.part = k->place.first + part,
                  .from = place_from(&k->place, part),
                  .count = place_count(&k->place, part),
                  .key = *k};
    const void *data = NULL;
    own_buf rows = {0};
    int rc = KV_OK;
    if (value->storage == KV_ROW_SPARSE) {
        const place *p = &k->place;
        kv_array_read_rows(value, &data, NULL); /* waits for what writes it */
        ask_put_rows(&rows, value, place_first_row(p, part), place_first_row(p, part + 1));
        data = rows.data;
        s.bytes = (int64_t)rows.len;
        rc = buf_check(&rows, e);
    } else if ((rc = kv_array_read(value, &data, e)) == KV_OK) {
        data = (const char *)data + s.from * each;
        s.bytes = s.count * each;
    }
    s.key.name_bytes = name ? (int32_t)strlen(name) + 1 : 0;
    buf_put(b, (const char *)&s, sizeof s);
    if (name)
        buf_put(b, name, (size_t)s.key.name_bytes);
    pad(b);
    if (!rc && s.bytes)
        buf_put(b, data, (size_t)s.bytes);
    pad(b);
    return rc ? rc : buf_check(b, e);
}

int ask_count_rows(const void *data, int64_t bytes, int64_t row, int64_t *n, kv_err *e)
{
    if (bytes < (int64_t)sizeof *n)
        return ask_malformed(e);
    memcpy(n, data, sizeof *n);
    int64_t rest = bytes - (int64_t)sizeof *n, each = (int64_t)sizeof *n + row;
    return *n < 0 || *n > rest / each || *n * each != rest ? ask_malformed(e) : KV_OK;
}

static int sparse_array(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape,
                        const char *data, int64_t bytes, kv_err *e)
{
    int64_t n, row = kv_dtype_bytes(dtype);
    void *to;
    for (int i = 1; i < ndim; i++)
        row *= shape[i];
    TRY(ask_count_rows(data, bytes, row, &n, e));
    const int64_t *ids = (const int64_t *)(const void *)(data + sizeof n);
    TRY(kv_array_new_sparse(out, dtype, ndim, shape, n, ids, (kv_ctx){KV_CPU, 0}, e));
    TRY(kv_array_write_rows(*out, &to, e));
    if (n * row > 0)
        memcpy(to, ids + n, (size_t)(n * row));
    return KV_OK;
}

static int dense_array(kv_array **out, kv_dtype dtype, int ndim, const int64_t *shape,
                       const char *data, int64_t bytes, kv_err *e)
{
    void *to;
    TRY(kv_array_new_raw(out, dtype, ndim, shape, (kv_ctx){KV_CPU, 0}, e));
    if (bytes != kv_array_bytes(*out))
        return ask_malformed(e);
    TRY(kv_array_write(*out, &to, e));
    if (bytes > 0)
        memcpy(to, data, (size_t)bytes);
    return KV_OK;
}

int ask_array(kv_array **out, kv_storage storage, kv_dtype dtype, int ndim, const int64_t *shape,
              const char *data, int64_t bytes, kv_err *e)
{
    own_array *a = NULL;
    *out = NULL;
    TRY(storage == KV_ROW_SPARSE ? sparse_array(&a, dtype, ndim, shape, data, bytes, e)
                                 : dense_array(&a, dtype, ndim, shape, data, bytes, e));
    *out = a;
    a = NULL;
    return KV_OK;
}

/* ---- Places ---- */

/* Elements that begin and end where codes of compressed pushes do, and lines of most dtypes. */
enum { ALIGNED = 16 };

static place cut(int64_t size, int64_t step, int64_t row)
{
    place p = {.size = size, .step = step > 0 ? step : 1, .row = row, .nparts = 1};
    if (size > p.step)
        p.nparts = (int32_t)((size + p.step - 1) / p.step);
    return p;
}

place place_in_records(int64_t size, kv_dtype dtype)
{
    return cut(size, LINK_PAYLOAD / kv_dtype_bytes(dtype), 0);
}

place place_new(kv_dtype dtype, kv_storage storage, int ndim, const int64_t *shape, place_need need,
                int servers)
{
    int64_t row = 1, each = kv_dtype_bytes(dtype);
    for (int i = 1; i < ndim; i++)
        row *= shape[i];
    int64_t size = ndim ? shape[0] * row : 1;
    if (need == PLACE_WHOLE || size == 0)
        return cut(size, size, row);
    int64_t some = ALIGNED; /* the fewest rows that a part may have */
    while (some > 1 && some / 2 * row % ALIGNED == 0)
        some /= 2;
    if (storage == KV_ROW_SPARSE) {
        int64_t share = servers > 1 && size >= PLACE_SPREAD ? servers : 1;
        int64_t rows = (shape[0] + share - 1) / share;
        return cut(size, (rows + some - 1) / some * some * row, row);
    }
    int64_t rows = LINK_PAYLOAD / each / row / some * some;
    if (rows == 0)
        rows = some;
    if (rows * row * each <= PLACE_MOST)
        return cut(size, rows * row, row);
    return need == PLACE_BY_ROWS ? cut(size, size, row) : place_in_records(size, dtype);
}

bool place_is_valid(const place *p, kv_storage storage, int ndim, const int64_t *shape, int servers)
{
    int64_t row = 1;
    for (int i = 1; i < ndim; i++)
        row *= shape[i];
    int64_t size = ndim ? shape[0] * row : 1;
    if (p->size != size || p->step < 1 || p->nparts < 1 || p->first < 0 ||
        p->first > INT32_MAX - p->nparts || p->server < -servers || p->server >= servers)
        return false;
    if (p->nparts == 1)
        return size <= p->step && (p->row == 0 || p->row == row);
    bool cuts_rows = p->row == 0 && storage != KV_ROW_SPARSE;
    return p->nparts == (size - 1) / p->step + 1 && p->step % ALIGNED == 0 &&
           (cuts_rows || (p->row == row && p->step % row == 0));
}

int place_shape(const place *p, int64_t count, int ndim, const int64_t *shape,
                int64_t out[KV_MAX_NDIM])
{
    memcpy(out, shape, (size_t)ndim * sizeof *out);
    if (p->nparts == 1)
        return ndim;
    out[0] = p->row ? count / p->row : count;
    return p->row ? ndim : 1;
}
