/* Dynamic values: making, sharing, printing, and turning them into arrays.
 *
 * Lists may be nested to any depth, since a loop can wrap one in another as often as it likes. What
 * releases them therefore needs no stack, and what prints them stops at a depth that nobody reads.
 */
#include "session/value.h"

#include <stddef.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "cpu/cpu.h"
#include "io/scalar.h"

/* Deeper lists are printed as [...]. */
#define PRINT_DEPTH 100

/* Lists nested deeper than this become items of no list: what looks for cycles recurses. */
#define CYCLE_DEPTH_MAX 1000

/* ---- Making ---- */

int value_finish(value *out, int rc)
{
    if (rc)
        value_release(out);
    return rc;
}

int value_array(value *out, kv_array *a, kv_err *e)
{
    array_box *box = mem_alloc(1, sizeof *box, e);
    *out = value_none();
    if (!box) {
        kv_array_unref(a);
        return KV_E_MEMORY;
    }
    *box = (array_box){.refs = 1, .array = a};
    *out = (value){.kind = VALUE_ARRAY, .u.box = box};
    return KV_OK;
}

int value_result(value *out, kv_array *a, kv_err *e)
{
    bool is_number = kv_array_ndim(a) == 0;
    int rc = value_array(out, a, e);
    if (rc == KV_OK)
        out->u.box->is_number = is_number;
    return rc;
}

value value_borrowed(array_box *box, kv_array *a)
{
    *box = (array_box){.refs = 1, .array = a};
    return (value){.kind = VALUE_ARRAY, .u.box = box};
}

void value_replace(value v, kv_array *elements)
{
    kv_array_unref(v.u.box->array);
    v.u.box->array = elements;
}

int value_own(value v, kv_err *e)
{
    kv_array *a = v.u.box->array, *own;
    if (kv_array_refs(a) == 1)
        return KV_OK;
    int rc = kv_array_dup(&own, a, kv_array_dtype(a), kv_array_ctx(a), e);
    if (rc == KV_OK)
        value_replace(v, own);
    return rc;
}

int value_list_new(value *out, value_kind kind, int64_t n, kv_err *e)
{
    value_list *list = NULL;
    int64_t bytes;
    *out = value_none();
    if (__builtin_mul_overflow(n, (int64_t)sizeof(value), &bytes) ||
        __builtin_add_overflow(bytes, (int64_t)sizeof *list, &bytes))
        return kv_err_set(e, KV_E_MEMORY, "no memory for a list of %lld values", (long long)n);
    list = mem_zalloc(bytes, 1, e);
    if (!list)
        return KV_E_MEMORY;
    list->refs = 1;
    list->n = list->cap = n;
    list->items = list->own;
    *out = (value){.kind = kind, .u.list = list};
    return KV_OK;
}

/* Moves the items into a block with room for `front` values before the first one and cap from there
 * on. */
static int move_items(value_list *list, int64_t front, int64_t cap, kv_err *e)
{
    kv_assert(list->n <= list->cap, "a list of %lld values has room for %lld", (long long)list->n,
              (long long)list->cap);
    value *more = mem_alloc(front + cap, sizeof *more, e);
    if (!more)
        return KV_E_MEMORY;
    memcpy(more + front, list->items, (size_t)list->n * sizeof *more);
    if (list->items - list->front != list->own)
        mem_free(list->items - list->front);
    list->items = more + front;
    list->front = front;
    list->cap = cap;
    return KV_OK;
}

int value_list_reserve(value_list *list, int64_t n, kv_err *e)
{
    if (n <= list->cap)
        return KV_OK;
    if (list->front > list->n && n <= list->cap + list->front) { /* a queue: it moves on */
        memmove(list->items - list->front, list->items, (size_t)list->n * sizeof *list->items);
        list->items -= list->front;
        list->cap += list->front;
        list->front = 0;
        return KV_OK;
    }
    /* the room on the other side stays, up to as much as there are items, for lists that grow at
       both ends */
    return move_items(list, list->front < list->n ? list->front : list->n,
                      list->cap > n / 2 ? 2 * list->cap : n, e);
}

