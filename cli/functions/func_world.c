/* Functions of what is around a script: contexts, the store in use, the environment, files; those
 * that pages about MXNet call, its methods of arrays and its engine; and those of texts and
 * numbers. */
#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array/arrange.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/num.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/scales.h"
#include "eval/eval.h"
#include "functions/func.h"
#include "session/visit.h"

/* ---- Files ---- */

/* Folders that may not be read, and names that are no folders, have no files that match; what the
 * machine or its disk lacks is an error, and ends the search. */
static int ends_glob(const char *path, int why)
{
    (void)path;
    return why == ENOMEM || why == EMFILE || why == ENFILE || why == EIO;
}

/* The files that match, sorted by their bytes, whatever the locale. */
int func_glob(function_args *args, value *out, kv_err *e)
{
    const char *pattern;
    OWN(globfree) glob_t found = {0};
    own_stack files = {0};
    TRY(function_text(args->v[0], "a pattern of files", &pattern, e));
    int why = glob(pattern, GLOB_NOSORT | GLOB_NOESCAPE, ends_glob, &found);
    if (why == GLOB_NOSPACE || (why && errno == ENOMEM))
        return kv_err_set(e, KV_E_MEMORY, "no memory for the files that match");
    if (why && why != GLOB_NOMATCH)
        return file_error(e, "read", pattern, errno);
    for (size_t i = 0; i < found.gl_pathc; i++)
        TRY(value_stack_text(&files, found.gl_pathv[i], -1, e));
    TRY(value_stack_take(out, &files, KV_OK, e));
    return value_finish(out, list_sort(*out, false, e));
}

int func_file_keys(function_args *args, const char *pattern, value *out, kv_err *e)
{
    own_checkpoint *c = NULL;
    own_stack names = {0};
    const char *path = args->v[0].u.text;
    int rc = checkpoint_open(&c, path, &(checkpoint_options){.weights = true}, e);
    if (rc && strpbrk(path, "*?[") && access(path, F_OK) != 0)
        kv_err_hint(e, "keys of the store by a pattern: keys(pattern=\"%.80s\")", path);
    TRY(rc);
    TRY(tensor_values_decode(&c, 1, NULL, NULL, e));
    for (int64_t i = 0; i < checkpoint_count(c); i++) {
        const char *name = checkpoint_at(c, i)->name;
        if (!pattern || fnmatch(pattern, name, 0) == 0)
            TRY(value_stack_text(&names, name, -1, e));
    }
    return value_stack_take(out, &names, KV_OK, e);
}

/* "." where the script has no file: behind -c, from stdin and at the prompt. */
int func_script_dir(function_args *args, value *out, kv_err *e)
{
    const char *path = args->session->unit->src.name, *slash = strrchr(path, '/');
    if (*path == '<' || !slash)
        return value_text(out, ".", e);
    return value_text_new(out, path, slash == path ? 1 : (size_t)(slash - path), e);
}

/* ---- Pages about MXNet ---- */

/* The context of the second argument, which is there from now on. */
static int wanted_context(function_args *args, kv_ctx *ctx, kv_err *e)
{
    TRY(function_ctx(args->v[1], ctx, e));
    return session_ctx(args->session, *ctx, e);
}

int func_as_in_context(function_args *args, value *out, kv_err *e)
{
    kv_ctx ctx;
    TRY(wanted_context(args, &ctx, e));
    if (args->v[0].kind != VALUE_ARRAY || !kv_ctx_same(kv_array_ctx(args->array), ctx))
        return arrange_copy(function_makes(out), args->array, kv_array_dtype(args->array), ctx, e);
    *out = value_ref(args->v[0]);
    return KV_OK;
}

int func_asscalar(function_args *args, value *out, kv_err *e)
{
    return value_item(out, args->v[0], e);
}

/* a.copyto(b) fills the array b, which keeps its dtype and context; of a context it gives a new
 * array there. */
