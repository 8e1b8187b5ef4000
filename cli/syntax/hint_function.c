/* One table: letters alone would take ln for len and pow for pop. */
#include "syntax/hint_function.h"

#include <stddef.h>
#include <string.h>

#include "base/kv_dtype.h"
#include "syntax/refuse.h"

static const char random[] = "uniform((2, 3), low=-1, high=1), normal((2, 3)), "
                             "randint((2, 3), high=9) and permutation(9) draw random numbers; "
                             "seed=N repeats them";

static const char undo[] = "rollback takes back all since begin, or since the opening of -s";

bool hint_name(const char *name, kv_err *e)
{
    kv_dtype dtype;
    if (strcmp(name, "undo") == 0)
        kv_err_hint(e, "%s", undo);
    else if (strcmp(name, "random") == 0) /* np.random.seed(3) */
        kv_err_hint(e, "%s", random);
    else if (strcmp(name, "int") == 0 || strcmp(name, "float") == 0 || strcmp(name, "bool") == 0)
        kv_err_hint(e, "`%s` is a function: %s(…); a dtype is a text: \"%s\"", name, name,
                    *name == 'i' ? "int64" : *name == 'f' ? "float32" : name);
    else if (kv_dtype_parse(&dtype, name, &(kv_err){0}) == KV_OK)
        kv_err_hint(e, "a dtype is a text: \"%s\"", name);
    else
        return hint_module(name, e);
    return true;
}

bool hint_function(const char *name, kv_err *e)
{
    static const char *const hints[][2] = {
        {"absolute", "abs(x)"},
        {"add", "x + y"},
        {"amax", "max(x)"},
        {"amin", "min(x)"},
        {"asarray", "array(x)"},
        {"assert_allclose", "assert allclose(a, b)"},
        {"avg", "mean(x)"},
        {"cast", "x.astype(\"float16\")"},
        {"cat", "concat(a, b) joins arrays"},
        {"cuda", "x@gpu(0) is on a device"},
        {"divide", "x / y"},
        {"fill", "x[:] = 0"},
        {"filter", "[x for x in l if x > 0]"},
        {"genfromtxt", "@x.csv; load(\"x.csv\", cols=[0, 1]) reads some columns"},
        {"isclose", "abs(a - b) <= 1e-8 + 1e-5 * abs(b)"},
        {"isinstance", "type(x) is the class of x, dtype(x) that of the elements"},
        {"input", "args holds the words behind the script's name; @- reads stdin"},
        {"item", "float(x), int(x)"},
        {"length", "len(x)"},
        {"ljust", "f\"{s:<8}\""},
        {"ln", "log(x)"},
        {"loadtxt", "@x.csv; load(\"x.csv\", cols=[0, 1]) reads some columns"},
        {"logical_and", "a * b of masks, `and` of conditions"},
        {"map", "[f(x) for x in l]"},
        {"matmul", "dot(a, b)"},
        {"mod", "x % y"},
        {"multiply", "x * y"},
        {"nanmean", "mean(x[isfinite(x)])"},
        {"nansum", "sum(where(isnan(x), 0, x))"},
        {"numpy", "an array is NumPy's kind already: leave it out"},
        {"open", "load(\"a.csv\") reads a file; a > a.csv writes one"},
        {"permute", "transpose(x)"},
        {"pow", "x ** y"},
        {"power", "x ** y"},
        {"rand", random},
        {"randn", random},
        {"random", random},
        {"relu", "maximum(x, 0)"},
        {"rjust", "f\"{s:>8}\""},
        {"row_sparse_array", "row_sparse(data, row_ids, shape)"},
        {"save", "a > x.npy writes an array; `save FILE`, a command, the store"},
        {"savetxt", "a > x.csv"},
        {"setdefault", "if 'k' not in d { d['k'] = 0 }"},
        {"shuffle", "x = x[permutation(len(x))]"},
        {"sigmoid", "1 / (1 + exp(-x))"},
        {"square", "x ** 2"},
        {"subtract", "x - y"},
        {"tensor", "array([1, 2])"},
        {"to", "x@gpu(0), x.astype(\"float16\")"},
        {"trace", "sum(a * eye(len(a)))"},
        {"variance", "var(x)"},
        {"undo", undo},
        {"view", "reshape(x, (2, 3)) is a copy"}};
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        if (strcmp(hints[i][0], name) == 0) {
            kv_err_hint(e, "%s", hints[i][1]);
            return true;
        }
    }
    return false;
}
