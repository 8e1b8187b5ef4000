/* Dynamic values, of variables and expressions.
 *
 * A value is 16 bytes; texts, lists and arrays are counted boxes, so copying a value is cheap.
 * Lists and arrays are objects, as in Python: all who refer to one see it change (containers.h).
 * Where an array is needed, a list or tuple of numbers only ("numbers") becomes a float32 one.
 */
#pragma once

#include <math.h>

#include "array/device.h"
#include "base/buf.h"
#include "io/print.h"
#include "kv_array.h"
#include "vm/host.h"

typedef enum value_kind {
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_FLOAT,
    VALUE_TEXT,
    VALUE_CTX,
    VALUE_ARRAY,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_DICT,
    VALUE_OBJECT, /* an optimizer, a schedule or a class: session/containers.h */
    VALUE_BARE    /* of a function that runs: an array without its object: syntax/function.h */
} value_kind;

typedef struct value_list value_list;
typedef struct array_box array_box;

typedef struct value {
    value_kind kind;
    union {
        int64_t integer; /* VALUE_BOOL: 0 or 1 */
        double number;
        const char *text; /* counted: see below */
        kv_ctx ctx;
        array_box *box;
        value_list *list; /* VALUE_LIST, VALUE_TUPLE, VALUE_DICT, VALUE_OBJECT */
        kv_array *bare;
    } u;
} value;

struct value_list {
    int64_t refs;
    int64_t n, cap;
    value *items;      /* in own, until the list outgrew it */
    int64_t front;     /* values that there is room for before items, in the same block */
    struct map *index; /* of a dict; else NULL */
    int64_t gaps;      /* of a dict: pairs that were taken out: see dict_settle */
    uint64_t looked_at; /* by which search for a cycle, see value_check_cycle */
    value own[];
};

/* Where an array was copied out of another: a node of a unit, and the one that gave the other. */
typedef struct array_part {
    struct unit *unit;
    const struct ast *node, *whole; /* one: a row of it */
} array_part;

/* An array as an object. A store may hold the same elements, which must not change under it:
 * value_own comes before every write. */
struct array_box {
    int64_t refs;
    kv_array *array;
    bool is_number; /* a result of shape (), as NumPy's scalars: `+=` makes another one */
    array_part part; /* NumPy would give a view: see eval/eval.h; or none */
};

static inline value value_none(void)
{
    return (value){.kind = VALUE_NONE};
}

static inline value value_bool(bool x)
{
    return (value){.kind = VALUE_BOOL, .u.integer = x};
}

static inline value value_int(int64_t x)
{
    return (value){.kind = VALUE_INT, .u.integer = x};
}

static inline value value_float(double x)
{
    return (value){.kind = VALUE_FLOAT, .u.number = x};
}

static inline value value_ctx(kv_ctx ctx)
{
    return (value){.kind = VALUE_CTX, .u.ctx = ctx};
}

/* A new object; takes the caller's reference, also on failure. Error: memory. */
int value_array(value *out, kv_array *a, kv_err *e);
/* The same for what an expression calculated or took out of an array. */
int value_result(value *out, kv_array *a, kv_err *e);
/* The same for a short while: box is the caller's and holds no reference. */
value value_borrowed(array_box *box, kv_array *a);
/* Comes before a write into an array: its elements become the object's own, also where a store or a
 * copy shares them. Errors: memory, those of kv_array_dup. */
int value_own(value v, kv_err *e);
/* Puts other elements into an array; takes them. All who refer to it see that. */
void value_replace(value v, kv_array *elements);
int value_text_new(value *out, const char *text, size_t n, kv_err *e);
int value_text(value *out, const char *text, kv_err *e); /* up to its NUL */
/* The end of a function that has put the text together: releases it, and makes the value unless
 * rc is an error. Returns rc, or KV_E_MEMORY. */
int value_text_take(value *out, buf *text, int rc, kv_err *e);
/* A list or tuple of n values, all none; fill items before it is shared. */
int value_list_new(value *out, value_kind kind, int64_t n, kv_err *e);
/* Room for n items in all. It at least doubles, so that appending one by one is linear. */
int value_list_reserve(value_list *list, int64_t n, kv_err *e);
/* Room for n items before the first one, likewise. */
int value_list_reserve_front(value_list *list, int64_t n, kv_err *e);
/* The end of what fills a new list: releases *out when rc is an error. Returns rc. */
int value_finish(value *out, int rc);

value value_ref(value v);     /* another reference to the same contents */
void value_drop(value v); /* gives it back */

/* Gives it back and leaves none. Those before texts hold nothing, and are the most. */
static inline void value_release(value *v)
{
    if (v->kind >= VALUE_TEXT)
        value_drop(*v);
    *v = (value){.kind = VALUE_NONE};
}
#define own_value OWN(value_release) value

/* The last step of what made a value: *out gets it, and *made holds none. Returns KV_OK. */
static inline int value_give(value *out, value *made)
{
    *out = *made;
    *made = value_none();
    return KV_OK;
}

/* "an array", "a list", "an integer": for messages. */
const char *value_kind_name(value v);

/* A bool, an integer or a float. */
static inline bool value_is_number(value v)
{
    return v.kind == VALUE_BOOL || v.kind == VALUE_INT || v.kind == VALUE_FLOAT;
}