int func_copyto(function_args *args, value *out, kv_err *e)
{
    kv_ctx ctx;
    value b = args->v[1];
    kv_array *copy, *a = args->array;
    if (b.kind != VALUE_ARRAY) {
        TRY(wanted_context(args, &ctx, e));
        return arrange_copy(function_makes(out), a, kv_array_dtype(a), ctx, e);
    }
    kv_array *to = b.u.box->array;
    char from[160], into[160];
    if (b.u.box->refs == 1) { /* nobody would see it */
        kv_err_set(e, KV_E_USAGE, "copyto() fills an array that has a name, and a slice is a copy");
        return kv_err_hint(e, "b[0] = a; c = copy(a)");
    }
    if (kv_array_storage(a) != kv_array_storage(to))
        return kv_err_set(e, KV_E_DTYPE, "copyto() does not change how an array is stored");
    if (!kv_array_same_shape(a, to))
        return kv_err_set(e, KV_E_SHAPE, "an array of shape %s does not go into one of shape %s",
                          kv_shape_text(from, sizeof from, kv_array_ndim(a), kv_array_shape(a)),
                          kv_shape_text(into, sizeof into, kv_array_ndim(to), kv_array_shape(to)));
    TRY(arrange_copy(&copy, a, kv_array_dtype(to), kv_array_ctx(to), e));
    value_replace(b, copy);
    *out = value_ref(b);
    return KV_OK;
}

int func_wait_to_read(function_args *args, value *out, kv_err *e)
{
    const void *data;
    *out = value_none();
    return kv_array_storage(args->array) == KV_ROW_SPARSE
               ? kv_array_read_rows(args->array, &data, e)
               : kv_array_read(args->array, &data, e);
}

int func_waitall(function_args *args, value *out, kv_err *e)
{
    const session *s = args->session;
    *out = value_none();
    for (int64_t i = 0; i < s->nstores; i++)
        TRY(kv_wait(s->stores[i].store, e));
    return KV_OK;
}

/* Without a lock: other ranks, heartbeats and attach go on. */
int func_sleep(function_args *args, value *out, kv_err *e)
{
    double seconds;
    TRY(function_number(args->v[0], "the time of a sleep", &seconds, e));
    if (!(seconds >= 0 && seconds <= 1e6))
        return kv_err_set(e, KV_E_VALUE, "the seconds of a sleep lie in 0 .. 1000000");
    int64_t end = clock_ns() + (int64_t)(seconds * 1e9);
    *out = value_none();
    for (int64_t left; (left = end - clock_ns()) > 0;) {
        poll(NULL, 0, left > 20000000 ? 20 : (int)(left / 1000000) + 1);
        visit_look(args->session);
        TRY(stop_check(e));
    }
    return KV_OK;
}

/* ---- Contexts ---- */

static int one_context(kv_device device, value v, value *out, kv_err *e)
{
    int64_t id;
    TRY(function_int(v, "a device number", &id, e));
    if (id < 0 || id > KV_CTX_MAX)
        return kv_err_set(e, KV_E_VALUE, "%lld is not a device number: they go from 0 to %d",
                          (long long)id, KV_CTX_MAX);
    *out = value_ctx((kv_ctx){device, (int32_t)id});
    return KV_OK;
}

/* gpu(1); gpu() is gpu(0); of a list a list. */
int func_contexts(function_args *args, value *out, kv_err *e)
{
    kv_device device = (kv_device)FUNCTION_VARIANT(args);
    value v = args->given[0] ? args->v[0] : value_int(0);
    own_value list = value_none();
    if (!value_is_sequence(v))
        return one_context(device, v, out, e);
    TRY(value_list_new(&list, VALUE_LIST, v.u.list->n, e));
    for (int64_t i = 0; i < v.u.list->n; i++)
        TRY(one_context(device, v.u.list->items[i], &list.u.list->items[i], e));
    return value_give(out, &list);
}

/* ---- The store in use ---- */

int func_has(function_args *args, value *out, kv_err *e)
{
    kv_key key = {0, NULL};
    kv_info info;
    if (args->v[0].kind == VALUE_INT)
        key.id = args->v[0].u.integer;
    else if (args->v[0].kind == VALUE_TEXT)
        key.name = args->v[0].u.text;
    else
        return kv_err_set(e, KV_E_DTYPE, "a key is an integer or a text, not %s",
                          value_kind_name(args->v[0]));
    *out = value_bool(kv_find(args->store, &key, &info, &(kv_err){0}) == KV_OK);
    return KV_OK;
}

int func_type(function_args *args, value *out, kv_err *e)
{
    kv *store;
    if (args->given[0])
        return object_class(out, args->v[0], e);
    TRY(session_store(args->session, &store, e));
    return value_text(out, kv_type(store), e);
}

/* rank, and num_workers: of the store in use; before `create`, where that is one that the session
 * made itself, of the job. */
