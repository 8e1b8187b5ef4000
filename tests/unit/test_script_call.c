/* The call form, and blocks by indentation: their trees are those of commands and of braces. */
#include "session/session.h"
#include "syntax/read_unit.h"
#include "test_statement.h"

/* A hint, and a code. */
#define PUSH "kv.push(key, value, priority=0)", KV_E_USAGE
#define FITS_NEITHER                                                                               \
    "the indentation of this line fits neither the block above it nor the line that begins the "   \
    "block"

TEST(script_call_errors)
{
    LANG_ERRORS(parse_statements,
        {"kv.push", "1:4-8", "`push` needs key", PUSH},
        {"kv.push(3)", "1:4-8", "`push` needs value", PUSH},
        {"kv.push(3, 1, 2, 3)", "1:18-19", "`push` takes fewer arguments", PUSH},
        {"kv.push(key=3, 1)", "1:16-17", "`push` has a plain argument behind a named one", PUSH},
        {"kv.push(3, 1, value=3)", "1:21-22", "`push` has two values for VALUES", PUSH},
        {"kv.push(3, 1, 2, priority=3)", "1:27-28", "`push` has two values for priority", PUSH},
        {"kv.push(3, 1, out=b)", "1:15-18", "`push` has no argument out",
         "kv.pushpull(key, value, out=a) pushes, then pulls into a", KV_E_USAGE},
        {"kv.row_sparse_pull(3)", "1:4-19", "`row-sparse-pull` needs row-ids",
         "kv.row_sparse_pull(key, out=None, priority=0, row_ids)", KV_E_USAGE},
        {"kv.save_states('f', 1)", "1:21-22", "dump_optimizer is True or False", "", KV_E_USAGE},
        {"kv.time(3)", "1:4-8", "`time` has no call form", "write it as a command: help time",
         KV_E_USAGE},
        {"kv.list(1, 2)", "1:12-13", "`list` takes fewer arguments", "kv.list(…)", KV_E_USAGE},
        {"kv.push({'a': 1})", "1:9-10", "`{` stands where a value is needed", ""},
        {"kv.set_gradient_compression({'tpe': 1})", "1:30-35",
         "`set-gradient-compression` has no argument tpe",
         "kv.set_gradient_compression(compression_params: type, threshold=0.5, pull=False)",
         KV_E_USAGE},
        {"kv.set_optimizer(optimizer.SGD(0.1))", "1:32-35",
         "the parameters of an optimizer have names: learning_rate=0.1", "", KV_E_USAGE},
        {"kv.push(3, (", "1:12-13", "the `(` that opens here is not closed", ""});
}

/* Every method of the table is that of a command, and names as many parameters as the command has
 * arguments, at least. */
TEST(script_call_table)
{
    int methods = 0;
    language_init();
    for (const command *c = registry.commands; c->name; c++) {
        const char *method = c->method;
        char name[64] = "";
        int nargs = 0, params = method && strchr(method, '(') && !strstr(method, "()");
        if (!method)
            continue;
        memcpy(name, method, strcspn(method, "("));
        CHECK(command_find_method(name) == c);
        while (c->args[nargs].kind != ARG_END)
            nargs++;
        for (const char *at = method; *at; at++)
            params += *at == ',';
        CHECK(params >= nargs);
        methods++;
    }
    CHECK_INT(methods, 18);
}

TEST(script_call_indentation_errors)
{
    LANG_ERRORS(parse_statements,
        {"def f(a):\nx = 1", "1:9-10", "lines that are indented more are needed behind this `:`",
         ""},
        {"if a:\n    1\n  2\n", "3:3-4", FITS_NEITHER, ""},
        {"if a:\n    1\n      2\n", "3:7-8", FITS_NEITHER, ""},
        {"def u(k, g, w):\n    state m\n    if t == 1:\n        w = g\n    w += g", "4:9-10",
         "in a def `w = …` does not change the stored array", "w[:] = …"},
        {"def u(k, g, w):\n    state m\n    w[0] += g", "3:7-8",
         "`0` stands where `[:]`, which is all of the array, is needed", ""},
        {"def u(k, g, w):\n    state m\n    stored = g\n    w += stored", "3:5-15",
         "`stored` is the name of a parameter of every updater; this needs another", ""});
}

/* At the prompt a block by indentation goes on until an empty line, or one indented less. */
TEST(script_call_complete)
{
    language_init();
    static const struct {
        const char *text;
        bool complete;
    } cases[] = {
        {"if a:", false},          {"if a:\n  1", false},         {"if a:\n  1\n", true},
        {"if a:\n  1\n2", true},   {"if a: 1", true},             {">>> if a:\n...   1", false},
        {">>> if a:\n...   1\n... ", true}, {"if a:\n  if b:\n    1", false},
        {"def f(a) {", false},     {"kv.set_gradient_compression({'type': '2bit',", false},
        {"def u(k, g, w):\n  w += g", false}, {"def u(k, g, w):\n  w += g\nkv", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_INT(unit_is_complete(cases[i].text, strlen(cases[i].text)), cases[i].complete);
}