int value_list_reserve_front(value_list *list, int64_t n, kv_err *e)
{
    return n <= list->front ? KV_OK
                            : move_items(list, list->n + n,
                                         list->cap < 2 * list->n ? list->cap : 2 * list->n, e);
}

/* ---- Sharing ---- */

/* A text as a value: the value points at the text itself, so that it is used like any other, and
 * what is known of it stands in front. */
typedef struct counted_text {
    int64_t refs;
    int64_t bytes, room;
    int64_t length;      /* in characters; -1: nobody has asked */
    int64_t at, at_byte; /* the character that was found last, and where it begins */
    char text[];
} counted_text;

static counted_text *counted(const char *text)
{
    return (counted_text *)(uintptr_t)(text - offsetof(counted_text, text));
}

value value_ref(value v)
{
    if (v.kind == VALUE_TEXT)
        counted(v.u.text)->refs++;
    else if (v.kind == VALUE_ARRAY)
        v.u.box->refs++;
    else if (value_has_items(v))
        v.u.list->refs++;
    return v;
}

/* A list whose last reference is gone waits in a chain until its items are dropped too; its count,
 * which nobody reads any more, holds the link. */
typedef union dead_link {
    int64_t refs;
    value_list *next;
} dead_link;

static void drop(value v, value_list **dead)
{
    if (v.kind == VALUE_TEXT) {
        if (--counted(v.u.text)->refs == 0)
            mem_free(counted(v.u.text));
    } else if (v.kind == VALUE_ARRAY && --v.u.box->refs == 0) {
        kv_array_unref(v.u.box->array);
        mem_free(v.u.box);
    } else if (value_has_items(v) && --v.u.list->refs == 0) {
        v.u.list->refs = (dead_link){.next = *dead}.refs;
        *dead = v.u.list;
    }
}

void value_drop(value v)
{
    value_list *dead = NULL;
    drop(v, &dead);
    while (dead) {
        value_list *list = dead;
        dead = (dead_link){.refs = list->refs}.next;
        for (int64_t i = 0; i < list->n; i++)
            drop(list->items[i], &dead);
        if (list->items - list->front != list->own)
            mem_free(list->items - list->front);
        if (list->index)
            map_release(list->index);
        mem_free(list->index);
        mem_free(list);
    }
}

/* ---- Kinds of values ---- */

const char *value_kind_name(value v)
{
    static const char *const names[] = {
        [VALUE_NONE] = "none",      [VALUE_BOOL] = "a bool", [VALUE_INT] = "an integer",
        [VALUE_FLOAT] = "a float",  [VALUE_TEXT] = "a text", [VALUE_CTX] = "a context",
        [VALUE_ARRAY] = "an array", [VALUE_LIST] = "a list", [VALUE_TUPLE] = "a tuple",
        [VALUE_DICT] = "a dict"};
    if (v.kind != VALUE_OBJECT)
        return names[v.kind];
    const char *name = v.u.list->items[0].u.text; /* SGD, FactorScheduler or <KVStore local> */
    return *name == '<' && name[1] == 'K' ? "a store"
           : *name == '<'                 ? "a class"
           : strstr(name, "Scheduler")    ? "a schedule"
                                          : "an optimizer";
}

/* depth: of the lists around v. */
static unsigned kinds(value v, int depth, unsigned until)
{
    unsigned all = 0;
    if (!value_is_sequence(v))
        return VALUE_BIT(v.kind);
    if (v.u.list->n == 0 || depth == KV_MAX_NDIM)
        return VALUE_BIT(VALUE_LIST);
    for (int64_t i = 0; i < v.u.list->n && !(all & until); i++) {
        if (i % 1000 == 0 && stop_asked())
            return VALUE_BIT(VALUE_LIST);
        all |= kinds(v.u.list->items[i], depth + 1, until);
    }
    return all;
}

unsigned value_kinds(value v, unsigned until)
{
    return kinds(v, 0, until);
}

