/* One table: letters alone would take ln for len and pow for pop. */
#include "syntax/hint_function.h"

#include <stddef.h>
#include <string.h>

bool hint_function(const char *name, kv_err *e)
{
    static const char random[] = "uniform((2, 3), low=-1, high=1), normal((2, 3)) and "
                                 "randint((2, 3), high=9) draw random numbers; seed=N repeats them";
    static const char *const hints[][2] = {
        {"absolute", "abs(x)"},
        {"avg", "mean(x)"},
        {"cast", "x.astype(\"float16\")"},
        {"cat", "concat(a, b) joins arrays"},
        {"length", "len(x)"},
        {"ln", "log(x)"},
        {"matmul", "dot(a, b)"},
        {"pow", "x ** y"},
        {"power", "x ** y"},
        {"rand", random},
        {"randn", random},
        {"random", random},
        {"relu", "maximum(x, 0)"},
        {"sigmoid", "1 / (1 + exp(-x))"},
        {"square", "x ** 2"},
        {"tensor", "array([1, 2])"},
        {"variance", "var(x)"}};
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        if (strcmp(hints[i][0], name) == 0) {
            kv_err_hint(e, "%s", hints[i][1]);
            return true;
        }
    }
    return false;
}
