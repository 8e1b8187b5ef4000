/* target op= value, as in Python: an array and a list change themselves, so that all who refer to
 * them see it; of numbers, texts and tuples the target gets another one.
 *
 * An array is given the elements of the result, and those it had are let go: where a store or a
 * copy shares them they stay as they were, and what fails half-way has changed nothing.
 */
#include "eval/eval.h"
#include "eval/eval_copy.h"
#include "eval/eval_tree.h"
#include "session/list.h"
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

/* The hint for a result that an array cannot have; where a part of it should, there is none. */
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

static int put_back(session *s, const ast *node, value old, value made, kv_err *e)
{
    const ast *target = node->kid[0];
    if (target->kind == AST_NAME)
        return session_set(s, target->u.text, value_ref(made), e);
    bool part = old.kind == VALUE_ARRAY && old.u.box->refs == 1;
    int code = part ? fit(s, node, old.u.box->array, made, e) : KV_OK;
    return code ? code : eval_assign_index(s, target, made, e);
}

static int update(session *s, const ast *node, value old, kv_err *e)
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
        code = put_back(s, node, old, made, e);
    value_release(&made);
    return code ? unit_at(s, node, e) : KV_OK;
}

int eval_update(session *s, const ast *node, kv_err *e)
{
    arena nodes = {0};
    value old;
    ast *both = arena_alloc(&nodes, sizeof *both + 2 * sizeof both->kid[0], e);
    int code = both ? eval(s, node->kid[0], &old, e) : KV_E_MEMORY;
    if (code == KV_OK) {
        *both = *node;
        both->kind = AST_BINARY;
        both->kid[0] = node->kid[0];
        both->kid[1] = node->kid[1];
        code = update(s, both, old, e);
        value_release(&old);
    }
    arena_release(&nodes);
    return code;
}