bool value_is_numbers(value v)
{
    return value_is_sequence(v) && !(value_kinds(v, ~VALUE_NUMBERS) & ~VALUE_NUMBERS);
}

bool value_is_several(value v)
{
    return value_is_sequence(v) && !value_is_numbers(v);
}

const value *value_items(const value *v, int64_t *n)
{
    bool sequence = value_is_sequence(*v);
    *n = sequence ? v->u.list->n : 1;
    return sequence ? v->u.list->items : v;
}

/* A list that several hold is looked at once. */
static int check_cycle(value v, const value_list *list, uint64_t search, int depth, kv_err *e)
{
    if (!value_has_items(v))
        return KV_OK;
    if (depth > CYCLE_DEPTH_MAX)
        return kv_err_set(e, KV_E_VALUE, "lists are nested deeper than %d", CYCLE_DEPTH_MAX);
    if (v.u.list == list)
        return kv_err_set(e, KV_E_VALUE, "a %s cannot hold itself", list->index ? "dict" : "list");
    if (v.u.list->looked_at == search)
        return KV_OK;
    v.u.list->looked_at = search;
    for (int64_t i = 0; i < v.u.list->n; i++)
        TRY(check_cycle(v.u.list->items[i], list, search, depth + 1, e));
    return KV_OK;
}

int value_check_cycle(value v, const value_list *list, kv_err *e)
{
    static uint64_t searches;
    return check_cycle(v, list, ++searches, 1, e);
}

int value_descend(kv_err *e)
{
    return stack_runs_low()
               ? kv_err_set(e, KV_E_VALUE, "lists are nested deeper than the stack allows")
               : KV_OK;
}

host value_host(value v)
{
    return v.kind == VALUE_BOOL    ? host_bool(v.u.integer)
           : v.kind == VALUE_INT   ? host_int(v.u.integer)
           : v.kind == VALUE_FLOAT ? host_float(v.u.number)
           : v.kind == VALUE_TEXT  ? host_text(v.u.text)
                                   : host_none();
}

int value_from_host(value *out, host h, kv_err *e)
{
    if (h.kind == HOST_TEXT)
        return value_text(out, h.u.text, e);
    *out = h.kind == HOST_BOOL    ? value_bool(h.u.integer)
           : h.kind == HOST_INT   ? value_int(h.u.integer)
           : h.kind == HOST_FLOAT ? value_float(h.u.number)
                                  : value_none();
    return KV_OK;
}

int value_item(value *out, value v, kv_err *e)
{
    const void *data;
    char shape[160];
    if (value_is_number(v)) {
        *out = v;
        return KV_OK;
    }
    if (v.kind != VALUE_ARRAY)
        return kv_err_set(e, KV_E_DTYPE, "%s is not a number", value_kind_name(v));
    kv_array *a = v.u.box->array;
    if (kv_array_size(a) != 1)
        return kv_err_set(e, KV_E_DTYPE, "an array of shape %s is not a number",
                          kv_shape_text(shape, sizeof shape, kv_array_ndim(a), kv_array_shape(a)));
    TRY(kv_array_read(a, &data, e));
    if (kv_dtype_is_float(kv_array_dtype(a))) {
        *out = value_float(0);
        convert_elements(&out->u.number, KV_FLOAT64, data, kv_array_dtype(a), 1);
    } else {
        *out = kv_array_dtype(a) == KV_BOOL ? value_bool(false) : value_int(0);
        convert_elements(&out->u.integer, KV_INT64, data, kv_array_dtype(a), 1);
    }
    return KV_OK;
}

/* ---- Numbers to arrays ---- */

/* Returns true if x, which is finite, becomes an infinity in a float dtype. */
static bool overflows(double x, kv_dtype dtype)
{
    uint8_t bytes[8];
    double back;
    convert_elements(bytes, dtype, &x, KV_FLOAT64, 1);
    convert_elements(&back, KV_FLOAT64, bytes, dtype, 1);
    return x - x == 0 && back - back != 0;
}

