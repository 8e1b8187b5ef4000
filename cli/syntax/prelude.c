/* Functions of NumPy that are written in the language itself. A text is read when a script first
 * calls its function, so that a start costs nothing, and `help NAME` shows it. A `def` of the
 * script wins. */
#include "syntax/prelude.h"

#include <stddef.h>
#include <string.h>

#define OF "(x, axis=none, keepdims=false)"
#define PASSED "axis=axis, keepdims=keepdims"
#define KEPT   "axis=axis, keepdims=true"
/* No function calls another one of these, which a script may have replaced. */
#define VARIANCE                                                                                   \
    "    there = isnan(x) == 0\n"                                                                  \
    "    n = sum(there, " PASSED ")\n"                                                             \
    "    mean = sum(where(there, x, 0), " KEPT ") / sum(there, " KEPT ")\n"                        \
    "    squares = sum(where(there, (x - mean) ** 2, 0), " PASSED ")\n"

static const struct {
    const char *name, *text;
} prelude[] = {
    {"absolute", "def absolute(x) = abs(x)"},
    {"amax", "def amax" OF " = max(x, " PASSED ")"},
    {"amin", "def amin" OF " = min(x, " PASSED ")"},
    {"asarray", "def asarray(x, dtype=none) {\n"
                "    return array(x) if dtype == none else array(x, dtype=dtype)\n"
                "}"},
    {"count_nonzero", "def count_nonzero" OF " = sum(array(x) != 0, " PASSED ")"},
    {"invert", "def invert(x) {\n"
               "    assert dtype(x) == \"bool\", \"~ turns masks, such as isnan(x), around\"\n"
               "    return x == 0\n"
               "}"},
    {"logical_not", "def logical_not(x) = array(x) == 0"},
    {"nanmax", "def nanmax" OF " {\n"
               "    if not any(isnan(x)) { return max(x, " PASSED ") }\n"
               "    most = max(where(isnan(x), -inf, x), " PASSED ")\n"
               "    return where(sum(isnan(x) == 0, " PASSED ") > 0, most, nan)\n"
               "}"},
    {"nanmean", "def nanmean" OF " {\n"
                "    n = sum(isnan(x) == 0, " PASSED ")\n"
                "    return sum(where(isnan(x), 0, x), " PASSED ") / n\n"
                "}"},
    {"nanmedian", "def nanmedian(x, axis=none) {\n"
                  "    x = array(x)\n"
                  "    if axis == none or ndim(x) < 2 {\n"
                  "        there = ravel(x)[isnan(ravel(x)) == 0]\n"
                  "        return median(there) if size(there) > 0 else nan\n"
                  "    }\n"
                  "    rows = moveaxis(x, axis, -1)\n"
                  "    return stack([nanmedian(r, none if ndim(r) == 1 else -1) for r in rows])\n"
                  "}"},
    {"nanmin", "def nanmin" OF " {\n"
               "    if not any(isnan(x)) { return min(x, " PASSED ") }\n"
               "    least = min(where(isnan(x), inf, x), " PASSED ")\n"
               "    return where(sum(isnan(x) == 0, " PASSED ") > 0, least, nan)\n"
               "}"},
    {"nanstd", "def nanstd" OF " {\n" VARIANCE "    return sqrt(squares / n)\n}"},
    {"nansum", "def nansum" OF " = sum(where(isnan(x), 0, x), " PASSED ")"},
    {"nanvar", "def nanvar" OF " {\n" VARIANCE "    return squares / n\n}"},
    {"power", "def power(x, y) = x ** y"},
    {"relu", "def relu(x) = maximum(x, 0)"},
    {"sigmoid", "def sigmoid(x) = 1 / (1 + exp(-x))"},
    {"softmax", "def softmax(x, axis=-1) {\n"
                "    e = exp(x - max(x, axis=axis, keepdims=true))\n"
                "    return e / sum(e, axis=axis, keepdims=true)\n"
                "}"},
    {"square", "def square(x) = x * x"},
};

const char *prelude_name(int i)
{
    return i < (int)(sizeof prelude / sizeof *prelude) ? prelude[i].name : NULL;
}

const char *prelude_text(const char *name)
{
    for (int i = 0; prelude_name(i); i++)
        if (strcmp(prelude[i].name, name) == 0)
            return prelude[i].text;
    return NULL;
}
