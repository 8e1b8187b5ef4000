/* The table of optimizers, and the names of operations. */
#include "bench_op.h"

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"

#define MOMENTUM {{"momentum", "0.9"}}, 1

const bench_optimizer bench_optimizers[] = {
    {"sgd", "sgd", {{0}}, 0, 0, 1, 0, BENCH_EXACT},
    {"momentum", "sgd", MOMENTUM, 1, 2, 0, BENCH_EXACT},
    {"nag", "nag", MOMENTUM, 1, 2, 0, BENCH_EXACT},
    {"sgld", "sgld", {{0}}, 0, 0, 1, 0, BENCH_FINITE},
    {"signum", "signum", {{0}}, 0, 1, 2, 0, BENCH_EXACT},
    {"dcasgd", "dcasgd", {{0}}, 0, 1, 2, 0, BENCH_EXACT},
    {"ftml", "ftml", {{0}}, 0, 3, 4, 0, BENCH_EXACT},
    {"lbsgd", "lbsgd", MOMENTUM, 1, 2, 0, BENCH_EXACT},
    {"lars", "lars", MOMENTUM, 1, 2, 2, BENCH_NORMS},
    {"lamb", "lamb", {{0}}, 0, 2, 3, 3, BENCH_NORMS},
    {"adam", "adam", {{0}}, 0, 2, 3, 0, BENCH_EXACT},
    {"adamw", "adamw", {{0}}, 0, 2, 3, 0, BENCH_EXACT},
    {"adabelief", "adabelief", {{0}}, 0, 2, 3, 0, BENCH_EXACT},
    {"lans", "lans", {{0}}, 0, 2, 3, 5, BENCH_NORMS},
    {"adagrad", "adagrad", {{0}}, 0, 1, 2, 0, BENCH_EXACT},
    {"groupadagrad", "groupadagrad", {{0}}, 0, 1, 1, 0, BENCH_FINITE},
    {"adadelta", "adadelta", {{0}}, 0, 2, 3, 0, BENCH_EXACT},
    {"rmsprop", "rmsprop", {{0}}, 0, 1, 2, 0, BENCH_EXACT},
    {"rmsprop-centered", "rmsprop", {{"centered", "true"}}, 1, 3, 4, 0, BENCH_EXACT},
    {"ftrl", "ftrl", {{0}}, 0, 2, 3, 0, BENCH_EXACT},
    {"adamax", "adamax", {{0}}, 0, 2, 3, 0, BENCH_EXACT},
    {"nadam", "nadam", {{0}}, 0, 2, 3, 0, BENCH_FINITE},
    {"test", "test", {{0}}, 0, 1, 2, 0, BENCH_EXACT},
    {0},
};

static const struct {
    const char *name;
    bench_op op;
} plain[] = {{"push", {true, false, false, NULL}},
             {"pull", {false, true, false, NULL}},
             {"pushpull", {true, true, true, NULL}}};

#define NPLAIN (sizeof plain / sizeof *plain)

static bool same(const char *name, const char *text, size_t n)
{
    return strlen(name) == n && memcmp(name, text, n) == 0;
}

static int unknown(const char *text, size_t n, kv_err *e)
{
    char word[64] = "";
    suggest near = {.word = word};
    memcpy(word, text, n < sizeof word - 1 ? n : sizeof word - 1);
    kv_err_set(e, KV_E_USAGE, "there is no operation `%s`", word);
    for (size_t i = 0; i < NPLAIN; i++)
        suggest_add(&near, plain[i].name);
    for (const bench_optimizer *o = bench_optimizers; o->name; o++)
        suggest_add(&near, o->name);
    suggest_done(&near, e);
    return kv_err_hint(e, "push, pull, pushpull, an optimizer, push+OPTIMIZER+pull, optimizers"),
           KV_E_USAGE;
}

int bench_op_parse(bench_op *out, const char *text, size_t n, kv_err *e)
{
    static const char before[] = "push+", behind[] = "+pull";
    size_t nb = sizeof before - 1, na = sizeof behind - 1;
    for (size_t i = 0; i < NPLAIN; i++)
        if (same(plain[i].name, text, n)) {
            *out = plain[i].op;
            return KV_OK;
        }
    bool pull =
        n > nb + na && memcmp(text, before, nb) == 0 && memcmp(text + n - na, behind, na) == 0;
    const char *name = pull ? text + nb : text;
    for (const bench_optimizer *o = bench_optimizers; o->name; o++)
        if (same(o->name, name, pull ? n - nb - na : n)) {
            *out = (bench_op){true, pull, false, o};
            return KV_OK;
        }
    return unknown(text, n, e);
}

void bench_op_name(char out[64], bench_op op)
{
    if (op.optimizer)
        snprintf(out, 64, op.pull ? "push+%s+pull" : "%s", op.optimizer->name);
    else
        snprintf(out, 64, "%s", op.joined ? "pushpull" : op.push ? "push" : "pull");
}