int value_put_number(void *dst, kv_dtype dtype, value number, kv_err *e)
{
    bool whole = number.kind != VALUE_FLOAT;
    if (kv_dtype_is_float(dtype) && overflows(value_number(number), dtype)) {
        char text[NUM_TEXT_MAX];
        num_plain(text, value_number(number), NUM_BINARY64);
        return kv_err_set(e, KV_E_VALUE, "%s does not fit into %s", text, kv_dtype_name(dtype));
    }
    if (!kv_dtype_is_float(dtype) && dtype != KV_BOOL && whole) {
        int bits = (int)kv_dtype_bytes(dtype) * 8;
        bool is_signed = dtype != KV_UINT8;
        int64_t high = (int64_t)((UINT64_C(1) << (bits - is_signed)) - 1);
        int64_t low = is_signed ? -high - 1 : 0, x = number.u.integer;
        if (x < low || x > high)
            return kv_err_set(e, KV_E_VALUE, "%lld does not fit into %s: it holds %lld to %lld",
                              (long long)x, kv_dtype_name(dtype), (long long)low, (long long)high);
    }
    if (whole)
        convert_elements(dst, dtype, &number.u.integer, KV_INT64, 1);
    else
        convert_elements(dst, dtype, &number.u.number, KV_FLOAT64, 1);
    return KV_OK;
}

/* The shape of nested lists, taken from the first item of each; the fill checks the others. */
static int nested_shape(value v, int *ndim, int64_t shape[KV_MAX_NDIM], kv_err *e)
{
    *ndim = 0;
    while (value_is_sequence(v)) {
        if (*ndim == KV_MAX_NDIM)
            return kv_err_set(e, KV_E_SHAPE, "an array has at most %d axes; these lists are deeper",
                              KV_MAX_NDIM);
        shape[(*ndim)++] = v.u.list->n;
        if (v.u.list->n == 0)
            break;
        v = v.u.list->items[0];
    }
    return KV_OK;
}

static int no_number(value v, kv_err *e)
{
    if (v.kind == VALUE_ARRAY) {
        kv_err_set(e, KV_E_DTYPE, "a list that holds arrays is not an array");
        return kv_err_hint(e, "stack([a, b]) makes one array of several");
    }
    return kv_err_set(e, KV_E_DTYPE, "an array holds numbers, not %s", value_kind_name(v));
}

int value_check_whole(value number, kv_err *e)
{
    char text[NUM_TEXT_MAX];
    float element = (float)value_number(number);
    if (number.kind != VALUE_INT ||
        scalar_keeps_integer(&element, text, (size_t)num_int(text, number.u.integer)))
        return KV_OK;
    kv_err_set(e, KV_E_VALUE, "float32 does not hold %s", text);
    return kv_err_hint(e, "array(%s, dtype=\"int64\") does; dtype=\"float32\" rounds it", text);
}

/* Writes v, of shape[axis…], at *at and moves it on. asked: somebody wants that very dtype. */
static int fill(char **at, kv_dtype dtype, bool asked, value v, int axis, int ndim,
                const int64_t *shape, kv_err *e)
{
    if (axis == ndim) {
        if (value_is_sequence(v))
            return kv_err_set(e, KV_E_SHAPE,
                              "a list holds both numbers and lists, so it is not "
                              "an array");
        bool item = v.kind == VALUE_ARRAY && kv_array_ndim(v.u.box->array) == 0;
        if (!value_is_number(v) && !item)
            return no_number(v, e);
        TRY(item ? value_item(&v, v, e) : KV_OK);
        TRY(asked ? KV_OK : value_check_whole(v, e));
        TRY(value_put_number(*at, dtype, v, e));
        *at += kv_dtype_bytes(dtype);
        return KV_OK;
    }
    if (v.kind == VALUE_ARRAY)
        return no_number(v, e);
    if (!value_is_sequence(v))
        return kv_err_set(e, KV_E_SHAPE, "a list holds both %s and lists, so it is not an array",
                          value_is_number(v) ? "numbers" : value_kind_name(v));
    if (v.u.list->n != shape[axis])
        return kv_err_set(e, KV_E_SHAPE,
                          "the lists have unequal lengths: %lld and %lld along axis %d",
                          (long long)shape[axis], (long long)v.u.list->n, axis);
    for (int64_t i = 0; i < v.u.list->n; i++) {
        TRY(stop_check_at(i, e));
        TRY(fill(at, dtype, asked, v.u.list->items[i], axis + 1, ndim, shape, e));
    }
    return KV_OK;
}

