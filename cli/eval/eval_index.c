/* Parts of lists and arrays: a[1], a[0:2, ...], assigning them, and changing them in place. */
#include "eval/eval.h"

#include <string.h>

#include "array/slice.h"
#include "base/stop.h"
#include "session/value.h"
#include "syntax/function.h"
#include "syntax/parse_statement.h"

/* ---- Copies that would be views in NumPy ---- */

/* part is one of whole, made at part_node, and whole_node gave whole. */
static void mark(session *s, const ast *part_node, const ast *whole_node, value whole, value part)
{
    array_box *to = part.u.box;
    const array_box *from = whole.u.box;
    if (to == from || to->is_number)
        return;
    if (from->refs > 1) {
        to->part = (array_part){s->unit, part_node, whole_node};
        s->unit->kept = true;
    } else {
        to->part = from->part;
    }
}

void eval_mark_row(session *s, const ast *node, value whole, value row)
{
    if (whole.kind == VALUE_ARRAY && row.kind == VALUE_ARRAY)
        mark(s, node, node, whole, row);
}

void eval_mark_parts(session *s, const ast *node, const value *wholes, int64_t n, value parts)
{
    if (parts.kind == VALUE_ARRAY && n > 0 && wholes[0].kind == VALUE_ARRAY)
        mark(s, node, node->kid[0], wholes[0], parts);
    if (!value_is_sequence(parts) || value_descend(NULL))
        return;
    /* item i of a tuple of zip() is a row of argument i; all others are of the first */
    bool tuple = parts.kind == VALUE_TUPLE, each = tuple && parts.u.list->n == n;
    for (int64_t i = 0; i < parts.u.list->n && n > 0; i++) {
        value item = parts.u.list->items[i];
        int64_t of = each && wholes[i].kind == VALUE_ARRAY ? i : 0;
        if (item.kind != VALUE_ARRAY)
            eval_mark_parts(s, node, wholes, n, item);
        else if (item.u.box->refs == 1 && wholes[of].kind == VALUE_ARRAY)
            mark(s, tuple ? node->kid[of] : node, node->kid[of], wholes[of], item);
    }
}

/* The variable that node is, or a part of, or "". */
static const char *variable_of(const ast *node)
{
    while (node->kind == AST_INDEX)
        node = node->kid[0];
    return node->kind == AST_NAME ? node->u.text : "";
}

/* Returns true if node or one below it is part, or reads the variable. */
static bool reads(const ast *node, const char *name, const ast *part)
{
    bool found = node && (node == part ||
                          (node->kind == AST_NAME && strcmp(node->u.text, name) == 0));
    for (uint32_t i = 0; node && i < node->n && !found; i++)
        found = reads(node->kid[i], name, part);
    return found;
}

/* Returns true if node or one below it gives the variable whole a value with part in it, as
 * `x[0] = c` and `x[0] = f(x[0])` do: who writes so knows that part is a copy. */
static bool puts_back(const ast *node, const char *whole, const char *name, const ast *part)
{
    bool found = node && node->kind == STMT_ASSIGN &&
                 strcmp(variable_of(node->kid[0]), whole) == 0 && reads(node->kid[1], name, part);
    for (uint32_t i = 0; node && i < node->n && !found; i++)
        found = puts_back(node->kid[i], whole, name, part);
    return found;
}

static void tell(session *s, const ast *node, const char *name, array_part *p)
{
    char part[UNIT_TEXT], whole[UNIT_TEXT];
    const char *of = variable_of(p->whole);
    if (*of && puts_back(p->unit->body, of, variable_of(node), p->node)) {
        *p = (array_part){0};
        return;
    }
    unit_text(part, p->unit, p->node);
    unit_text(whole, p->unit, p->whole);
    session_warn_once(s, node, "%s is a copy of %s%s; %s stays as it was", name,
                      p->node == p->whole ? "a row of " : "", part, whole);
    *p = (array_part){0};
}

