/* The meaning of PyTorch's pickles: which calls give dicts, tensors and plain values. All others
 * are objects that only Python can make, and then the part that holds them is refused. */
#include "checkpoint/torch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/num.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/pickle.h"
#include "checkpoint/tensor_type.h"
#include "checkpoint/zip.h"

#define PICKLE_BYTES_MAX ((int64_t)512 << 20)
#define DEPTH_MAX        1000
/* Parts that are shared are visited as often as they are reached. */
#define VISITS_MAX      20000000
#define NAMES_MAX       4000000
#define NAMES_BYTES_MAX ((int64_t)256 << 20)
#define VIEW_BYTES_FREE ((int64_t)1 << 30) /* beyond it a view has at most 64 times its storage */
#define SHARED_MOST     16 /* times the pickle: arrays that stand at several places */
#define OBJECTS_SHOWN   5
#define VALUE_SHOWN     60

/* ---- Members --------------------------------------------------------------------------------- */

int torch_add(torch_archive *a, const zip_member *m, kv_err *e)
{
    TRY(mem_grow(&a->members, &a->cap, a->n + 1, sizeof *a->members, e));
    a->members[a->n] = *m;
    a->members[a->n].name = arena_text(&a->names, m->name, strlen(m->name), e);
    return a->members[a->n].name ? a->n++, KV_OK : KV_E_MEMORY;
}

void torch_release(torch_archive *a)
{
    mem_free(a->members);
    arena_release(&a->names);
}

static int by_member(const void *a, const void *b)
{
    return strcmp(((const zip_member *)a)->name, ((const zip_member *)b)->name);
}

/* ---- Reading a file -------------------------------------------------------------------------- */

typedef struct reading {
    checkpoint *c;
    int file;
    const torch_archive *a;
    pickle p;
    char *bytes;                 /* of the pickle */
    int64_t nbytes, array_bytes; /* of the pickle; of NumPy's arrays that were found in it */
    buf root;                    /* what the names of members begin with */
    bool swapped;
    buf path; /* of the value that is visited */
    int64_t visits, names, names_bytes;
    int arrays;  /* the file of the data of NumPy's arrays; -1: there are none yet */
    buf objects; /* objects that only Python can make, and where */
    int64_t nobjects;     /* of them and of keys that give no name */
    const char *nameless; /* the first dict that has such keys */
    const char *object;   /* of the whole: its class, where the root is one */
    const char *readable; /* the first part that has tensors, and no object */
    bool model;           /* that is the model of a training */
    arena memory;
} reading;

static int wrong(const reading *r, const char *what, kv_err *e)
{
    return BAD(r, e, "malformed: %s%s%.*s", what, r->path.len ? " at " : "",
               SHOWN(buf_text(&r->path)));
}

static int bad_tensor(const reading *r, const char *what, kv_err *e)
{
    return checkpoint_leave_out(r->c, r->file, "tensor", buf_text(&r->path), e, "%s", what);
}

/* *found: NULL when there is none of this name. */
static int find_member(const reading *r, const char *behind_root, size_t n,
                       const zip_member **found, kv_err *e)
{
    own_buf name = {0};
    buf_put(&name, buf_text(&r->root), r->root.len);
    buf_put(&name, behind_root, n);
    int rc = buf_check(&name, e);
    *found = rc ? NULL
                : bsearch(&(zip_member){.name = buf_text(&name)}, r->a->members, (size_t)r->a->n,
                          sizeof *r->a->members, by_member);
    return rc;
}

/* All bytes of a member, whose checksum is right. */
static int read_member(const reading *r, const zip_member *m, char **out, kv_err *e)
{
    const input *in = &r->c->files[r->file];
    inflate_stream *from = NULL;
    int64_t got = m->bytes;
    char *bytes = mem_alloc(m->bytes + 1, 1, e);
    int rc = bytes ? KV_OK : KV_E_MEMORY;
    if (!rc && !m->deflated)
        rc = input_read(in, bytes, m->begin, m->bytes, e);
    else if (!rc && !(rc = inflate_new(&from, e))) {
        inflate_begin(from, in, m->begin, m->stored, in->name);
        rc = inflate_read(from, bytes, m->bytes + 1, &got, e);
    }
    inflate_free(from);
    if (!rc && (got != m->bytes || inflate_crc(0, bytes, got) != m->crc))
        rc = file_bad(e, KV_E_FORMAT, in->name, "member \"%.*s\": " NPZ_SUM_WRONG, SHOWN(m->name));
    if (rc)
        mem_free(bytes);
    else
        *out = bytes;
    return rc;
}

/* ---- Entries that are not tensors ------------------------------------------------------------ */

static int count_name(reading *r, kv_err *e)
{
    r->names_bytes += (int64_t)r->path.len;
    if (++r->names > NAMES_MAX || r->names_bytes > NAMES_BYTES_MAX)
        return BAD(r, e, "more than %d names, or 256 MB of them, which is not read", NAMES_MAX);
    return buf_check(&r->path, e);
}