int func_rank(function_args *args, value *out, kv_err *e)
{
    int rank, workers;
    const session *s = args->session;
    (void)e;
    kv_job(&rank, &workers);
    if (s->current < 0 || s->stores[s->current].store != args->store ||
        !s->stores[s->current].on_demand) {
        rank = kv_rank(args->store);
        workers = kv_num_workers(args->store);
    }
    *out = value_int(FUNCTION_VARIANT(args) ? workers : rank);
    return KV_OK;
}

int func_rounds(function_args *args, value *out, kv_err *e)
{
    int64_t most = 0;
    kv_info info;
    for (int64_t i = 0; i < kv_num_keys(args->store); i++) {
        TRY(kv_info_at(args->store, i, &info, e));
        most = info.pushes > most ? info.pushes : most;
    }
    *out = value_int(most);
    return KV_OK;
}

/* Receives the topic "store" of kv_describe: fills in what pulls of changes moved. */
static int add_bytes(void *arg, const kv_field *fields, int n, kv_err *e)
{
    int64_t *bytes = arg; /* what came, and of whole arrays */
    (void)e;
    bytes[0] = field_number(fields, n, "since_bytes");
    bytes[1] = field_number(fields, n, "whole_bytes");
    return KV_OK;
}

int func_moved_bytes(function_args *args, value *out, kv_err *e)
{
    int64_t bytes[2] = {0};
    bool whole = args->given[0] && args->v[0].u.integer;
    if (args->given[0] && args->v[0].kind != VALUE_BOOL)
        return kv_err_set(e, KV_E_DTYPE, "whole is true or false, not %s",
                          value_kind_name(args->v[0]));
    int rc = kv_describe(args->store, "store", add_bytes, bytes, e);
    *out = value_int(bytes[whole]);
    return rc;
}

int func_is_capable(function_args *args, value *out, kv_err *e)
{
    const char *word;
    bool yes = false;
    TRY(function_text(args->v[0], "a capability", &word, e));
    TRY(kv_is_capable(args->store, word, &yes, e));
    *out = value_bool(yes);
    return KV_OK;
}

/* ---- The environment ---- */

int func_env(function_args *args, value *out, kv_err *e)
{
    const char *name;
    TRY(function_text(args->v[0], "the name of an environment variable", &name, e));
    const char *text = getenv(name);
    if (text)
        return value_text(out, text, e);
    *out = value_ref(args->v[1]);
    return KV_OK;
}

int func_args(function_args *args, value *out, kv_err *e)
{
    if (args->session->args.kind == VALUE_NONE)
        return value_list_new(out, VALUE_LIST, 0, e);
    *out = value_ref(args->session->args);
    return KV_OK;
}

/* ---- Texts and numbers ---- */

static double read_number(const char *text)
{
    double x = 0;
    bool over;
    num_parse(text, strlen(text), NUM_BINARY64, &x, &over);
    return x;
}

/* A float to so many decimals, half to even: as it is written with the digits that are left, and
 * read again. */
static double round_float(double x, int64_t digits)
{
    enum { FIXED_MOST = 60, BYTES = 400, DOUBLE_DIGITS = 17 }; /* see num_fixed */
    char text[BYTES];
    if (!isfinite(x) || x == 0)
        return x;
    if (digits >= 0 && digits <= FIXED_MOST) {
        num_fixed(text, sizeof text, x, (int)digits, 'f');
        return read_number(text);
    }
    num_fixed(text, sizeof text, x, DOUBLE_DIGITS, 'e');
    int power = atoi(strchr(text, 'e') + 1);
    if (digits < -power - 1)
        return copysign(0, x);
    if (digits > DOUBLE_DIGITS - power)
        return x;
    int left = (int)digits + power; /* digits behind the first */
    if (left >= 0) {
        num_fixed(text, sizeof text, x, left, 'e');
        return read_number(text);
    }
    snprintf(text, sizeof text, "5e%d", power); /* the half of one unit */
    bool up = fabs(x) > read_number(text);
    snprintf(text, sizeof text, "1e%d", power + 1);
    return copysign(up ? read_number(text) : 0, x);
}