/* name: the text of what v is the value of. */
static void tell_parts(session *s, const ast *node, const char *name, value v)
{
    if (v.kind == VALUE_ARRAY && v.u.box->part.node)
        tell(s, node, name, &v.u.box->part);
    if (!value_is_sequence(v) || value_descend(NULL))
        return;
    for (int64_t i = 0; i < v.u.list->n; i++) {
        own_buf item = {0};
        if (v.u.list->items[i].kind != VALUE_ARRAY || v.u.list->items[i].u.box->part.node) {
            buf_printf(&item, "%s[%lld]", name, (long long)i);
            tell_parts(s, node, buf_text(&item), v.u.list->items[i]);
        }
    }
}

void eval_warn_parts(session *s, const ast *node, value v)
{
    char name[UNIT_TEXT];
    if (v.kind != VALUE_ARRAY || v.u.box->part.node)
        tell_parts(s, node, unit_text(name, s->unit, node), v);
}

/* ---- Parts of lists and arrays ---- */

/* An AST_INDEX whose parts are evaluated. */
typedef struct index_place {
    value whole;
    value key; /* of a dict */
    int n;     /* of the ranges, of anything else */
    array_range ranges[KV_MAX_NDIM];
} index_place;

/* ---- The indices of a bracket ---- */

/* An optional bound of a slice. */
static int slice_part(session *s, const ast *node, bool *given, int64_t *out, kv_err *e)
{
    *given = node != NULL;
    return node ? eval_int(s, node, "an index", out, e) : KV_OK;
}

/* Of a list bools where all are (a mask), else int64, or float64 with floats among them. */
int eval_ids(value v, kv_array **out, kv_err *e)
{
    const unsigned whole = VALUE_BIT(VALUE_BOOL) | VALUE_BIT(VALUE_INT) | VALUE_BIT(VALUE_LIST);
    unsigned kinds = value_kinds(v, ~whole);
    bool mask = value_is_sequence(v) && kinds == VALUE_BIT(VALUE_BOOL);
    if (v.kind == VALUE_ARRAY)
        return value_to_array(out, v, e);
    return value_numbers_array(out, v, kinds & ~whole ? KV_FLOAT64 : mask ? KV_BOOL : KV_INT64,
                               (kv_ctx){KV_CPU, 0}, e);
}

/* An index of an array: a number, none, a list or an array. */
static int array_index(array_range *r, value v, kv_err *e)
{
    if (v.kind == VALUE_NONE) {
        r->is_new = true;
        return KV_OK;
    }
    kv_array *a = v.kind == VALUE_ARRAY ? v.u.box->array : NULL;
    if (v.kind == VALUE_BOOL ||
        (a && kv_array_ndim(a) == 0 && kv_array_dtype(a) == KV_BOOL)) {
        kv_err_set(e, KV_E_DTYPE, "a single bool is not an index");
        return kv_err_hint(e, "a mask has a bool for each element: x[x > 0]");
    }
    if (value_is_sequence(v) || (a && kv_array_ndim(a) > 0))
        return eval_ids(v, &r->ids, e);
    r->is_index = true;
    int rc = function_int(v, "an index", &r->index, e);
    if (rc && v.kind == VALUE_TEXT)
        kv_err_hint(e, "load(\"x.csv\", cols=[\"price\"]) reads columns of a table by name");
    return rc;
}

static int slice_range(session *s, const ast *part, array_range *r, kv_err *e)
{
    bool step;
    TRY(slice_part(s, part->kid[0], &r->has_from, &r->from, e));
    TRY(slice_part(s, part->kid[1], &r->has_to, &r->to, e));
    TRY(slice_part(s, part->kid[2], &step, &r->step, e));
    if (step && r->step == 0)
        return unit_err(s, part, e, KV_E_VALUE, "a slice cannot step by 0");
    return KV_OK;
}

/* The only index of a bracket is a tuple: x[(1, 2)] is x[1, 2]. */
static int tuple_ranges(const value_list *l, array_range *r, int *n, kv_err *e)
{
    if (l->n > KV_MAX_NDIM)
        return kv_err_set(e, KV_E_INDEX, "at most %d indices", KV_MAX_NDIM);
    while (*n < l->n) {
        int i = (*n)++;
        r[i] = (array_range){0};
        TRY(array_index(&r[i], l->items[i], e));
    }
    return KV_OK;
}