/* Counts an entry, and keeps it where all are asked for. */
static int add_entry(reading *r, const char *type, const char *value, kv_err *e)
{
    checkpoint *c = r->c;
    TRY(count_name(r, e));
    if (c->nothers++ < 2) {
        buf_add(&c->others, c->others.len ? ", " : "");
        buf_put(&c->others, buf_text(&r->path), utf8_cut(buf_text(&r->path), r->path.len, 80));
        TRY(buf_check(&c->others, e));
    }
    if (!c->options.entries)
        return KV_OK;
    const tensor_info t = {.name = buf_text(&r->path),
                           .type = TENSOR_NONE,
                           .odd = type,
                           .value = value,
                           .file = r->file};
    return checkpoint_add(c, &t, e);
}

/* Notes that a value at the path is what only Python can make. */
static int add_object(reading *r, pickle_ref class, kv_err *e)
{
    char name[GLOBAL_MAX];
    const char *shown = *torch_name_of(&r->p, class, name) ? name : "Python object";
    if (r->path.len == 0)
        r->object = arena_text(&r->memory, shown, strlen(shown), e);
    if (r->path.len == 0 && !r->object)
        return KV_E_MEMORY;
    if (r->nobjects++ < OBJECTS_SHOWN)
        buf_printf(&r->objects, "%s%.*s is a %.*s", r->objects.len ? ", " : "",
                   SHOWN(r->path.len ? buf_text(&r->path) : "the file"), SHOWN(shown));
    return buf_check(&r->objects, e);
}