/* What host.h works with. */
static inline bool value_is_scalar(value v)
{
    return v.kind == VALUE_NONE || v.kind == VALUE_TEXT || value_is_number(v);
}

/* A list or a tuple. */
static inline bool value_is_sequence(value v)
{
    return v.kind == VALUE_LIST || v.kind == VALUE_TUPLE;
}

/* u.list is its box. */
static inline bool value_has_items(value v)
{
    return value_is_sequence(v) || v.kind == VALUE_DICT || v.kind == VALUE_OBJECT;
}

/* The kinds of the items of nested lists and tuples, or that of another value, a bit for each. A
 * sequence that is empty, or deeper than the axes of an array, has the bit of VALUE_LIST. A look at
 * a long list ends where it has met one of `until`. */
unsigned value_kinds(value v, unsigned until);
#define VALUE_BIT(kind) (1u << (kind))
#define VALUE_NUMBERS   (VALUE_BIT(VALUE_BOOL) | VALUE_BIT(VALUE_INT) | VALUE_BIT(VALUE_FLOAT))

/* A list or tuple that holds only numbers and such sequences, and is not empty: one array, where an
 * array is needed. */
bool value_is_numbers(value v);
/* Any other list or tuple: where arrays are needed, its items are these. */
bool value_is_several(value v);
/* The items of a list or tuple, n of them; else the value itself, which is one. */
const value *value_items(const value *v, int64_t *n);
host value_host(value v); /* of a scalar; a text stays borrowed */
int value_from_host(value *out, host h, kv_err *e);

static inline double value_number(value v)
{
    return v.kind == VALUE_FLOAT ? v.u.number : (double)v.u.integer;
}

/* Fails when v is the list (or dict) or holds it, so that it cannot become an item of it. Error:
 * value. */
int value_check_cycle(value v, const value_list *list, kv_err *e);

/* To be called before each recursion into a list, since lists may be nested to any depth. Error:
 * value (the stack allows no deeper one). */
int value_descend(kv_err *e);

/* An array from an array (another reference), a number (shape ()) or nested lists and tuples of
 * numbers and arrays of shape () (float32). Errors: dtype (it is no array: names what it is), shape
 * (lists of unequal length), value (a whole number that float32 does not hold: no dtype was said).
 */
int value_to_array(kv_array **out, value v, kv_err *e);

/* The same for numbers and lists that become an array on ctx. */
int value_float32_array(kv_array **out, value v, kv_ctx ctx, kv_err *e);

/* Error: value, for a whole number that float32 does not hold, where nobody asked for float32. */
int value_check_whole(value number, kv_err *e);

/* The number that v is, or that an array of one element holds: a bool, an integer or a float.
 * Error: dtype. */
int value_item(value *out, value v, kv_err *e);

/* The same as a new array of another dtype and context, but not from an array; [] has shape (0,).
 * Errors: as above, and value (a number that does not fit, see value_put_number). */
int value_numbers_array(kv_array **out, value v, kv_dtype dtype, kv_ctx ctx, kv_err *e);

/* v as an array beside another value: numbers take the dtype of an array there if it holds them. */
int value_array_beside(kv_array **out, value v, value other, kv_err *e);

/* allclose() of two numbers, and what it takes where nothing is given. Infinities of one sign are
 * close, a nan is close to nothing. */
#define CLOSE_RTOL 1e-5
#define CLOSE_ATOL 1e-8
static inline bool value_is_close(double x, double y, double rtol, double atol)
{
    return x == y || (isfinite(y) && fabs(x - y) <= atol + rtol * fabs(y));
}

/* Writes a number at dst as one element of dtype. A float goes into an integer truncated and
 * saturated. Error: value (an integer beyond an integer dtype, a finite number beyond a float). */
int value_put_number(void *dst, kv_dtype dtype, value number, kv_err *e);

/* Appends v as print (repr false) or a bare expression (repr true) shows it; arrays inside lists
 * are summarised, <NDArray 2x3 @gpu(0)>, but those of shape () are shown as their number. So is an
 * array itself: see result.h for its elements. What print shows of a row_sparse array is MXNet's, a
 * bare expression also shows how many rows it holds. */
void value_print(buf *out, value v, bool repr);

/* The same with the elements of the arrays inside lists, as `arrays` shows them; NULL: summaries.
 * Errors: those of print_array. */
int value_print_arrays(buf *out, value v, bool repr, const print_style *arrays, kv_err *e);

/* ---- Texts ---- */

/* Texts as values: counted UTF-8 that never changes, indexed by characters.
 *
 * A text knows how many bytes and characters it has, and where the last character that was asked
 * for begins, so that a loop over a text takes linear time. Bytes that are no UTF-8 count as one
 * character each.
 */

int64_t text_bytes(value text);
int64_t text_length(value text); /* characters */

/* The byte at which character i begins, 0 <= i <= text_length. */
int64_t text_byte_of(value text, int64_t i);

/* n characters: from, from + step, …, all of which are there. */
int text_part(value *out, value text, int64_t from, int64_t step, int64_t n, kv_err *e);

/* Puts `more` behind a text if only *text refers to it: in time of what is added, but
 * for a copy now and then. Returns false, with nothing changed, when others refer to it too. */
bool text_append(value *text, value more, int *code, kv_err *e);