/* The ranges of an AST_INDEX. Those of a list are numbers and slices. The caller releases them,
 * also after an error. */
static int eval_ranges(session *s, const ast *node, bool list, array_range *r, int *n, kv_err *e)
{
    bool rest = false;
    *n = 0;
    for (uint32_t i = 1; i < node->n; i++) {
        const ast *part = node->kid[i];
        own_value v = value_none();
        if (*n >= KV_MAX_NDIM)
            return unit_err(s, node, e, KV_E_INDEX, "at most %d indices", KV_MAX_NDIM);
        array_range *at = &r[(*n)++];
        *at = (array_range){0};
        if (part->kind == AST_ELLIPSIS) {
            if (rest || list)
                return unit_err(s, part, e, KV_E_INDEX, "%s",
                                list ? "a list has no `...`" : "an index has one `...`");
            at->is_rest = rest = true;
            continue;
        }
        if (part->kind == AST_SLICE) {
            TRY(slice_range(s, part, at, e));
            continue;
        }
        TRY(eval(s, part, &v, e));
        bool tuple = !list && v.kind == VALUE_TUPLE && node->n == 2;
        at->is_index = list;
        *n = tuple ? 0 : *n;
        int rc = list    ? function_int(v, "an index", &at->index, e)
                 : tuple ? tuple_ranges(v.u.list, r, n, e)
                         : array_index(at, v, e);
        TRY(rc ? unit_at(s, part, e) : KV_OK);
    }
    return KV_OK;
}

/* ---- Reading ---- */

/* Checks that a list or a text has one index, and that it fits. *at: the item that it means, where
 * it is not a slice. */
static int find_item(session *s, const ast *node, bool text, int64_t len, const array_range *r,
                     int n, int64_t *at, kv_err *e)
{
    const char *whole = text ? "text" : "list", *part = text ? "character" : "item";
    *at = r->index < 0 ? r->index + len : r->index;
    if (n != 1)
        return unit_err(s, node, e, KV_E_INDEX, "a %s has one index at a time: a[1][2]", whole);
    if (r->is_index && (*at < 0 || *at >= len))
        return unit_err(s, node, e, KV_E_INDEX, "index %lld is out of range: the %s has %lld %s%s",
                        (long long)r->index, whole, (long long)len, part, len == 1 ? "" : "s");
    return KV_OK;
}

/* The item of a list or the character of a text that an index means, or those of a slice. */
static int index_items(session *s, const ast *node, const index_place *p, value *out, kv_err *e)
{
    value v = p->whole;
    const array_range *r = p->ranges;
    bool text = v.kind == VALUE_TEXT;
    int64_t len = text ? text_length(v) : v.u.list->n, at;
    TRY(find_item(s, node, text, len, r, p->n, &at, e));
    if (r[0].is_index && text)
        return text_part(out, v, at, 1, 1, e);
    if (r[0].is_index) {
        *out = value_ref(v.u.list->items[at]);
        return KV_OK;
    }
    array_span span = array_range_span(&r[0], len);
    if (text)
        return text_part(out, v, span.from, span.step, span.n, e);
    int rc = value_list_new(out, v.kind, span.n, e);
    for (int64_t i = 0; i < span.n && rc == KV_OK && !(rc = stop_check_at(i, e)); i++)
        out->u.list->items[i] = value_ref(v.u.list->items[span.from + i * span.step]);
    return value_finish(out, rc);
}

static void index_release(index_place *p)
{
    value_release(&p->whole);
    value_release(&p->key);
    for (int i = 0; i < p->n; i++)
        kv_array_unref(p->ranges[i].ids);
}
#define own_place OWN(index_release) index_place