static int numbers_array(kv_array **out, value v, kv_dtype dtype, bool asked, kv_ctx ctx, kv_err *e)
{
    int ndim;
    int64_t shape[KV_MAX_NDIM];
    own_array *a = NULL;
    void *data;
    if (!value_is_number(v) && !value_is_sequence(v)) {
        kv_err_set(e, KV_E_DTYPE, "%s is not an array or list of numbers", value_kind_name(v));
        if (v.kind == VALUE_DICT)
            kv_err_hint(e, "for k in d { init $k d[k] } makes keys of a store; pull * > FILE "
                           "writes them");
        return KV_E_DTYPE;
    }
    TRY(nested_shape(v, &ndim, shape, e));
    TRY(kv_array_new_raw(&a, dtype, ndim, shape, ctx, e));
    TRY(kv_array_write(a, &data, e));
    TRY(fill(&(char *){data}, dtype, asked, v, 0, ndim, shape, e));
    *out = kv_array_ref(a);
    return KV_OK;
}

int value_numbers_array(kv_array **out, value v, kv_dtype dtype, kv_ctx ctx, kv_err *e)
{
    return numbers_array(out, v, dtype, true, ctx, e);
}

int value_float32_array(kv_array **out, value v, kv_ctx ctx, kv_err *e)
{
    return numbers_array(out, v, KV_FLOAT32, false, ctx, e);
}

int value_to_array(kv_array **out, value v, kv_err *e)
{
    if (v.kind == VALUE_ARRAY) {
        *out = kv_array_ref(v.u.box->array);
        return KV_OK;
    }
    return value_float32_array(out, v, (kv_ctx){KV_CPU, 0}, e);
}

/* ---- Printing ---- */

/* rows: how many a row_sparse array holds is shown, too. */
static void print_summary(buf *out, kv_array *a, bool rows)
{
    char ctx[KV_CTX_TEXT];
    bool sparse = kv_array_storage(a) == KV_ROW_SPARSE;
    buf_add(out, sparse ? "<RowSparseNDArray " : "<NDArray ");
    for (int i = 0; i < kv_array_ndim(a); i++)
        buf_printf(out, "%s%lld", i ? "x" : "", (long long)kv_array_shape(a)[i]);
    if (kv_array_ndim(a) == 0)
        buf_add(out, "()");
    if (sparse && rows) {
        int64_t n = kv_array_nrows(a);
        buf_printf(out, ", %lld row%s", (long long)n, n == 1 ? "" : "s");
    }
    buf_printf(out, " @%s>", kv_ctx_text(ctx, kv_array_ctx(a)));
}

/* The number of an array of shape (), as numbers are shown: a list may hold what mean() gave. False
 * when it cannot be read. */
static bool print_number(buf *out, kv_array *a)
{
    char text[NUM_TEXT_MAX];
    kv_dtype dtype = kv_array_dtype(a);
    const void *data;
    if (kv_array_ndim(a) > 0 || kv_array_read(a, &data, &(kv_err){0}))
        return false;
    if (kv_dtype_is_float(dtype))
        num_repr(text, scalar_float(dtype, data, 0), scalar_width(dtype));
    else
        scalar_text(text, dtype, data, 0);
    buf_add(out, dtype != KV_BOOL ? text : *text == '1' ? "True" : "False");
    return true;
}

