/* target op= value, as in Python: an array and a list change themselves, so that all who refer to
 * them see it; of numbers, texts and tuples the target gets another one.
 *
 * An array is given the elements of the result, and those it had are let go: where a store or a
 * copy shares them they stay as they were, and what fails half-way has changed nothing.
 */
#include "eval/eval.h"
#include "eval/eval_copy.h"
#include "eval/eval_index.h"
#include "eval/eval_tree.h"
#include "session/containers.h"
#include "session/text.h"
#include "session/unit.h"

/* Returns true if v is an object that whoever gave it refers to, too: not a part that was copied
 * out of an array or a list. */
static bool is_object(value v)
{
    return (v.kind == VALUE_LIST && v.u.list->refs > 1) ||
           (v.kind == VALUE_ARRAY && v.u.box->refs > 1 && !v.u.box->is_number);
}

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
                       ast_op_text(node->op)),
           e->code;
}

/* Changes *a to the storage and dtype of another array. */
static int convert(value a, kv_array *like, kv_err *e)
{
    kv_array *as = NULL;
    kv_storage storage = kv_array_storage(like);
    kv_dtype dtype = kv_array_dtype(like);
    int code = KV_OK;
    if (kv_array_storage(a.u.box->array) != storage) {
        code = storage == KV_ROW_SPARSE ? kv_array_to_sparse(&as, a.u.box->array, e)
                                        : kv_array_to_dense(&as, a.u.box->array, e);
        if (code)
            return code;
        value_replace(a, as);
    }
    kv_array *from = a.u.box->array;
    if (kv_array_dtype(from) == dtype)
        return KV_OK;
    if ((code = kv_array_dup(&as, from, dtype, kv_array_ctx(from), e)) == KV_OK)
        value_replace(a, as);
    return code;
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

static int change_array(session *s, const ast *node, value old, value made, kv_err *e)
{
    int code = fit(s, node, old.u.box->array, made, e);
    if (code)
        return code;
    eval_tell_parts(s, node->kid[0], old);
    value_replace(old, kv_array_ref(made.u.box->array));
    return KV_OK;
}

static int extend_list(session *s, const ast *node, value list, kv_err *e)
{
    value more;
    int code = eval(s, node->kid[1], &more, e);
    if (code)
        return code;
    if (value_is_sequence(more)) {
        code = list_extend(list, more, e);
    } else {
        code = unit_err(s, node, e, KV_E_DTYPE, "`+=` adds a list to a list, not %s",
                        value_kind_name(more));
        kv_err_hint(e, more.kind == VALUE_ARRAY
                           ? "l += [a] adds the array as one item; array(l) + a calculates"
                           : "l += [x] or l.append(x) adds one item");
    }
    value_release(&more);
    return code ? unit_at(s, node, e) : KV_OK;
}

/* name += text, for a name that alone refers to its text: that grows in place, or a loop that puts
 * a long text together would copy it in each round. */
static int extend_text(session *s, const ast *node, value *old, kv_err *e)
{
    value more, made;
    bool done = false;
    const char *name = node->kid[0]->u.text;
    int code = eval(s, node->kid[1], &more, e);
    if (code)
        return code;
    variable *now = session_variable(s, name, false);
    bool outer = s->locals && now == session_variable(s, name, true); /* of a def */
    bool same = now && now->v.kind == VALUE_TEXT && now->v.u.text == old->u.text;
    if (same && !outer && !now->follow && more.kind == VALUE_TEXT) {
        value_release(old);
        done = text_append(&now->v, more, &code, e);
        *old = value_ref(now->v);
    }
    if (!done) {
        value args[2] = {*old, more};
        if ((code = eval_operate(s, node, args, &made, e)) == KV_OK)
            code = session_set(s, name, made, e);
    }
    value_release(&more);
    return code ? unit_at(s, node, e) : KV_OK;
}

/* place: where the target is an index. */
static int put_back(session *s, const ast *node, const index_place *place, value old, value made,
                    kv_err *e)
{
    const ast *target = node->kid[0];
    if (!place)
        return session_set(s, target->u.text, value_ref(made), e);
    bool part = old.kind == VALUE_ARRAY && old.u.box->refs == 1;
    int code = part ? fit(s, node, old.u.box->array, made, e) : KV_OK;
    return code ? code : index_write(s, target, place, made, e);
}

static int update(session *s, const ast *node, const index_place *place, value old, kv_err *e)
{
    value made;
    bool object = is_object(old), list = object && old.kind == VALUE_LIST;
    if (list && node->op == OP_ADD)
        return extend_list(s, node, old, e);
    int code = eval_combine(s, node, old, &made, e);
    if (code)
        return code;
    if (list && made.kind == VALUE_LIST)
        code = list_splice(old, 0, old.u.list->n, made, e);
    else if (object && !list)
        code = change_array(s, node, old, made, e);
    else
        code = put_back(s, node, place, old, made, e);
    value_release(&made);
    return code ? unit_at(s, node, e) : KV_OK;
}

static int update_name(session *s, const ast *node, kv_err *e)
{
    value old;
    int code = eval(s, node->kid[0], &old, e);
    if (code)
        return code;
    bool text = old.kind == VALUE_TEXT && node->op == OP_ADD;
    code = text ? extend_text(s, node, &old, e) : update(s, node, NULL, old, e);
    value_release(&old);
    return code;
}

static int update_index(session *s, const ast *node, kv_err *e)
{
    const ast *target = node->kid[0];
    index_place place;
    value old;
    int code = index_find(s, target, &place, e);
    if (code)
        return code;
    if ((code = index_may_write(s, target, &place, e)) == KV_OK &&
        (code = index_read(s, target, &place, &old, e)) == KV_OK) {
        code = update(s, node, &place, old, e);
        value_release(&old);
    }
    index_release(&place);
    return code;
}

int eval_update(session *s, const ast *node, kv_err *e)
{
    arena nodes = {0};
    ast *both = arena_alloc(&nodes, sizeof *both + 2 * sizeof both->kid[0], e);
    int code = both ? KV_OK : KV_E_MEMORY;
    if (both) {
        *both = *node;
        both->kind = AST_BINARY;
        both->kid[0] = node->kid[0];
        both->kid[1] = node->kid[1];
        code = node->kid[0]->kind == AST_INDEX ? update_index(s, both, e) : update_name(s, both, e);
    }
    arena_release(&nodes);
    return code;
}