/* Evaluates base[…] into p, which begins zeroed. */
static int index_find(session *s, const ast *node, index_place *p, kv_err *e)
{
    TRY(eval(s, node->kid[0], &p->whole, e));
    value_kind kind = p->whole.kind;
    const ast *part = node->n == 2 ? node->kid[1] : NULL;
    int rc = KV_OK;
    if (kind == VALUE_DICT && part && part->kind != AST_SLICE && part->kind != AST_ELLIPSIS)
        rc = eval(s, part, &p->key, e);
    else if (kind == VALUE_DICT)
        rc = unit_err(s, node, e, KV_E_INDEX, "a dict has one key at a time: d['a']['b']");
    else if (kind == VALUE_ARRAY || kind == VALUE_TEXT || value_is_sequence(p->whole))
        rc = eval_ranges(s, node, kind != VALUE_ARRAY, p->ranges, &p->n, e);
    else
        rc = unit_err(s, node, e, KV_E_DTYPE, "%s has no parts to index",
                      value_kind_name(p->whole));
    if (rc && strcmp(value_kind_name(p->whole), "a store") == 0)
        kv_err_hint(e, "kv.pull(\"w\") is the value of a key");
    return rc;
}

static int index_read(session *s, const ast *node, const index_place *p, value *out, kv_err *e)
{
    kv_array *part;
    const value *found;
    *out = value_none();
    if (p->whole.kind == VALUE_DICT) {
        if (dict_find(p->whole, p->key, &found, e) ||
            (!found && dict_no_key(p->whole, p->key, e)))
            return unit_at(s, node, e);
        *out = value_ref(*found);
        return KV_OK;
    }
    if (p->whole.kind != VALUE_ARRAY)
        return index_items(s, node, p, out, e);
    bool fails = array_slice(&part, p->whole.u.box->array, p->ranges, p->n, e) ||
                 value_result(out, part, e);
    return fails ? unit_at(s, node, e) : KV_OK;
}

int eval_index(session *s, const ast *node, value *out, kv_err *e)
{
    own_place p = {0};
    bool picks = false; /* a list or a mask chooses elements: NumPy copies them, too */
    TRY(index_find(s, node, &p, e));
    TRY(index_read(s, node, &p, out, e));
    for (int i = 0; i < p.n; i++)
        picks |= p.ranges[i].ids != NULL;
    if (p.whole.kind == VALUE_ARRAY && !picks)
        mark(s, node, node->kid[0], p.whole, *out);
    return KV_OK;
}

/* ---- Assigning ---- */

/* list[i] = v, list[i:j] = list */
static int assign_list(session *s, const ast *target, value list, const array_range *r, int n,
                       value v, kv_err *e)
{
    int64_t i;
    TRY(find_item(s, target, false, list.u.list->n, r, n, &i, e));
    if (r[0].is_index)
        return list_set(list, i, v, e) ? unit_at(s, target, e) : KV_OK;
    array_span span = array_range_span(&r[0], list.u.list->n);
    if (!value_is_sequence(v))
        return unit_err(s, target, e, KV_E_DTYPE, "a slice of a list is given a list, not %s",
                        value_kind_name(v));
    if (span.step != 1)
        return unit_err(s, target, e, KV_E_UNSUPPORTED,
                        "a slice of a list with a step cannot be assigned");
    return list_splice(list, span.from, span.n, v, e) ? unit_at(s, target, e) : KV_OK;
}

/* Errors: dtype (a tuple, a text), usage (a part of an array, which is a copy). */
static int index_may_write(session *s, const ast *node, const index_place *p, kv_err *e)
{
    value whole = p->whole;
    if (whole.kind != VALUE_ARRAY && whole.kind != VALUE_LIST && whole.kind != VALUE_DICT)
        return unit_err(s, node, e, KV_E_DTYPE, "the parts of %s cannot be assigned",
                        value_kind_name(whole));
    if (whole.kind == VALUE_ARRAY && whole.u.box->refs == 1) /* nobody else has it: a copied part */
        return unit_err(s, node, e, KV_E_USAGE,
                        "write all indices of an array in one bracket: a[1, 2]");
    return KV_OK;
}