/* Where values go as text. arrays: how the arrays inside are shown; NULL: by their summary. */
typedef struct printer {
    buf *out;
    const print_style *arrays;
    kv_err *e;
    int rc; /* of an array whose elements could not be read */
} printer;

static void print_value(printer *p, value v, bool repr, int depth);

static void print_items(printer *p, const value_list *list, const char *ends, int depth)
{
    buf *out = p->out;
    buf_char(out, ends[0]);
    if (depth >= PRINT_DEPTH)
        buf_add(out, "...");
    bool first = true;
    for (int64_t i = 0; i < list->n && depth < PRINT_DEPTH; i++) {
        if (stop_check_at(i, NULL))
            break;
        if (list->index && i % 2 == 0 && list->items[i].kind == VALUE_NONE) {
            i++; /* a gap: see dict_settle */
            continue;
        }
        if (!first)
            buf_add(out, list->index && i % 2 ? ": " : ", ");
        first = false;
        print_value(p, list->items[i], true, depth + 1);
    }
    if (ends[0] == '(' && list->n == 1)
        buf_char(out, ',');
    buf_char(out, ends[1]);
}

/* SGD(learning_rate=0.1), or <KVStore local>: its name, then the name and the value
 * of each part. */
static void print_object(printer *p, value v, int depth)
{
    buf *out = p->out;
    const value_list *list = v.u.list;
    const char *name = list->items[0].u.text;
    buf_add(out, name);
    if (*name == '<')
        return;
    buf_char(out, '(');
    for (int64_t i = 1; i + 1 < list->n; i += 2) {
        const char *part = list->items[i].u.text;
        buf_printf(out, "%s%s%s", i > 1 ? ", " : "", part, *part ? "=" : "");
        print_value(p, list->items[i + 1], true, depth + 1);
    }
    buf_char(out, ')');
}

static void print_value(printer *p, value v, bool repr, int depth)
{
    buf *out = p->out;
    char ctx[KV_CTX_TEXT];
    if (v.kind == VALUE_TEXT && !repr) {
        visible_lines(out, v.u.text, strlen(v.u.text));
    } else if (value_is_scalar(v)) {
        host_print(out, value_host(v), repr);
    } else if (v.kind == VALUE_CTX) {
        buf_add(out, kv_ctx_text(ctx, v.u.ctx));
    } else if (v.kind == VALUE_ARRAY) {
        if (depth > 0 && print_number(out, v.u.box->array))
            return;
        if (depth > 0 && p->arrays && kv_array_storage(v.u.box->array) != KV_ROW_SPARSE)
            p->rc = p->rc ? p->rc : print_array(out, v.u.box->array, p->arrays, p->e);
        else
            print_summary(out, v.u.box->array, repr && depth == 0);
    } else if (v.kind == VALUE_OBJECT) {
        print_object(p, v, depth);
    } else {
        print_items(p, v.u.list,
                    v.kind == VALUE_LIST    ? "[]"
                    : v.kind == VALUE_TUPLE ? "()"
                                            : "{}",
                    depth);
    }
}

void value_print(buf *out, value v, bool repr)
{
    print_value(&(printer){.out = out}, v, repr, 0);
}

int value_print_arrays(buf *out, value v, bool repr, const print_style *arrays, kv_err *e)
{
    printer p = {out, arrays, e, KV_OK};
    print_value(&p, v, repr, 0);
    return p.rc;
}

/* ---- Texts ---- */

int value_text_new(value *out, const char *text, size_t n, kv_err *e)
{
    if (n && memchr(text, '\0', n))
        return kv_err_set(e, KV_E_VALUE, "a text cannot hold a NUL character");
    counted_text *t = mem_alloc((int64_t)(sizeof *t + n + 1), 1, e);
    if (!t)
        return KV_E_MEMORY;
    *t = (counted_text){.refs = 1, .bytes = (int64_t)n, .room = (int64_t)n, .length = -1};
    if (n)
        memcpy(t->text, text, n);
    t->text[n] = '\0';
    *out = (value){.kind = VALUE_TEXT, .u.text = t->text};
    return KV_OK;
}