/* A value that is not a container. */
static int add_plain(reading *r, const pickle_node *node, kv_err *e)
{
    static const char *const types[] = {
        [PICKLE_NONE] = "none",   [PICKLE_BOOL] = "bool",   [PICKLE_INT] = "int",
        [PICKLE_LONG] = "int",    [PICKLE_FLOAT] = "float", [PICKLE_TEXT] = "text",
        [PICKLE_BYTES] = "bytes", [PICKLE_SET] = "set",     [PICKLE_PERSISTENT] = "storage"};
    own_buf text = {0};
    char number[NUM_TEXT_MAX];
    if (node->kind == PICKLE_BOOL)
        buf_add(&text, node->u.i ? "True" : "False");
    else if (node->kind == PICKLE_INT)
        buf_printf(&text, "%lld", (long long)node->u.i);
    else if (node->kind == PICKLE_FLOAT)
        num_repr(number, node->u.f, NUM_BINARY64);
    if (node->kind == PICKLE_FLOAT)
        buf_add(&text, number);
    else if (node->kind == PICKLE_TEXT && utf8_valid(node->u.text, node->n)) {
        size_t n = utf8_cut(node->u.text, node->n, VALUE_SHOWN);
        buf_put(&text, node->u.text, strnlen(node->u.text, n));
        buf_add(&text, n < node->n ? "…" : "");
    }
    int rc = buf_check(&text, e);
    return rc ? rc : add_entry(r, types[node->kind], buf_text(&text), e);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* A storage that a tensor views. */
typedef struct storage {
    const zip_member *member;
    tensor_type type; /* TENSOR_NONE: complex128 */
    int64_t width;
} storage;

static int64_t width_of(tensor_type t)
{
    return t == TENSOR_NONE ? 16 : tensor_type_run_bytes(t);
}

static int find_storage(reading *r, pickle_ref ref, storage *out, kv_err *e)
{
    const pickle *p = &r->p;
    pickle_ref id = pickle_at(p, ref)->kind == PICKLE_PERSISTENT ? pickle_item(p, ref, 0) : 0;
    const pickle_node *text = pickle_at(p, torch_argument(p, id, 2));
    char name[GLOBAL_MAX];
    int64_t n, bytes;
    own_buf file = {0};
    if (!pickle_is_text(p, torch_argument(p, id, 0), "storage") || text->kind != PICKLE_TEXT ||
        !torch_integer(p, torch_argument(p, id, 4), &n) || n < 0)
        return bad_tensor(r, "has no storage that can be read", e);
    if (!torch_find_storage(&out->type, torch_name_of(p, torch_argument(p, id, 1), name)))
        return bad_tensor(r, "has a storage of unknown elements", e);
    buf_add(&file, "data/");
    buf_put(&file, text->u.text, text->n);
    out->member = NULL;
    TRY(buf_check(&file, e));
    if (!memchr(text->u.text, '/', text->n) && !memchr(text->u.text, 0, text->n))
        TRY(find_member(r, buf_text(&file), file.len, &out->member, e));
    if (!out->member)
        return bad_tensor(r, "has a storage that is not in the archive", e);
    out->width = width_of(out->type);
    if (__builtin_mul_overflow(n, out->width, &bytes) || bytes != out->member->bytes)
        return bad_tensor(r, "has a storage of another size than its member", e);
    return KV_OK;
}

/* Returns true if elements follow each other in the order of rows. */
static bool is_packed(const tensor_info *t, const int64_t *strides)
{
    int64_t step = 1;
    for (int i = t->ndim - 1; i >= 0; step *= t->shape[i--])
        if (t->shape[i] != 1 && strides[i] != step)
            return false;
    return true;
}

/* Adds the checksum of a member whose bytes are all one tensor's. */
static int add_sum(checkpoint *c, const zip_member *m, tensor_info *t, kv_err *e)
{
    TRY(mem_grow(&c->sums, &c->sums_cap, c->nsums + 1, sizeof *c->sums, e));
    npz_sum_init(&c->sums[c->nsums], m->crc, "", 0, m->bytes);
    t->member = ++c->nsums;
    return KV_OK;
}

/* Adds a view whose sizes and strides are right; it begins at element `first` of the storage and
 * ends before element `end`. */
static int add_view(reading *r, const storage *s, tensor_info *t, const int64_t *strides,
                    int64_t first, int64_t end, kv_err *e)
{
    const zip_member *m = s->member;
    const int64_t width = s->width;
    bool packed = is_packed(t, strides), all = first == 0 && end * width == m->bytes;
    t->offset = m->begin;
    if (t->elements == 0)
        return checkpoint_add(r->c, t, e);
    if (m->deflated) {
        t->stored_bytes = m->stored;
        t->first = first * width;
        t->form |= TENSOR_DEFLATED | (packed && all ? 0u : TENSOR_STRIDED);
    } else {
        t->offset += first * width;
        t->stored_bytes = (end - first) * width;
        t->form |= packed ? 0u : TENSOR_STRIDED;
    }
    if (m->deflated || (all && t->bytes == m->bytes))
        TRY(add_sum(r->c, m, t, e));
    t->strides = t->form & TENSOR_STRIDED ? strides : NULL;
    t->form |= r->swapped && width > 1 ? TENSOR_SWAPPED : 0u;
    return checkpoint_add(r->c, t, e);
}

/* What metadata say of a view whose numbers are others than those that are stored; NULL: nothing.
 */
static const char *lazy(const reading *r, pickle_ref args, int at)
{
    const pickle *p = &r->p;
    pickle_ref key, value, metadata = at ? torch_argument(p, args, (uint32_t)at) : 0;
    uint32_t link = pickle_at(p, metadata)->kind == PICKLE_DICT ? pickle_first(p, metadata) : 0;
    while (pickle_next(p, &link, &key) && pickle_next(p, &link, &value)) {
        if (pickle_at(p, value)->kind != PICKLE_BOOL || !pickle_at(p, value)->u.i)
            continue;
        if (pickle_is_text(p, key, "conj"))
            return "conj";
        if (pickle_is_text(p, key, "neg"))
            return "neg";
    }
    return NULL;
}

/* A tensor that has no numbers here; sizes: the place of its argument, 0 when it has none. */
static int add_unread(reading *r, const char *elements, int sizes, pickle_ref args, kv_err *e)
{
    const pickle *p = &r->p;
    int64_t shape[KV_MAX_NDIM];
    tensor_info t = {.name = buf_text(&r->path),
                     .type = TENSOR_NONE,
                     .odd = elements,
                     .shape = shape,
                     .file = r->file};
    TRY(count_name(r, e));
    if (!sizes || !torch_integers(p, torch_argument(p, args, (uint32_t)sizes), shape, &t.ndim))
        t.ndim = 0;
    t.elements = tensor_elements(t.ndim, shape);
    return t.elements < 0 ? bad_tensor(r, "is too large", e) : checkpoint_add(r->c, &t, e);
}

/* The name of elements of PyTorch that no type here has, such as complex32; NULL: they have one, or
 * are none of PyTorch's. */
static int unread_elements(reading *r, bool of_bytes, pickle_ref args, const char **out, kv_err *e)
{
    const pickle *p = &r->p;
    char name[GLOBAL_MAX];
    tensor_type type;
    pickle_ref id = torch_argument(p, args, 0);
    id = pickle_at(p, id)->kind == PICKLE_PERSISTENT ? pickle_item(p, id, 0) : 0;
    torch_name_of(p, of_bytes ? torch_argument(p, args, 6) : torch_argument(p, id, 1), name);
    *out = NULL;
    if (strncmp(name, "torch.", 6) != 0 ||
        (of_bytes ? torch_find_dtype(&type, name) : torch_find_storage(&type, name)))
        return KV_OK;
    const char *last = strrchr(name, '.') + 1;
    *out = arena_text(&r->memory, last, strlen(last), e);
    return *out ? KV_OK : KV_E_MEMORY;
}

static int add_tensor(reading *r, const torch_meaning *m, pickle_ref args, kv_err *e)
{
    const pickle *p = &r->p;
    int64_t first, end, shape[KV_MAX_NDIM] = {0}, strides[KV_MAX_NDIM] = {0};
    int nstrides;
    storage s;
    const bool of_bytes = m->at == 7; /* elements of a dtype in a storage of bytes */
    const char *unread;
    tensor_info t = {.name = buf_text(&r->path), .shape = shape, .file = r->file};
    TRY(unread_elements(r, of_bytes, args, &unread, e));
    if (unread)
        return add_unread(r, unread, 2, args, e);
    TRY(count_name(r, e));
    if (!torch_integer(p, torch_argument(p, args, 1), &first) || first < 0 ||
        !torch_integers(p, torch_argument(p, args, 2), shape, &t.ndim) ||
        !torch_integers(p, torch_argument(p, args, 3), strides, &nstrides) || nstrides != t.ndim)
        return bad_tensor(r, "has sizes or strides that are not read", e);
    TRY(find_storage(r, torch_argument(p, args, 0), &s, e));
    if (of_bytes) {
        char name[GLOBAL_MAX];
        if (!torch_find_dtype(&s.type, torch_name_of(p, torch_argument(p, args, 6), name)))
            return bad_tensor(r, "has a dtype that is not read", e);
    }
    s.width = width_of(s.type);
    t.type = s.type;
    t.odd = t.type == TENSOR_NONE ? "C128" : lazy(r, args, m->at);
    t.type = t.odd ? TENSOR_NONE : t.type;
    t.elements = tensor_elements(t.ndim, shape);
    if (t.elements < 0 || __builtin_mul_overflow(t.elements, s.width, &t.bytes))
        return bad_tensor(r, "is too large: more than 2^63 bytes", e);
    end = first;
    bool over = false;
    for (int i = 0; i < t.ndim && t.elements > 0; i++) {
        int64_t span;
        over |= __builtin_mul_overflow(shape[i] - 1, strides[i], &span) ||
                __builtin_add_overflow(end, span, &end);
    }
    if (t.elements > 0 && (over || end >= s.member->bytes / s.width))
        return bad_tensor(r, "goes beyond its storage", e);
    if (t.bytes > VIEW_BYTES_FREE && t.bytes / 64 > s.member->bytes)
        return bad_tensor(r, "has more than 64 times the bytes of its storage", e);
    bool packed = is_packed(&t, strides);
    if (t.type == TENSOR_F4 && (!packed || t.ndim == 0))
        return bad_tensor(r, "is a view of F4, which is not read", e);
    if (t.odd && !packed) /* it is only listed */
        memset(strides, 0, sizeof strides);
    TRY(add_view(r, &s, &t, strides, first, t.elements ? end + 1 : first, e));
    if (t.type == TENSOR_F4) { /* two elements a byte */
        tensor_info *kept = &r->c->tensors[r->c->ntensors - 1];
        ((int64_t *)kept->shape)[t.ndim - 1] *= 2;
        kept->elements *= 2;
    }
    return KV_OK;
}

/* ---- NumPy ----------------------------------------------------------------------------------- */

/* The bytes that a value is: protocol 2 has a call that encodes a text in Latin-1. NULL: none. */
static const char *bytes_of(reading *r, pickle_ref ref, int64_t *n, kv_err *e)
{
    const pickle *p = &r->p;
    const pickle_node *node = pickle_at(p, ref);
    if (node->kind == PICKLE_BYTES || node->kind == PICKLE_TEXT) {
        *n = node->n;
        if (node->kind == PICKLE_BYTES)
            return node->u.text;
    } else if (node->kind != PICKLE_CALL || torch_meaning_of(&r->p, ref)->is != BYTES ||
               (node = pickle_at(p, torch_argument(p, p->calls[node->call].args, 0)))->kind !=
                   PICKLE_TEXT)
        return NULL;
    char *out = arena_alloc(&r->memory, (size_t)node->n + 1, e);
    *n = 0;
    for (uint32_t i = 0; out && i < node->n; i++) {
        unsigned char x = (unsigned char)node->u.text[i];
        if (x >= 0xC2 && x <= 0xC3 && i + 1 < node->n)
            out[(*n)++] = (char)((x & 3) << 6 | (node->u.text[++i] & 0x3F));
        else
            out[(*n)++] = (char)x;
    }
    return out;
}

/* Reads numpy.dtype("f4"), to which BUILD gave its order of bytes. */
static bool numpy_type(const reading *r, pickle_ref ref, tensor_type *type, bool *swapped)
{
    char name[GLOBAL_MAX];
    const pickle *p = &r->p;
    if (pickle_at(p, ref)->kind != PICKLE_CALL ||
        strcmp(torch_name_of(&r->p, torch_function_of(&r->p, ref), name), "numpy.dtype") != 0)
        return false;
    const pickle_call *call = &p->calls[pickle_at(p, ref)->call];
    const pickle_node *code = pickle_at(p, torch_argument(p, call->args, 0));
    *swapped = pickle_is_text(p, torch_argument(p, call->state, 1), ">");
    return code->kind == PICKLE_TEXT && code->n == 2 &&
           npz_type_find(type, code->u.text[0], code->u.text[1] - '0');
}

/* Keeps the data of an array in a file of its own, since the pickle is not kept. */
static int keep_data(reading *r, const char *data, int64_t n, tensor_info *t, kv_err *e)
{
    checkpoint *c = r->c;
    input in;
    if (r->arrays < 0) {
        TRY(input_new(&in, checkpoint_file(r->c, r->file), e));
        TRY(checkpoint_add_file(c, &in, e));
        r->arrays = (int)c->nfiles - 1;
    }
    t->file = r->arrays;
    t->offset = c->files[r->arrays].size;
    t->stored_bytes = n;
    return input_append(&c->files[r->arrays], data, n, e);
}

/* Adds an array, which BUILD gave (1, sizes, dtype, is Fortran's, bytes). *known: it is one that is
 * read. */
static int add_array(reading *r, pickle_ref ref, bool *known, kv_err *e)
{
    const pickle *p = &r->p;
    pickle_ref state = p->calls[pickle_at(p, ref)->call].state;
    int64_t shape[KV_MAX_NDIM] = {0}, strides[KV_MAX_NDIM], n, step = 1;
    bool swapped;
    const char *data;
    tensor_info t = {.name = buf_text(&r->path), .shape = shape};
    *known = pickle_at(p, state)->kind == PICKLE_TUPLE && pickle_at(p, state)->n > 4 &&
             torch_integers(p, torch_argument(p, state, 1), shape, &t.ndim) &&
             numpy_type(r, torch_argument(p, state, 2), &t.type, &swapped);
    if (!*known)
        return KV_OK;
    TRY(count_name(r, e));
    t.elements = tensor_elements(t.ndim, shape);
    t.bytes = tensor_type_bytes(t.type, t.elements);
    if (t.bytes < 0 || t.bytes > r->nbytes || (r->array_bytes += t.bytes) > SHARED_MOST * r->nbytes)
        return bad_tensor(r, "has more bytes than the pickle", e);
    if (!(data = bytes_of(r, torch_argument(p, state, 4), &n, e)))
        return e->code ? e->code : bad_tensor(r, "has no bytes", e);
    if (t.bytes != n)
        return bad_tensor(r, "has other bytes than its shape asks for", e);
    for (int i = 0; i < t.ndim; step *= shape[i++])
        strides[i] = step;
    bool turned =
        pickle_at(p, torch_argument(p, state, 3))->u.i && t.elements > 0 && !is_packed(&t, strides);
    t.strides = turned ? strides : NULL;
    t.form = (turned ? TENSOR_STRIDED : 0u) |
             (swapped && tensor_type_run_bytes(t.type) > 1 ? TENSOR_SWAPPED : 0u);
    int rc = keep_data(r, data, n, &t, e);
    return rc ? rc : checkpoint_add(r->c, &t, e);
}

/* ---- The tree -------------------------------------------------------------------------------- */

static int visit(reading *r, pickle_ref ref, int depth, kv_err *e);

static void back_to(reading *r, size_t path)
{
    r->path.len = path;
    if (r->path.data)
        r->path.data[path] = '\0';
}

/* Visits a value under a longer path. */
static int visit_below(reading *r, pickle_ref value, size_t path, int depth, kv_err *e)
{
    int rc = buf_check(&r->path, e);
    if (!rc)
        rc = visit(r, value, depth + 1, e);
    back_to(r, path);
    return rc;
}

static int visit_items(reading *r, pickle_ref ref, int depth, int64_t *index, kv_err *e)
{
    const pickle *p = &r->p;
    size_t path = r->path.len;
    pickle_ref item;
    for (uint32_t link = pickle_first(p, ref); pickle_next(p, &link, &item);) {
        buf_printf(&r->path, "%s%lld", path ? "." : "", (long long)(*index)++);
        TRY(visit_below(r, item, path, depth, e));
    }
    return KV_OK;
}

/* A part of the root was visited: is it one that can be read without the others? */
static int look_at_part(reading *r, pickle_ref key, int64_t tensors, int64_t objects, kv_err *e)
{
    const pickle_node *node = pickle_at(&r->p, key);
    bool model = pickle_is_text(&r->p, key, "model") || pickle_is_text(&r->p, key, "state_dict") ||
                 pickle_is_text(&r->p, key, "model_state_dict");
    if (r->c->ntensors == tensors || r->nobjects > objects || node->kind != PICKLE_TEXT ||
        (r->readable && (r->model || !model)))
        return KV_OK;
    r->readable = arena_text(&r->memory, node->u.text, node->n, e);
    r->model = model;
    return r->readable ? KV_OK : KV_E_MEMORY;
}

/* Refuses a text and a number, bool or none as keys of one name, such as "1" and 1. */
static int check_keys(const reading *r, pickle_ref ref, kv_err *e)
{
    const pickle *p = &r->p;
    own_arena texts = {0};
    own_mem named *names = NULL;
    int64_t n = 0, cap = 0, ntexts = 0;
    pickle_ref key, value;
    for (uint32_t link = pickle_first(p, ref);
         pickle_next(p, &link, &key) && pickle_next(p, &link, &value); n++)
        ntexts += pickle_at(p, key)->kind == PICKLE_TEXT;
    if (ntexts == 0 || ntexts == n) /* as most dicts */
        return KV_OK;
    n = 0;
    for (uint32_t link = pickle_first(p, ref);
         pickle_next(p, &link, &key) && pickle_next(p, &link, &value);) {
        own_buf text = {0};
        if (!torch_key_text(p, key, &text))
            continue;
        TRY(buf_check(&text, e));
        TRY(mem_grow(&names, &cap, n + 1, sizeof *names, e));
        if (!(names[n++].name = arena_text(&texts, buf_text(&text), text.len, e)))
            return KV_E_MEMORY;
    }
    const char *twice = named_sort(names, n);
    return !twice ? KV_OK
                  : file_bad(e, KV_E_VALUE, checkpoint_file(r->c, r->file),
                             "the keys \"%.*s\" and %.*s%s%.*s give one name", SHOWN(twice),
                             SHOWN(twice), r->path.len ? " of " : "", SHOWN(buf_text(&r->path)));
}

static int visit_pairs(reading *r, pickle_ref ref, int depth, kv_err *e)
{
    const pickle *p = &r->p;
    size_t path = r->path.len;
    pickle_ref key, value;
    uint32_t link = pickle_first(p, ref);
    TRY(check_keys(r, ref, e));
    while (pickle_next(p, &link, &key) && pickle_next(p, &link, &value)) {
        int64_t tensors = r->c->ntensors, objects = r->nobjects;
        buf_add(&r->path, path ? "." : "");
        if (!torch_key_text(&r->p, key, &r->path)) {
            back_to(r, path);
            r->nobjects++;
            if (!r->nameless &&
                !(r->nameless = arena_text(&r->memory, buf_text(&r->path), path, e)))
                return KV_E_MEMORY;
            continue;
        }
        TRY(visit_below(r, value, path, depth, e));
        TRY(depth == 0 ? look_at_part(r, key, tensors, objects, e) : KV_OK);
    }
    return KV_OK;
}

/* The number of a call's arguments; each may be a None. */
static uint32_t count_arguments(const pickle *p, pickle_ref args)
{
    const pickle_node *node = pickle_at(p, args);
    return node->kind == PICKLE_TUPLE ? node->n : 0;
}

static int visit_call(reading *r, pickle_ref ref, int depth, kv_err *e)
{
    const pickle *p = &r->p;
    const pickle_call *call = &p->calls[pickle_at(p, ref)->call];
    pickle_ref function = torch_function_of(p, ref), args = call->args, dicts[2];
    char name[GLOBAL_MAX];
    const torch_meaning *m = torch_meaning_of_name(torch_name_of(p, function, name));
    int64_t index = 0;
    bool known;
    for (; m->is == OF_TYPE; depth++) { /* a call of a tensor's class leads to another one */
        pickle_ref inner = torch_argument(p, args, 0), type = torch_argument(p, args, 1);
        if (count_arguments(p, args) < 3)
            return wrong(r, "a tensor without its arguments", e);
        args = torch_argument(p, args, 2);
        torch_name_of(p, type, name);
        if (depth >= DEPTH_MAX ||
            (strcmp(name, "torch.Tensor") != 0 && strcmp(name, "torch._tensor.Tensor") != 0 &&
             strcmp(name, "torch.nn.parameter.Parameter") != 0))
            return add_object(r, type, e);
        function = inner;
        m = torch_meaning_of_name(torch_name_of(p, function, name));
    }
    const pickle_ref first = torch_argument(p, args, 0);
    const pickle_kind kind = (pickle_kind)pickle_at(p, first)->kind;
    switch (args != call->args && m->is < TENSOR ? OBJECT : m->is) {
    case DICT:
    case ATTRIBUTES:
        /* a dict of a list of pairs, as Python 2 made some, is not read */
        if (m->is == DICT && kind != PICKLE_DICT && kind != PICKLE_GLOBAL && kind != PICKLE_NONE)
            break;
        for (int i = 0, n = torch_dicts_of(p, ref, dicts); i < n; i++)
            TRY(visit_pairs(r, dicts[i], depth, e));
        return KV_OK;
    case LIST:
        if (kind == PICKLE_TUPLE || kind == PICKLE_LIST)
            TRY(visit_items(r, first, depth, &index, e));
        return visit_items(r, ref, depth, &index, e);
    case VALUE:
    case BYTES:
        return add_entry(r, m->is == BYTES ? "bytes" : strrchr(m->name, '.') + 1, "", e);
    case SCALAR:
        return add_entry(r, "number", "", e);
    case TENSOR:
        return add_tensor(r, m, args, e);
    case UNREAD:
        return add_unread(r, m->type, m->at, args, e);
    case PARAMETER:
        return count_arguments(p, args) > 0 ? visit(r, first, depth + 1, e)
                                            : wrong(r, "a parameter without a tensor", e);
    case ARRAY:
        TRY(add_array(r, ref, &known, e));
        if (known)
            return KV_OK;
        break;
    case OF_TYPE:
    case OBJECT:
        break;
    }
    return add_object(r, function, e);
}

static int visit(reading *r, pickle_ref ref, int depth, kv_err *e)
{
    pickle_node *node = pickle_at(&r->p, ref);
    char name[GLOBAL_MAX];
    tensor_type dtype;
    int64_t index = 0;
    int rc = KV_OK;
    TRY(stop_check_at(r->visits, e));
    if (depth > DEPTH_MAX)
        return wrong(r, "values in more than 1000 others", e);
    if (node->busy)
        return wrong(r, "a container that holds itself", e);
    if (++r->visits > VISITS_MAX)
        return wrong(r, "more than 20 million values", e);
    node->busy = 1;
    switch ((pickle_kind)node->kind) {
    case PICKLE_DICT:
        rc = visit_pairs(r, ref, depth, e);
        break;
    case PICKLE_LIST:
    case PICKLE_TUPLE:
        rc = visit_items(r, ref, depth, &index, e);
        break;
    case PICKLE_CALL:
        rc = visit_call(r, ref, depth, e);
        rc = rc == LEFT_OUT ? KV_OK : rc;
        break;
    case PICKLE_GLOBAL:
        torch_name_of(&r->p, ref, name);
        rc = torch_find_dtype(&dtype, name) || strcmp(name, "torch.strided") == 0
                 ? add_entry(r, "text", name, e)
                 : add_object(r, ref, e);
        break;
    case PICKLE_NONE:
    case PICKLE_BOOL:
    case PICKLE_INT:
    case PICKLE_LONG:
    case PICKLE_FLOAT:
    case PICKLE_TEXT:
    case PICKLE_BYTES:
    case PICKLE_SET:
    case PICKLE_PERSISTENT:
        rc = add_plain(r, node, e);
        break;
    }
    node->busy = 0;
    return rc;
}

/* ---- A part ---------------------------------------------------------------------------------- */

/* The value at a path of keys; keys may have dots in them. false: there is none, or an error. */
static bool find_part(reading *r, pickle_ref at, const char *path, int depth, pickle_ref *out,
                      kv_err *e)
{
    const pickle *p = &r->p;
    pickle_ref dicts[2];
    bool found = false;
    int n = depth > DEPTH_MAX ? 0 : torch_dicts_of(&r->p, at, dicts);
    if (pickle_at(p, at)->kind == PICKLE_LIST || pickle_at(p, at)->kind == PICKLE_TUPLE) {
        char *end;
        unsigned long wanted = strtoul(path, &end, 10);
        if (wanted >= pickle_at(p, at)->n || end == path || (*end && *end != '.'))
            return false;
        *out = pickle_item(p, at, (uint32_t)wanted);
        return !*end || find_part(r, *out, end + 1, depth + 1, out, e);
    }
    for (int i = 0; i < n && !found; i++) {
        pickle_ref key, value;
        uint32_t link = pickle_first(p, dicts[i]);
        if (check_keys(r, dicts[i], e))
            return false;
        while (!found && !e->code && pickle_next(p, &link, &key) && pickle_next(p, &link, &value)) {
            own_buf text = {0};
            if (!torch_key_text(p, key, &text) || text.failed ||
                strncmp(path, buf_text(&text), text.len) != 0)
                continue;
            if ((found = path[text.len] == '\0'))
                *out = value;
            else if (path[text.len] == '.')
                found = find_part(r, value, path + text.len + 1, depth + 1, out, e);
        }
    }
    return found;
}

/* Says that there is no such part, with the names of those there are. */
static int no_part(reading *r, pickle_ref root, kv_err *e)
{
    const pickle *p = &r->p;
    pickle_ref dicts[2];
    own_buf names = {0};
    int n = torch_dicts_of(&r->p, root, dicts);
    for (int i = 0; i < n; i++) {
        pickle_ref key, value;
        uint32_t link = pickle_first(p, dicts[i]);
        while (names.len < 160 && pickle_next(p, &link, &key) && pickle_next(p, &link, &value)) {
            buf_add(&names, names.len ? ", " : "");
            torch_key_text(p, key, &names);
        }
    }
    file_bad(e, KV_E_NAME, checkpoint_file(r->c, r->file), "there is no part \"%.*s\"",
             SHOWN(r->c->part));
    if (names.len && !names.failed) /* without memory the hint is missing */
        kv_err_hint(e, "its parts are %.*s", SHOWN(buf_text(&names)));
    return KV_E_NAME;
}

static int refuse_objects(reading *r, kv_err *e)
{
    const char *path = checkpoint_file(r->c, r->file);
    int64_t more = r->nobjects - OBJECTS_SHOWN;
    if (r->object) {
        file_bad(e, KV_E_FORMAT, path, "it is a %.*s, which only Python can make",
                 SHOWN(r->object));
        return kv_err_hint(e, "torch.save(model.state_dict(), FILE) writes what is read"),
               KV_E_FORMAT;
    }
    if (r->objects.len)
        file_bad(e, KV_E_FORMAT, path, "%s%s, which only Python can make", buf_text(&r->objects),
                 more > 0 ? " and others" : "");
    else
        file_bad(e, KV_E_FORMAT, path, "%.*s has a key that gives no name",
                 SHOWN(*r->nameless ? r->nameless : "its dict"));
    if (r->readable && !r->c->part)
        kv_err_hint(e, "%s#%.*s reads the tensors of %.*s only", path, SHOWN(r->readable),
                    SHOWN(r->readable));
    else
        kv_err_hint(e, "save a dict of tensors in Python: torch.save(model.state_dict(), FILE)");
    return KV_E_FORMAT;
}

/* A tensor that is the whole file, or a part, is named like it. */
static int name_root(reading *r, pickle_ref root, kv_err *e)
{
    pickle_kind kind = (pickle_kind)pickle_at(&r->p, root)->kind;
    pickle_ref dicts[2];
    meaning is = kind == PICKLE_CALL ? torch_meaning_of(&r->p, root)->is : OBJECT;
    if (kind == PICKLE_DICT || kind == PICKLE_LIST || kind == PICKLE_TUPLE || is == DICT ||
        is == ATTRIBUTES || is == LIST || (kind == PICKLE_CALL && is == OBJECT) ||
        kind == PICKLE_GLOBAL || torch_dicts_of(&r->p, root, dicts))
        return KV_OK;
    const char *base = r->c->part ? r->c->part : checkpoint_base(checkpoint_file(r->c, r->file));
    const char *dot = strrchr(base, '.');
    if (r->c->part)
        buf_add(&r->path, dot ? dot + 1 : base);
    else
        buf_put(&r->path, base, dot && dot > base ? (size_t)(dot - base) : strlen(base));
    return buf_check(&r->path, e);
}

static int read_tree(reading *r, kv_err *e)
{
    checkpoint *c = r->c;
    pickle_ref root = r->p.root;
    int64_t tensors = c->ntensors;
    if (c->part && !find_part(r, r->p.root, c->part, 0, &root, e))
        return e->code ? e->code : no_part(r, r->p.root, e);
    TRY(name_root(r, root, e));
    TRY(visit(r, root, 0, e));
    if (r->nobjects)
        return c->ntensors = tensors, refuse_objects(r, e);
    /* as PyTorch's writer of safetensors says it; transformers refuses files without */
    TRY(checkpoint_add_text(c, "format", "pt", e));
    if (r->model && !c->part && (c->nothers || c->ntensors > tensors)) {
        c->model = arena_text(&c->memory, r->readable, strlen(r->readable), e);
        return c->model ? KV_OK : KV_E_MEMORY;
    }
    return KV_OK;
}

/* ---- The archive ----------------------------------------------------------------------------- */

static int find_root(reading *r, const zip_member **pkl, kv_err *e)
{
    const torch_archive *a = r->a;
    *pkl = NULL;
    for (int64_t i = 0; i < a->n; i++) {
        if (i > 0 && strcmp(a->members[i - 1].name, a->members[i].name) == 0)
            return BAD(r, e, "two members have the name \"%.*s\"", SHOWN(a->members[i].name));
        if (strcmp(checkpoint_base(a->members[i].name), "data.pkl") != 0)
            continue;
        if (*pkl)
            return BAD(r, e, "two members are pickles: %.*s and %.*s", SHOWN((*pkl)->name),
                       SHOWN(a->members[i].name));
        *pkl = &a->members[i];
    }
    if ((*pkl)->bytes > PICKLE_BYTES_MAX)
        return BAD(r, e, "a pickle of more than 512 MB is not read");
    buf_put(&r->root, (*pkl)->name, strlen((*pkl)->name) - strlen("data.pkl"));
    return buf_check(&r->root, e);
}

static int read_order(reading *r, kv_err *e)
{
    const zip_member *m;
    char *text = NULL;
    TRY(find_member(r, "byteorder", 9, &m, e));
    if (!m)
        return KV_OK;
    TRY(m->bytes > 16 ? KV_OK : read_member(r, m, &text, e));
    bool little = text && m->bytes == 6 && memcmp(text, "little", 6) == 0;
    r->swapped = text && m->bytes == 3 && memcmp(text, "big", 3) == 0;
    mem_free(text);
    return little || r->swapped ? KV_OK : BAD(r, e, "its order of bytes is neither little nor big");
}

int torch_read(torch_archive *a, checkpoint *c, int file, kv_err *e)
{
    reading r = {.c = c, .file = file, .a = a, .arrays = -1};
    const zip_member *pkl;
    qsort(a->members, (size_t)a->n, sizeof *a->members, by_member);
    int rc = find_root(&r, &pkl, e);
    if (!rc && !(rc = read_order(&r, e)) && !(rc = read_member(&r, pkl, &r.bytes, e)) &&
        !(rc = pickle_read(&r.p, r.bytes, r.nbytes = pkl->bytes, c->files[file].name, e)))
        rc = read_tree(&r, e);
    c->made_names = true;
    pickle_release(&r.p);
    mem_free(r.bytes);
    buf_release(&r.root);
    buf_release(&r.path);
    buf_release(&r.objects);
    arena_release(&r.memory);
    return rc;
}