static int index_write(session *s, const ast *node, const index_place *p, value v, kv_err *e)
{
    TRY(index_may_write(s, node, p, e));
    if (p->whole.kind == VALUE_LIST)
        return assign_list(s, node, p->whole, p->ranges, p->n, v, e);
    if (p->whole.kind == VALUE_DICT)
        return dict_set(p->whole, p->key, v, e) ? unit_at(s, node, e) : KV_OK;
    /* the source comes first: where it has the array's elements, these are written elsewhere;
     * numbers go straight into the array's dtype, so that large integers stay exact */
    kv_array *a = p->whole.u.box->array;
    own_array *src = NULL;
    if (v.kind == VALUE_ARRAY
            ? value_to_array(&src, v, e)
            : value_numbers_array(&src, v, kv_array_dtype(a), kv_array_ctx(a), e))
        return unit_at(s, node, e);
    eval_warn_parts(s, node->kid[0], p->whole);
    bool fails = value_own(p->whole, e) ||
                 array_assign_slice(p->whole.u.box->array, p->ranges, p->n, src, e);
    return fails ? unit_at(s, node, e) : KV_OK;
}

int eval_assign_index(session *s, const ast *target, value v, kv_err *e)
{
    own_place p = {0};
    TRY(index_find(s, target, &p, e));
    return index_write(s, target, &p, v, e);
}

/* ---- target op= value ---- */

/* target op= value, as in Python: an array and a list change themselves, so that all who refer to
 * them see it; of numbers, texts and tuples the target gets another one.
 *
 * An array is given the elements of the result, and those it had are let go: where a store or a
 * copy shares them they stay as they were, and what fails half-way has changed nothing.
 */

/* The order in which dtypes hold one another's elements without another kind of number. */
static int kind_of(kv_dtype dtype)
{
    return kv_dtype_is_float(dtype) ? 3 : dtype == KV_BOOL ? 0 : dtype == KV_UINT8 ? 1 : 2;
}

/* Hints at a new variable for a result that an array cannot hold; a part of an array gets no
 * hint. */
static int hint_new(const session *s, const ast *node, kv_err *e)
{
    char text[UNIT_TEXT];
    const ast *target = node->kid[0];
    unit_text(text, s->unit, target);
    if (target->kind == AST_INDEX)
        return e->code;
    return kv_err_hint(e, "a new array can have it: %s = %s %s …", text, text,
                       ast_op_text(node->op));
}

/* Changes *a to the storage and dtype of another array. */
static int convert(value a, kv_array *like, kv_err *e)
{
    kv_array *as;
    bool sparse = kv_array_storage(like) == KV_ROW_SPARSE;
    kv_dtype dtype = kv_array_dtype(like);
    if (kv_array_storage(a.u.box->array) != kv_array_storage(like)) {
        TRY((sparse ? kv_array_to_sparse : kv_array_to_dense)(&as, a.u.box->array, e));
        value_replace(a, as);
    }
    kv_array *from = a.u.box->array;
    if (kv_array_dtype(from) == dtype)
        return KV_OK;
    TRY(kv_array_dup(&as, from, dtype, kv_array_ctx(from), e));
    value_replace(a, as);
    return KV_OK;
}

/* Brings the result of op= into the form of the array that takes it, as NumPy does: its shape must
 * be that one's, and its dtype no wider kind. */
static int fit(const session *s, const ast *node, kv_array *to, value made, kv_err *e)
{
    char had[160], has[160];
    kv_array *from = made.u.box->array;
    kv_dtype dtype = kv_array_dtype(to);
    const char *op = ast_op_text(node->op);
    if (!kv_array_same_shape(to, from)) {
        unit_err(s, node, e, KV_E_SHAPE, "`%s=` keeps the shape, which is %s; the result has %s",
                 op, kv_shape_text(had, sizeof had, kv_array_ndim(to), kv_array_shape(to)),
                 kv_shape_text(has, sizeof has, kv_array_ndim(from), kv_array_shape(from)));
        return hint_new(s, node, e);
    }
    if (kind_of(kv_array_dtype(from)) > kind_of(dtype)) {
        unit_err(s, node, e, KV_E_DTYPE, "`%s=` keeps the dtype, which is %s; the result is %s", op,
                 kv_dtype_name(dtype), kv_dtype_name(kv_array_dtype(from)));
        return hint_new(s, node, e);
    }
    return convert(made, to, e) ? unit_at(s, node, e) : KV_OK;
}