/* An integer to tens, hundreds and so on, half to even. */
static int round_integer(int64_t x, int64_t digits, value *out, kv_err *e)
{
    int64_t scale = 1;
    for (; digits < 0 && scale <= INT64_MAX / 10; digits++)
        scale *= 10;
    int64_t rest = x % scale, down = x - rest, half = scale / 2;
    int64_t by = rest < 0 ? -scale : scale, size = rest < 0 ? -rest : rest;
    bool up = digits < 0 ? false : size > half || (size == half && scale > 1 && down / scale % 2);
    if (digits < 0) /* beyond 10^18, the largest power of ten that fits */
        down = 0;
    if (digits == -1 && (x > 5 * scale || x < -5 * scale))
        return kv_err_set(e, KV_E_VALUE, "%lld, rounded, does not fit into 64 bits", (long long)x);
    if (up && __builtin_add_overflow(down, by, &down))
        return kv_err_set(e, KV_E_VALUE, "%lld, rounded, does not fit into 64 bits", (long long)x);
    *out = value_int(down);
    return KV_OK;
}

int func_round(function_args *args, value *out, kv_err *e)
{
    int64_t digits = 0;
    value x = args->v[0];
    if (!value_is_number(x)) {
        kv_err_set(e, KV_E_DTYPE, "round() with digits takes a number, not %s", value_kind_name(x));
        return kv_err_hint(e, "round(a * 100) / 100");
    }
    bool whole = args->v[1].kind == VALUE_NONE;
    int rc = whole ? KV_OK : function_int(args->v[1], "the digits of round()", &digits, e);
    if (rc || x.kind != VALUE_FLOAT)
        return rc ? rc : round_integer(x.u.integer, digits, out, e);
    if (!whole) {
        *out = value_float(round_float(x.u.number, digits));
        return KV_OK;
    }
    if (!isfinite(x.u.number))
        return kv_err_set(e, KV_E_VALUE, "round() of %s is not a whole number",
                          isnan(x.u.number) ? "nan" : "an infinity");
    int64_t y = 0;
    rc = function_int(value_float(rint(x.u.number)), "what round() gives", &y, e);
    *out = value_int(y);
    return rc;
}

int func_bool(function_args *args, value *out, kv_err *e)
{
    bool truth = false;
    TRY(args->given[0] ? eval_truth(args->v[0], &truth, e) : KV_OK);
    *out = value_bool(truth);
    return KV_OK;
}

/* str, and repr. */
int func_str(function_args *args, value *out, kv_err *e)
{
    own_buf text = {0};
    TRY(show_value(args->session, &text, args->v[0], FUNCTION_VARIANT(args), e));
    return value_text_take(out, &text, KV_OK, e);
}

/* Texts are read as they are written in a script, blanks around them left out. */
static int parse_text(const char *text, bool whole, value *out, kv_err *e)
{
    const char *at = text + strspn(text, " \t\r\n");
    size_t len = strlen(at), used;
    bool over = false;
    while (len && letter_is_blank(at[len - 1]))
        len--;
    int64_t integer = 0;
    double number = 0;
    if (whole)
        used = num_parse_int(at, len, &integer, &over);
    else
        used = num_parse(at, len, NUM_BINARY64, &number, &over);
    if (used == 0 || used != len)
        return kv_err_set(e, KV_E_VALUE, "\"%.60s\" is not %s", text,
                          whole ? "an integer" : "a number");
    if (over)
        return kv_err_set(e, KV_E_VALUE, "%.60s %s", text,
                          whole ? "does not fit into 64 bits" : "is too large for a number");
    *out = whole ? value_int(integer) : value_float(number);
    return KV_OK;
}

int func_int(function_args *args, value *out, kv_err *e)
{
    value v;
    int64_t x = 0;
    if (args->v[0].kind == VALUE_TEXT)
        return parse_text(args->v[0].u.text, true, out, e);
    TRY(value_item(&v, args->v[0], e));
    if (v.kind == VALUE_FLOAT && !isfinite(v.u.number))
        return kv_err_set(e, KV_E_VALUE, "int() takes a finite number");
    TRY(v.kind == VALUE_FLOAT ? function_int(value_float(trunc(v.u.number)), "an integer", &x, e)
                              : KV_OK);
    *out = value_int(v.kind == VALUE_FLOAT ? x : v.u.integer);
    return KV_OK;
}

int func_float(function_args *args, value *out, kv_err *e)
{
    value v;
    if (args->v[0].kind == VALUE_TEXT)
        return parse_text(args->v[0].u.text, false, out, e);
    TRY(value_item(&v, args->v[0], e));
    *out = value_float(value_number(v));
    return KV_OK;
}
