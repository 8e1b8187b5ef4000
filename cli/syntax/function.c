/* The arguments of a call are matched to parameters here, and functions share their helpers.
 *
 * The number and the names of the arguments are checked apart from the call, since a script can be
 * checked before it runs, when the values are not known.
 */
#include "syntax/function.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/suggest.h"
#include "vm/element.h"

/* ---- Finding ---- */

const function *function_find(const char *name)
{
    int first = name[0] & 0x7f; /* no name begins with another byte, which finds none below */
    int low = registry.first[first], high = registry.first[first + 1];
    while (low < high) {
        int middle = (low + high) / 2, order = strcmp(name, registry.functions[middle].name);
        if (order == 0)
            return &registry.functions[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    for (const prelude_def *d = prelude_defs; d->row.name; d++)
        if (d->row.name[0] == name[0] && strcmp(d->row.name, name) == 0)
            return &d->row;
    return NULL;
}

const function *function_at(int i)
{
    int n = registry.first[128];
    const function *f = i < n ? &registry.functions[i] : &prelude_defs[i - n].row;
    return f->name ? f : NULL;
}

const char *function_def(const function *f)
{
    return f && f->flags & FUNCTION_PRELUDE ? ((const prelude_def *)f)->text : NULL;
}

const function *function_method(const ast *node)
{
    const function *f = node->flags & AST_METHOD ? function_find(node->u.text) : NULL;
    return function_def(f) ? NULL : f;
}

/* ---- Parameters ---- */

static bool is_marked(const char *param)
{
    return param[strlen(param) - 1] == '=';
}

/* The number of parameters that must be given; they come first. */
static int count_required(const function *f)
{
    int n = 0;
    while (f->params[n] && !is_marked(f->params[n]))
        n++;
    return n;
}

int function_param(const function *f, const char *name)
{
    size_t len = strlen(name);
    for (int i = 0; f->params[i]; i++)
        if (strncmp(f->params[i], name, len) == 0 && strcspn(f->params[i], "=") == len)
            return i;
    return -1;
}

void function_usage(buf *out, const function *f)
{
    int required = count_required(f);
    buf_printf(out, "%s(", f->name);
    for (int i = 0; f->params[i]; i++) {
        bool repeats = (f->flags & FUNCTION_REST) && i == required - 1;
        buf_printf(out, "%s%s%s", i ? ", " : "", f->params[i], repeats ? "…" : "");
    }
    buf_char(out, ')');
}

/* Adds the usage as a hint. Returns e's code. */
static int hint_usage(const function *f, kv_err *e)
{
    own_buf usage = {0};
    function_usage(&usage, f);
    return kv_err_hint(e, "%s", buf_text(&usage));
}

static int unknown_argument(const function *f, const char *name, kv_err *e)
{
    suggest s = {.word = name};
    char plain[FUNCTION_MAX_PARAMS][32];
    kv_err_set(e, KV_E_USAGE, "%s() has no argument %.40s", f->name, name);
    for (int i = 0; f->params[i]; i++) {
        size_t n = strcspn(f->params[i], "=");
        n = n < sizeof plain[i] ? n : sizeof plain[i] - 1;
        memcpy(plain[i], f->params[i], n);
        plain[i][n] = '\0';
        if (!(f->flags & FUNCTION_REST) || is_marked(f->params[i]))
            suggest_add(&s, plain[i]);
    }
    suggest_done(&s, e);
    return hint_usage(f, e);
}

static int takes_others(const char *name, int min, int max, int64_t n, kv_err *e)
{
    if (min < max)
        return kv_err_set(e, KV_E_USAGE, "%s() takes %d to %d arguments, not %lld", name, min, max,
                          (long long)n);
    return kv_err_set(e, KV_E_USAGE, "%s() takes %d argument%s, not %lld", name, min,
                      min == 1 ? "" : "s", (long long)n);
}

static int wrong_count(const function *f, int64_t n, kv_err *e)
{
    int max = 0, min = count_required(f);
    const char *name = f->name;
    while (f->params[max])
        max++;
    if (f->flags & FUNCTION_REST)
        kv_err_set(e, KV_E_USAGE, "%s() takes at least %d argument%s, not %lld", name, min,
                   min == 1 ? "" : "s", (long long)n);
    else if (max == 0)
        kv_err_set(e, KV_E_USAGE, "%s() takes no arguments, not %lld", name, (long long)n);
    else
        takes_others(name, min, max, n, e);
    return hint_usage(f, e);
}

static int needs_argument(const function *f, int param, kv_err *e)
{
    kv_err_set(e, KV_E_USAGE, "%s() needs the argument %s", f->name, f->params[param]);
    return hint_usage(f, e);
}

/* How many of the n arguments stand before those with names. */
static int64_t count_positional(const ast *call, int64_t n)
{
    int64_t positional = 0;
    while (positional < n && !ast_argument_name(call, positional))
        positional++;
    return positional;
}

/* Names: known, each once, behind the positional arguments. named[i]: parameter i is among them. */
static int check_names(const function *f, const ast *call, int64_t n,
                       bool named[FUNCTION_MAX_PARAMS], kv_err *e)
{
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        const char *name = ast_argument_name(call, i);
        if (!name && any)
            return kv_err_set(e, KV_E_USAGE, "%s() has a plain argument behind a named one",
                              f->name);
        if (!name)
            continue;
        any = true;
        int p = function_param(f, name);
        if (p < 0 || ((f->flags & FUNCTION_REST) && p < count_required(f)))
            return unknown_argument(f, name, e);
        if (named[p])
            return kv_err_set(e, KV_E_USAGE, "%s() has the argument %.40s twice", f->name, name);
        named[p] = true;
    }
    return KV_OK;
}

int function_check(const function *f, const ast *call, int64_t n, kv_err *e)
{
    bool named[FUNCTION_MAX_PARAMS] = {false};
    if (f->flags & FUNCTION_ELEMENT) {
        const element_function *takes = element_find(f->name);
        if (n >= takes->min && n <= takes->max)
            return check_names(f, call, n, named, e);
        if (n != 1 || strcmp(f->name, "where") != 0)
            return wrong_count(f, n, e);
        kv_err_set(e, KV_E_USAGE, "where() takes 3 arguments, not 1");
        return kv_err_hint(e, "nonzero(x > 1) gives the indices, x[x > 1] the elements");
    }
    TRY(check_names(f, call, n, named, e));
    int64_t positional = count_positional(call, n), free_params = 0, missing = 0;
    int lacks = -1; /* the first required parameter that gets no argument */
    for (int i = 0; f->params[i]; i++) {
        free_params += !named[i];
        missing += !named[i] && !is_marked(f->params[i]);
        if (missing > positional && lacks < 0)
            lacks = i;
    }
    if (lacks >= 0 && n >= count_required(f) && !(f->flags & FUNCTION_REST))
        return needs_argument(f, lacks, e);
    bool any_number = (f->flags & FUNCTION_REST) || ((f->flags & FUNCTION_SHAPE) && !named[0]);
    if (positional < missing || (positional > free_params && !any_number))
        return wrong_count(f, n, e);
    return KV_OK;
}

/* ---- Parameters of a def ---- */

static int count_differs(const source *src, const ast *def, const ast *call, kv_err *e)
{
    int most = (int)def->n - 1, least = most;
    while (least > 0 && def->kid[least]->kind == AST_ARG)
        least--;
    takes_others(def->u.text, least, most, call->n, e);
    source_at(src, call->pos, call->end, e);
    return e->code;
}

int64_t function_takes(const ast *def, const ast *call, int64_t i)
{
    const char *name = ast_argument_name(call, i);
    for (uint32_t k = 1; name && k < def->n; k++)
        if (strcmp(def->kid[k]->u.text, name) == 0)
            return k - 1;
    return name ? -1 : i;
}

/* Whether one of the first n arguments goes to the parameter. */
static bool is_matched(const ast *def, const ast *call, int64_t n, int64_t parameter)
{
    for (int64_t i = 0; i < n; i++) {
        const char *name = ast_argument_name(call, i);
        if (name ? strcmp(name, def->kid[parameter + 1]->u.text) == 0 : i == parameter)
            return true;
    }
    return false;
}

static int unknown_parameter(const source *src, const ast *def, const ast *arg, kv_err *e)
{
    suggest near = {.word = arg->u.text};
    source_err(src, arg->pos, arg->end, e, KV_E_USAGE, "%s() has no parameter `%s`", def->u.text,
               near.word);
    for (uint32_t i = 1; i < def->n; i++)
        suggest_add(&near, def->kid[i]->u.text);
    suggest_done(&near, e);
    return e->code;
}

int function_match(const source *src, const ast *def, const ast *call, kv_err *e)
{
    int64_t n = call->n;
    bool named = false;
    if (n > (int64_t)def->n - 1)
        return count_differs(src, def, call, e);
    for (int64_t i = 0; i < n; i++) {
        const ast *arg = call->kid[i];
        int64_t to = function_takes(def, call, i);
        if (to < 0)
            return unknown_parameter(src, def, arg, e);
        if (named && arg->kind != AST_ARG)
            return source_err(src, arg->pos, arg->end, e, KV_E_USAGE,
                              "%s() has a plain argument behind a named one", def->u.text);
        if (is_matched(def, call, i, to))
            return source_err(src, arg->pos, arg->end, e, KV_E_USAGE,
                              "%s() has two values for `%s`", def->u.text,
                              def->kid[to + 1]->u.text);
        named = arg->kind == AST_ARG;
    }
    for (int64_t i = 0; i + 1 < (int64_t)def->n; i++) {
        const ast *parameter = def->kid[i + 1];
        if (parameter->kind == AST_ARG || is_matched(def, call, n, i))
            continue;
        return named ? source_err(src, call->pos, call->end, e, KV_E_USAGE,
                                  "%s() needs a value for `%s`", def->u.text, parameter->u.text)
                     : count_differs(src, def, call, e);
    }
    return KV_OK;
}

/* ---- Calling ---- */

/* Sets parameter 0 from the leading integers, all but the arguments of the other required
 * parameters. *used: how many there are; *owned is then a tuple of them. */
static int take_shape(function_args *a, const value *args, int64_t n, int64_t *used, value *owned,
                      kv_err *e)
{
    const char *const *params = a->function->params;
    int64_t most = n;
    for (int i = 1; params[i] && !is_marked(params[i]); i++)
        most -= !a->given[i];
    while (*used < most && args[*used].kind == VALUE_INT)
        ++*used;
    if (*used == 0)
        return KV_OK;
    TRY(value_list_new(owned, VALUE_TUPLE, *used, e));
    memcpy(owned->u.list->items, args, (size_t)*used * sizeof *args);
    a->v[0] = *owned;
    a->given[0] = true;
    return KV_OK;
}

/* A context finds the parameter ctx wherever it stands; anything else fills the parameters in
 * order. */
static int take_positional(function_args *a, const value *args, int64_t from, int64_t n, kv_err *e)
{
    const function *f = a->function;
    int ctx = function_param(f, "ctx"), next = 0;
    for (int64_t i = from; i < n; i++) {
        int p = ctx;
        if (args[i].kind != VALUE_CTX || ctx < 0 || a->given[ctx]) {
            while (f->params[next] && a->given[next])
                next++;
            p = next;
        }
        if (!f->params[p])
            return wrong_count(f, n - (from ? from - 1 : 0), e);
        a->v[p] = args[i];
        a->given[p] = true;
    }
    return KV_OK;
}

static int sort_arguments(function_args *a, const value *args, const ast *call, int64_t n,
                          value *owned, kv_err *e)
{
    const function *f = a->function;
    int64_t positional = count_positional(call, n), used = 0;
    for (int64_t i = positional; i < n; i++) {
        int p = function_param(f, ast_argument_name(call, i));
        a->v[p] = args[i];
        a->given[p] = true;
    }
    if (f->flags & FUNCTION_REST) {
        a->rest = args;
        a->nrest = positional;
        return KV_OK;
    }
    int storage = function_param(f, "stype");
    bool shape = f->flags & FUNCTION_SHAPE;
    if (shape && positional > 0 && args[0].kind == VALUE_TEXT && storage >= 0 &&
        !a->given[storage]) { /* zeros("row_sparse", shape) */
        a->v[storage] = *args++;
        a->given[storage] = true;
        positional--;
    }
    if (shape && !a->given[0])
        TRY(take_shape(a, args, positional, &used, owned, e));
    TRY(take_positional(a, args, used, positional, e));
    for (int i = 0; i < count_required(f); i++)
        if (!a->given[i])
            return needs_argument(f, i, e);
    return KV_OK;
}

int function_sort(const function *f, const value *args, const ast *call, int64_t n,
                  value sorted[FUNCTION_MAX_PARAMS], kv_err *e)
{
    function_args a = {.function = f};
    value unused;
    TRY(function_check(f, call, n, e));
    TRY(sort_arguments(&a, args, call, n, &unused, e));
    memcpy(sorted, a.v, sizeof a.v);
    return KV_OK;
}

/* The array that parameter 0 is; of a row_sparse one all its rows, unless the function asks for it
 * as it is. */
int function_take_array(function_args *a, kv_err *e)
{
    own_array *given = NULL;
    TRY(value_to_array(&given, a->rest ? a->rest[0] : a->v[0], e));
    if (kv_array_storage(given) != KV_DEFAULT && !(a->function->flags & FUNCTION_ROWS))
        return kv_array_to_dense(&a->array, given, e);
    a->array = given;
    given = NULL;
    return KV_OK;
}

int function_call(session *s, const function *f, const value *args, const ast *call, int64_t n,
                  value *out, kv_err *e)
{
    function_args a = {.session = s, .function = f};
    own_value owned = value_none();
    TRY(function_check(f, call, n, e));
    int rc = sort_arguments(&a, args, call, n, &owned, e);
    if (!rc && (f->flags & FUNCTION_ARRAY))
        rc = function_take_array(&a, e);
    if (!rc && (f->flags & FUNCTION_STORE))
        rc = session_store(s, &a.store, e);
    *out = value_none();
    if (!rc)
        rc = f->call(&a, out, e);
    if (out->kind == VALUE_BARE) {
        kv_array *bare = out->u.bare;
        *out = value_none();
        rc = function_give(out, &bare, rc, e);
    }
    bool made = !rc && out->kind == VALUE_ARRAY && out->u.box->refs == 1;
    if (made && !(f->flags & (FUNCTION_OBJECT | FUNCTION_SHAPE)))
        out->u.box->is_number = kv_array_ndim(out->u.box->array) == 0;
    kv_array_unref(a.array);
    return rc;
}

/* ---- Helpers ---- */

kv_array **function_makes(value *out)
{
    *out = (value){.kind = VALUE_BARE};
    return &out->u.bare;
}

int function_int(value v, const char *what, int64_t *out, kv_err *e)
{
    if (v.kind == VALUE_ARRAY && kv_array_size(v.u.box->array) == 1) {
        TRY(value_item(&v, v, e));
    }
    if (v.kind == VALUE_INT || v.kind == VALUE_BOOL) {
        *out = v.u.integer;
        return KV_OK;
    }
    if (v.kind != VALUE_FLOAT)
        return kv_err_set(e, KV_E_DTYPE, "%s is an integer, not %s", what, value_kind_name(v));
    char text[NUM_TEXT_MAX];
    num_plain(text, v.u.number, NUM_BINARY64);
    if (v.u.number != floor(v.u.number))
        return kv_err_set(e, KV_E_DTYPE, "%s is a whole number, not %s", what, text);
    if (!(v.u.number >= -0x1p63 && v.u.number < 0x1p63))
        return kv_err_set(e, KV_E_VALUE, "%s does not fit into 64 bits: %s", what, text);
    *out = (int64_t)v.u.number;
    return KV_OK;
}

int function_flag(const function_args *args, const char *name, bool *out, kv_err *e)
{
    int p = function_param(args->function, name);
    value v = args->v[p];
    *out = false;
    if (!args->given[p])
        return KV_OK;
    if (!value_is_number(v))
        return kv_err_set(e, KV_E_DTYPE, "%s is True or False, not %s", name, value_kind_name(v));
    *out = value_number(v) != 0;
    return KV_OK;
}

int function_number(value v, const char *what, double *out, kv_err *e)
{
    value item;
    if (!value_is_number(v) && (v.kind != VALUE_ARRAY || kv_array_size(v.u.box->array) != 1))
        return kv_err_set(e, KV_E_DTYPE, "%s is a number, not %s", what, value_kind_name(v));
    TRY(value_item(&item, v, e));
    *out = value_number(item);
    return KV_OK;
}

int function_int_at(const function_args *args, int i, const char *what, int64_t *out, kv_err *e)
{
    return args->given[i] ? function_int(args->v[i], what, out, e) : KV_OK;
}

int function_number_at(const function_args *args, int i, const char *what, double *out, kv_err *e)
{
    return args->given[i] ? function_number(args->v[i], what, out, e) : KV_OK;
}

int function_integers(const value *v, int64_t n, const char *what, int *count,
                      int64_t ints[KV_MAX_NDIM], kv_err *e)
{
    if (n == 1)
        v = value_items(v, &n);
    if (n > KV_MAX_NDIM)
        return kv_err_set(e, KV_E_SHAPE, "an array has 0 to %d axes, not %lld", KV_MAX_NDIM,
                          (long long)n);
    for (int64_t i = 0; i < n; i++) {
        TRY(function_int(v[i], what, &ints[i], e));
    }
    *count = (int)n;
    return KV_OK;
}

int function_shape(value v, int *ndim, int64_t shape[KV_MAX_NDIM], kv_err *e)
{
    if (!value_is_sequence(v) && !value_is_number(v))
        return kv_err_set(e, KV_E_DTYPE, "a shape is integers, as in (2, 3), not %s",
                          value_kind_name(v));
    return function_integers(&v, 1, "a size in a shape", ndim, shape, e);
}

int function_dtype(value v, kv_dtype fallback, kv_dtype *out, kv_err *e)
{
    *out = fallback;
    if (v.kind == VALUE_NONE)
        return KV_OK;
    if (v.kind != VALUE_TEXT)
        return kv_err_set(e, KV_E_DTYPE, "a dtype is a text such as \"float16\", not %s",
                          value_kind_name(v));
    return kv_dtype_parse(out, v.u.text, e);
}

bool function_is_dtype_word(const ast *arg)
{
    kv_dtype dtype;
    return arg && arg->kind == AST_NAME && kv_dtype_parse(&dtype, arg->u.text, NULL) == KV_OK;
}

int function_ctx(value v, kv_ctx *out, kv_err *e)
{
    *out = (kv_ctx){KV_CPU, 0};
    if (v.kind == VALUE_NONE)
        return KV_OK;
    if (v.kind != VALUE_CTX)
        return kv_err_set(e, KV_E_DTYPE, "ctx is a context such as gpu(1), not %s",
                          value_kind_name(v));
    *out = v.u.ctx;
    return KV_OK;
}

int function_text(value v, const char *what, const char **out, kv_err *e)
{
    if (v.kind != VALUE_TEXT)
        return kv_err_set(e, KV_E_DTYPE, "%s is a text, not %s", what, value_kind_name(v));
    *out = v.u.text;
    return KV_OK;
}

int function_new(kv_array **out, function_args *args, value shape, int dtype_at, kv_dtype fallback,
                 kv_err *e)
{
    int ndim = 0;
    int64_t sizes[KV_MAX_NDIM];
    kv_dtype dtype;
    kv_ctx ctx;
    TRY(shape.kind == VALUE_NONE ? KV_OK : function_shape(shape, &ndim, sizes, e));
    TRY(function_dtype(args->v[dtype_at], fallback, &dtype, e));
    TRY(function_ctx(args->v[dtype_at + 1], &ctx, e));
    TRY(session_ctx(args->session, ctx, e));
    return kv_array_new_raw(out, dtype, ndim, sizes, ctx, e);
}

int function_give(value *out, kv_array *const *a, int rc, kv_err *e)
{
    if (!rc)
        return value_array(out, *a, e);
    kv_array_unref(*a);
    return rc;
}

int function_give_several(value *out, value_kind kind, kv_array *const *a, int n, int rc,
                          kv_err *e)
{
    value list = value_none(), unused;
    if (!rc)
        rc = value_list_new(&list, kind, n, e);
    for (int i = 0; i < n; i++)
        rc = function_give(rc ? &unused : &list.u.list->items[i], &a[i], rc, e);
    if (rc)
        value_release(&list);
    else
        *out = list;
    return rc;
}