int value_text(value *out, const char *text, kv_err *e)
{
    return value_text_new(out, text, strlen(text), e);
}

int value_text_take(value *out, buf *text, int rc, kv_err *e)
{
    if (rc == KV_OK && (rc = buf_check(text, e)) == KV_OK)
        rc = value_text_new(out, buf_text(text), text->len, e);
    buf_release(text);
    return rc;
}

bool text_append(value *text, value more, int *code, kv_err *e)
{
    counted_text *t = counted(text->u.text);
    int64_t n = text_bytes(more), bytes = t->bytes + n;
    *code = KV_OK;
    if (t->refs > 1)
        return false;
    if (bytes > t->room) {
        void *block = t;
        int64_t cap = (int64_t)sizeof *t + t->room + 1;
        if ((*code = mem_grow(&block, &cap, (int64_t)sizeof *t + bytes + 1, 1, e)))
            return true;
        t = block;
        t->room = cap - (int64_t)sizeof *t - 1;
        text->u.text = t->text;
    }
    memcpy(t->text + t->bytes, more.u.text, (size_t)n + 1);
    t->bytes = bytes;
    t->length = -1;
    return true;
}

int64_t text_bytes(value text)
{
    return counted(text.u.text)->bytes;
}

int64_t text_length(value text)
{
    counted_text *t = counted(text.u.text);
    if (t->length < 0)
        t->length = utf8_count(t->text, (size_t)t->bytes);
    return t->length;
}

static int64_t character_bytes(const counted_text *t, int64_t at)
{
    bool valid;
    return (int64_t)utf8_length(t->text + at, (size_t)(t->bytes - at), &valid);
}

int64_t text_byte_of(value text, int64_t i)
{
    counted_text *t = counted(text.u.text);
    if (text_length(text) == t->bytes)
        return i;
    if (i < t->at)
        t->at = t->at_byte = 0;
    for (; t->at < i; t->at++)
        t->at_byte += character_bytes(t, t->at_byte);
    return t->at_byte;
}

int text_part(value *out, value text, int64_t from, int64_t step, int64_t n, kv_err *e)
{
    const counted_text *t = counted(text.u.text);
    own_buf part = {0};
    int64_t first = step > 0 ? from : from + (n - 1) * step; /* the leftmost */
    if (n <= 0)
        return value_text(out, "", e);
    if (step == 1) {
        int64_t begin = text_byte_of(text, from);
        return value_text_new(out, t->text + begin, (size_t)(text_byte_of(text, from + n) - begin),
                              e);
    }
    /* backwards, the leftmost character comes last */
    int64_t stride = step > 0 ? step : -step, at = text_byte_of(text, first);
    char *room = buf_room(&part, (size_t)(t->bytes - at));
    char *to = room && step < 0 ? room + (t->bytes - at) : room, *end = to;
    for (int64_t i = 0; room && i < n; i++) {
        int64_t bytes = character_bytes(t, at);
        if (step < 0)
            to -= bytes;
        memcpy(to, t->text + at, (size_t)bytes);
        if (step > 0)
            to += bytes;
        for (int64_t k = 0; k < stride && i + 1 < n; k++)
            at += character_bytes(t, at);
    }
    return room ? value_text_new(out, step > 0 ? end : to, (size_t)(step > 0 ? to - end : end - to),
                                 e)
                : buf_check(&part, e);
}

int value_array_beside(kv_array **out, value v, value other, kv_err *e)
{
    bool beside = v.kind != VALUE_ARRAY && other.kind == VALUE_ARRAY;
    kv_dtype dtype = beside ? kv_array_dtype(other.u.box->array) : KV_FLOAT32;
    const unsigned fraction = VALUE_BIT(VALUE_FLOAT); /* 1.5 is not 1 */
    if (!beside || (!kv_dtype_is_float(dtype) && value_kinds(v, fraction) & fraction))
        return value_to_array(out, v, e);
    return value_numbers_array(out, v, dtype, (kv_ctx){KV_CPU, 0}, e);
}
