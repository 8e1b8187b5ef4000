/* The call form, and blocks by indentation: their trees are those of commands and of braces. */
#include "session/session.h"
#include "syntax/read_unit.h"
#include "test_statement.h"

TEST(script_call_methods)
{
    LANG_TREES(parse_statements,
        {"kv.push(3, a)", "(show (of kv (push (key $3) [a])))"},
        {"b.push(keys, [a, a], -1)", "(show (of b (push (key $keys) [[a a]] (--priority (- 1)))))"},
        {"kv.push(value=a, key='w')", "(show (of kv (push (key $\"w\") [a])))"},
        {"kv.pull(3, a)", "(show (of kv (pull (key $3) (--out a))))"},
        {"kv.pull(3, out = a, ignore_sparse=False)",
         "(show (of kv (pull (key $3) (--out a) (--ignore-sparse false))))"},
        {"kv.pull(3, None)", "(show (of kv (pull (key $3))))"},
        {"kv.pull(3, ctx=gpu(1))", "(show (of kv (pull (key $3) (--ctx (gpu 1)))))"},
        {"kv.row_sparse_pull('4', b, row_ids=r)",
         "(show (of kv (row-sparse-pull (key $\"4\") (--out b) (--row-ids r))))"},
        {"kv.type", "(show (of kv (type)))"}, {"kv.type()", "(show (of kv (type)))"},
        {"kv.rank + 1", "(show (+ (of kv (rank)) 1))"},
        {"x = kv.pull(3)[0]", "(= x (index (of kv (pull (key $3))) 0))"},
        {"kv._set_updater(f)", "(show (of kv (set-updater \"f\")))"},
        {"kv.set_updater('adam', beta1=0.5)",
         "(show (of kv (set-updater \"adam\" (--beta1 0.5))))"},
        {"kv.set_optimizer(mx.optimizer.SGD())", "(show (of kv (set-optimizer \"SGD\")))"},
        {"kv.set_optimizer(optimizer.create('sgd', learning_rate=0.5), momentum=1)",
         "(show (of kv (set-optimizer \"sgd\" (--learning-rate 0.5) (--momentum 1))))"},
        {"kv.set_gradient_compression({'type': '2bit', 'threshold': 0.5,})",
         "(show (of kv (set-gradient-compression \"2bit\" (--threshold 0.5))))"},
        {"kv.set_gradient_compression(compression_params={\n'type': '2bit'})",
         "(show (of kv (set-gradient-compression \"2bit\")))"},
        {"kv.save_optimizer_states('f', True)",
         "(show (of kv (save-states \"f\" (--dump-optimizer))))"},
        {"kv.save_states('f', dump_optimizer=False)", "(show (of kv (save-states \"f\")))"},
        {"kv._barrier(); kv.barrier()", "(show (of kv (barrier))) (show (of kv (barrier)))"},
        {"kv._send_command_to_servers(9, 'x')", "(show (of kv (send-command 9 \"x\")))"},
        {"kv.list()", "(show (of kv (list _)))"},
        {"kv = mx.kv.create('local')", "(create \"local\" (--name \"kv\"))"},
        {"b = kv.create()", "(create _ (--name \"b\"))"},
        {"x.sum()", "(show (.sum x))"}, {"a.asnumpy()", "(show (.dense a))"});
}

TEST(script_call_modules)
{
    LANG_TREES(parse_statements,
        {"import mxnet as mx", "{}"}, {"from mxnet import np, npx, kv\n1", "{} (show 1)"},
        {"npx.set_np()", "{}"},
        {"mx.nd.sparse.zeros('row_sparse', s)", "(show (zeros \"row_sparse\" s))"},
        {"np.ones((2,3))", "(show (ones (, 2 3)))"}, {"mx.gpu(i)", "(show (gpu i))"},
        {"import mxnet", "{}"},               {"mxnet.nd.ones((2,3))", "(show (ones (, 2 3)))"},
        {"kv = mxnet.kvstore.create(name='local')", "(create \"local\" (--name \"kv\"))"},
        {"kv = mx.kvstore.base.create('local')", "(create \"local\" (--name \"kv\"))"},
        {"kvstore.base", "(show (.base kvstore))"},
        {"mxnet = 3; mxnet.sum()", "(= mxnet 3) (show (.sum mxnet))"},
        {"np = 3; np.sum()", "(= np 3) (show (.sum np))"},   {"import = 3", "(= import 3)"},
        {"[True, False, None]", "(show [true false none])"}, {"help(kv)", "(help \"kv\")"},
        {"help()", "(help _)"},
        {"mx.optimizer.SGD(wd=1)", "(show (SGD wd=1))"},
        {"opt = optimizer.create('adam')", "(= opt (create_optimizer \"adam\"))"},
        {"mx.lr_scheduler.FactorScheduler(3)", "(show (FactorScheduler 3))"},
        {"optimizer.lr", "(show (.lr optimizer))"},
        {"help(kv._set_updater)", "(help \"set-updater\")"});
}

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

TEST(script_call_indented_blocks)
{
    LANG_TREES(parse_statements,
        {"def f(a):\n    return a\nf(1)", "(def (f a) {(return a)}) (show (f 1))"},
        {"def f(a): b = a; return b\nf(1)", "(def (f a) {(= b a) (return b)}) (show (f 1))"},
        {"if a:\n  if b:\n    1\nelse:\n  2", "(if a {(if b {(show 1)})} {(show 2)})"},
        {"if a:\n  1\nelif b:\n  2\nelse:\n  3\n4",
         "(if a {(show 1)} (if b {(show 2)} {(show 3)})) (show 4)"},
        {"for i in l:\n\n  # why\n  1\n\n  2\n\n3", "(for i l {(show 1) (show 2)}) (show 3)"},
        {"while a:\n\tif b: break\n\tc\n", "(while a {(if b {(break)}) (show c)})"},
        {">>> if a:\n...     1\n...\n>>> 2", "(if a {(show 1)}) (show 2)"},
        {">>> def update(key, input, stored):\n>>>     print 'x'\n"
         ">>>     stored += input * 2\n>>> 1",
         "(def (update key input stored) {(print [\"x\"]) (+= stored (* input 2))}) (show 1)"},
        /* statements of rules alone make it an updater alone */
        {"def u(k, grad, w):\n    'it keeps a state'\n    state m\n    print k\n    w[:] = grad - "
         "w", "(updater u {(state m) (print key) (= stored (- input stored))})"},
        {"def u(input, key, stored):\n    if t > 1: skip\n    elif t > 0: fail 'no'\n"
         "    stored -= key",
         "(updater u {(if (> t 1) {(skip)} (if (> t 0) {(fail \"no\")})) (= stored (- stored "
         "input))})"},
        {"def f(a, b, c):\n    c += a\n    return c", "(def (f a b c) {(+= c a) (return c)})"});
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