static int extend_list(session *s, const ast *node, value list, kv_err *e)
{
    own_value more = value_none();
    TRY(eval(s, node->kid[1], &more, e));
    if (value_is_sequence(more))
        return list_splice(list, list.u.list->n, 0, more, e) ? unit_at(s, node, e) : KV_OK;
    unit_err(s, node, e, KV_E_DTYPE, "`+=` adds a list to a list, not %s", value_kind_name(more));
    kv_err_hint(e, more.kind == VALUE_ARRAY
                       ? "l += [a] adds the array as one item; array(l) + a calculates"
                       : "l += [x] or l.append(x) adds one item");
    return unit_at(s, node, e);
}

/* name += text, for a name that alone refers to its text: that grows in place, or a loop that puts
 * a long text together would copy it in each round. */
static int extend_text(session *s, const ast *node, value *old, kv_err *e)
{
    own_value more = value_none();
    value made;
    bool done = false;
    const char *name = node->kid[0]->u.text;
    TRY(eval(s, node->kid[1], &more, e));
    variable *now = session_variable(s, name, false);
    bool outer = s->locals && now == session_variable(s, name, true); /* of a def */
    bool same = now && now->v.kind == VALUE_TEXT && now->v.u.text == old->u.text;
    int rc = KV_OK;
    if (same && !outer && !now->follow && more.kind == VALUE_TEXT) {
        value_release(old);
        done = text_append(&now->v, more, &rc, e);
        *old = value_ref(now->v);
    }
    if (!done && !(rc = eval_operate(s, node, (value[]){*old, more}, &made, e)))
        rc = session_set(s, name, made, e);
    return rc ? unit_at(s, node, e) : KV_OK;
}

/* place: where the target is an index. */
static int put_back(session *s, const ast *node, const index_place *place, value old, value made,
                    kv_err *e)
{
    const ast *target = node->kid[0];
    if (!place)
        return session_set(s, target->u.text, value_ref(made), e);
    bool part = old.kind == VALUE_ARRAY && old.u.box->refs == 1;
    TRY(part ? fit(s, node, old.u.box->array, made, e) : KV_OK);
    return index_write(s, target, place, made, e);
}

static int update(session *s, const ast *node, const index_place *place, value old, kv_err *e)
{
    own_value made = value_none();
    /* the caller refers to the object as well, so it was not copied out of another one */
    bool list = old.kind == VALUE_LIST && old.u.list->refs > 1;
    bool array = old.kind == VALUE_ARRAY && old.u.box->refs > 1 && !old.u.box->is_number;
    if (list && node->op == OP_ADD)
        return extend_list(s, node, old, e);
    TRY(eval_combine(s, node, old, &made, e));
    if (!array) {
        int rc = list && made.kind == VALUE_LIST
                     ? list_splice(old, 0, old.u.list->n, made, e)
                     : put_back(s, node, place, old, made, e);
        return rc ? unit_at(s, node, e) : KV_OK;
    }
    TRY(fit(s, node, old.u.box->array, made, e) ? unit_at(s, node, e) : KV_OK);
    eval_warn_parts(s, node->kid[0], old);
    value_replace(old, kv_array_ref(made.u.box->array));
    return KV_OK;
}

static int update_index(session *s, const ast *node, kv_err *e)
{
    const ast *target = node->kid[0];
    own_place place = {0};
    own_value old = value_none();
    TRY(index_find(s, target, &place, e));
    TRY(index_may_write(s, target, &place, e));
    TRY(index_read(s, target, &place, &old, e));
    return update(s, node, &place, old, e);
}

int eval_update(session *s, const ast *node, kv_err *e)
{
    own_value old = value_none();
    if (node->kid[0]->kind == AST_INDEX)
        return update_index(s, node, e);
    TRY(eval(s, node->kid[0], &old, e));
    return old.kind == VALUE_TEXT && node->op == OP_ADD ? extend_text(s, node, &old, e)
                                                        : update(s, node, NULL, old, e);
}
