/* The command table and what is made of it. */
#include "syntax/command.h"

#include <string.h>

#include "base/mem.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "syntax/statement.h"
#include "syntax/unit.h"

#define PRIORITY {"priority", OPTION_INT, "N"}

/* Legend.
 *   args      how each argument is read and how usage lines call it; true: may be left out
 *   options   name, how the value is read, how usage lines call the value
 *   flags     COMMAND_*: what a redirect can take; whether --PARAM VALUE is allowed
 *   examples  one a line, "command  # what it does"; the tests run every one of them, in order, in
 *             a session that begins with: init 3 zeros(2,3); init 5,7,9 [zeros(2,3)]*3; a =
 * ones(2,3)
 */
const command command_table[] = {
    {"create", {{ARG_WORD, "TYPE", true}},
     {{"name", OPTION_NAME, "N"}, {"staleness", OPTION_VALUE, "N"}},
     COMMAND_CHANGES, cmd_create,
     "make a store and use it; the default type is local, help types lists all",
     "create local                        # replaces the store in use\n"
     "create device --name b              # stands beside it, called b\n"
     "create dist_async --staleness 4     # no worker gets further ahead of the slowest",
     "use, type", "unsupported"},
    {"use", {{ARG_NAME, "NAME", false}}, {{0}}, 0, cmd_use, "change to another store",
     "create --name b; use kv             # the first store is called kv", "create", "name"},
    {"init", {{ARG_KEYS, "KEYS", false}, {ARG_VALUES, "VALUES", false}}, {PRIORITY},
     COMMAND_ONE_EACH | COMMAND_CHANGES, cmd_init,
     "put a first value under new keys: one a key, or one array that each gets a copy of",
     "init 10 -1                          # a number is an array of shape ()\n"
     "init [13, 14] [ones(2), zeros(3)]   # one value a key\n"
     "init 11,12 ones(2,3)                # one array for several keys: each gets a copy\n"
     "create --name t; init w ones(2,3)*2; use kv # text keys in a store of their own",
     "push, pull", "key"},
    {"push", {{ARG_KEYS, "KEYS", false}, {ARG_VALUES, "VALUES", false}}, {PRIORITY},
     COMMAND_PRINTS | COMMAND_CHANGES, cmd_push,
     "sum VALUES and hand them to the updater of each key",
     "push 3 ones(2,3)*8                  # one key, one value\n"
     "push 3 ones(2,3)@gpu(0..3)          # four devices, summed first\n"
     "push [5, 7, 9] [a, a, a]            # one value a key\n"
     "push 5,7 [[a, a], [a, a]]           # two values a key",
     "pull, set-updater", "key, shape, dtype"},
    {"pull", {{ARG_KEYS, "KEYS", false}},
     {{"out", OPTION_NAME, "V"}, {"ctx", OPTION_VALUE, "DEVS"}, PRIORITY,
      {"ignore-sparse", OPTION_VALUE, "B"}},
     COMMAND_GIVES, cmd_pull, "show the newest value of keys, or put it somewhere",
     "pull 3                              # show it\n"
     "pull 3 -> w                         # make a variable\n"
     "pull 3 --out a                      # fill a variable, keeping its devices and dtype\n"
     "pull 3 --ctx gpu(0..3) -> w         # a list of four\n"
     "pull [5, 7, 9] > w-{key}.csv        # a file a key: all are written, then replaced in turn\n"
     "pull * > all.safetensors            # one file, an array for each key\n"
     "r = row_sparse(a); pull 3 --out r --ignore-sparse false  # else r stays, with a warning",
     "push, row-sparse-pull, write", "key, shape"},
    {"row-sparse-pull", {{ARG_KEYS, "KEYS", false}},
     {{"row-ids", OPTION_NEEDED, "IDS"}, {"out", OPTION_NAME, "V"}, {"ctx", OPTION_VALUE, "DEVS"},
      PRIORITY},
     COMMAND_GIVES, cmd_row_sparse_pull,
     "some rows of a row_sparse key: show them among zeros, or put them somewhere",
     "init 4,6 [row_sparse(ones(3,2))]*2\n"
     "row-sparse-pull 4 --row-ids [2, 0, 2]         # in any order, also several times\n"
     "row-sparse-pull 4 --row-ids [1] -> r          # a row_sparse array of one row\n"
     "row-sparse-pull 4 --row-ids [0, 2] --out r    # fill a variable\n"
     "row-sparse-pull 4 --row-ids [[1, 0], [2]] --ctx gpu(0..1) -> w  # a list of ids for each\n"
     "row-sparse-pull 4,6 --row-ids [[1, 0], [2]]   # or one for each key",
     "pull, push", "key, value, index, dtype, shape"},
    {"pushpull", {{ARG_KEYS, "KEYS", false}, {ARG_VALUES, "VALUES", false}},
     {{"out", OPTION_NAME, "V"}, PRIORITY}, COMMAND_GIVES | COMMAND_CHANGES, cmd_pushpull,
     "push, then pull, in one call; a VALUES that is a variable receives the result",
     "pushpull 3 ones(2,3)@gpu(0..3)      # show the sum, or what the updater made of it\n"
     "pushpull 3 [a, a] -> w              # make a variable\n"
     "v = [a, a]; pushpull 3 v            # in place: both arrays of v are 2\n"
     "v = [a, a, a]; pushpull [5, 7, 9] [a, a, a] --out v # fill arrays",
     "push, pull, broadcast", "key, shape, dtype"},
    {"broadcast", {{ARG_KEYS, "KEYS", false}, {ARG_VALUES, "VALUES", false}},
     {{"out", OPTION_NAME, "V"}, PRIORITY}, COMMAND_GIVES | COMMAND_ONE_EACH | COMMAND_CHANGES,
     cmd_broadcast, "init, then pull, in one call: every worker gets the value of rank 0",
     "broadcast 20 ones(2,3)              # a new key; show its value\n"
     "broadcast 21 ones(2,3) -> w         # make a variable\n"
     "v = [a, a, a]; broadcast 22 ones(2,3)*2 --out v # fill three arrays\n"
     "broadcast 23,24 ones(2,3) -> w      # one value for several keys",
     "init, pull, pushpull", "key, shape"},
    {"set-updater", {{ARG_RULE, "NAME | { RULE }", false}}, {{0}},
     COMMAND_PARAMS | COMMAND_ALL_KEYS | COMMAND_CHANGES, cmd_set_updater,
     "what a push does with the sum and the stored value",
     "set-updater { stored += input * 2 } # a rule without parameters\n"
     "updater scale(by = 2.0) { stored += input * by }\n"
     "set-updater scale --by 0.5          # a rule of the script\n"
     "set-updater assign                  # the default: the sum replaces the stored value",
     "push, set-optimizer", "usage, value"},
    {"set-optimizer", {{ARG_RULE, "NAME", true}}, {{"update", OPTION_FLAG, NULL}},
     COMMAND_PARAMS | COMMAND_ALL_KEYS | COMMAND_CHANGES, cmd_set_optimizer,
     "an optimizer with its states: sgd, adam, lamb, ... or a rule of the script",
     "set-optimizer sgd --learning-rate 0.1 --momentum 0.9\n"
     "n = 4; set-optimizer sgd --learning-rate 0.1/n # numbers are computed, texts are words\n"
     "set-optimizer adam --lr-scheduler factor(step=100, factor=0.5) --learning-rate none\n"
     "set-optimizer sgd --wd 0.01 --names 3=fc_weight,5=fc_bias --lr-mult 5=2\n"
     "set-optimizer --update --learning-rate 0.01 # another rate; states and counts stay\n"
     "help optimizer adam                 # what one does, and its parameters",
     "set-updater, push", "usage, value"},
    {"save-states", {{ARG_FILE, "FILE", false}}, {{"dump-optimizer", OPTION_FLAG, NULL}},
     COMMAND_WRITES, cmd_save_states,
     "write what the optimizer keeps to a safetensors file; FILE is complete or not there",
     "set-optimizer adam; push 3 a\n"
     "save-states adam.safetensors        # states and counts; the keys' values stay in the store\n"
     "save-states all.safetensors --dump-optimizer  # with the rule and its parameters",
     "load-states, info, set-optimizer", "value, unsupported, io"},
    {"load-states", {{ARG_FILE, "FILE", false}}, {{0}}, COMMAND_ALL_KEYS | COMMAND_CHANGES,
     cmd_load_states,
     "take states from a file of save-states: training goes on as if it had not stopped",
     "set-optimizer adam; push 3 a; save-states adam.safetensors\n"
     "set-optimizer adam                  # its counts and states begin anew\n"
     "load-states adam.safetensors        # and now they are where they were\n"
     "info 3 --states",
     "save-states, info", "unsupported, io, format, value, key, shape, dtype"},
    {"set-gradient-compression", {{ARG_WORD, "2bit|1bit|none", false}},
     {{"threshold", OPTION_VALUE, "T"}, {"pull", OPTION_FLAG, NULL}},
     COMMAND_ALL_KEYS | COMMAND_CHANGES, cmd_set_gradient_compression,
     "push codes of 2 bits or 1 bit; what they leave out is pushed the next time",
     "create device --name d; init 3 zeros(2,3)\n"
     "set-gradient-compression 2bit       # a code is 0.5, 0 or -0.5\n"
     "push 3 a*0.4; pull 3                # 0: nothing reaches 0.5\n"
     "push 3 a*0.4; pull 3                # 0.5; 0.3 stays for the next push\n"
     "set-gradient-compression 2bit --threshold 0.1\n"
     "set-gradient-compression 2bit --pull # dist_sync: what the servers send back, too\n"
     "set-gradient-compression 1bit --threshold 0 # 1 above 0, else -1\n"
     "set-gradient-compression none       # whole gradients again",
     "push, info", "unsupported, value, dtype"},
    {"list", {{ARG_GLOB, "GLOB", true}}, {{0}}, COMMAND_GIVES, cmd_list, "the keys of the store",
     "list                                # all keys, one a line\n"
     "list 1*                             # those that match a pattern",
     "info", NULL},
    {"info", {{ARG_KEYS, "KEYS", true}},
     {{"states", OPTION_FLAG, NULL}, {"cluster", OPTION_FLAG, NULL}},
     COMMAND_GIVES, cmd_info,
     "a table of keys: dtype, shape, context, bytes, pushes; or of what the optimizer keeps",
     "info                                # the store and all its keys\n"
     "info 3,5                            # some keys\n"
     "set-optimizer adam; push 3 a\n"
     "info --states                       # the optimizer, and the states and count t of each key\n"
     "info > keys.csv                     # the table as CSV\n"
     "info --cluster                      # of several machines: a row for each rank",
     "list, type, save-states", "key, value, unsupported"},
    {"type", {{0}}, {{0}}, COMMAND_GIVES, cmd_type, "the type of the store", "type  # local",
     "create", NULL},
    {"rank", {{0}}, {{0}}, COMMAND_GIVES, cmd_rank, "the rank of this worker", "rank  # 0",
     "num-workers", NULL},
    {"num-workers", {{0}}, {{0}}, COMMAND_GIVES, cmd_num_workers, "how many workers there are",
     "num-workers  # 1", "rank", NULL},
    {"is-capable", {{ARG_WORD, "CAP", false}}, {{0}}, COMMAND_GIVES, cmd_is_capable,
     "whether stores of this type can do something: True or False",
     "is-capable optimizer                # True; Tab at the prompt lists all that can be asked\n"
     "is-capable gradient-compression     # kvctl -e turns the answer into the exit code",
     "type, create", "usage"},
    {"register", {{ARG_NAME, "NAME", false}},
     {{"base", OPTION_WORD, "TYPE"}, {"plugin", OPTION_FILE, "FILE.so"}}, 0, cmd_register,
     "add a store type that `create NAME` makes: another name for one, or what a plugin brings",
     "register MyStore                    # another name for local, its base; create mystore\n"
     "register Mine --base device; create mine; type # Mine",
     "create, type", "name, value, unsupported, io, format"},
    {"barrier", {{0}}, {{0}}, 0, cmd_barrier,
     "wait until every worker is here; one process goes on at once", "barrier", "wait", NULL},
    {"done", {{0}}, {{0}}, 0, cmd_done,
     "push no more: rounds and barriers of the other workers are complete without this one", "done",
     "barrier, info", NULL},
    {"send-command", {{ARG_VALUE, "HEAD", false}, {ARG_WORD, "BODY", false}}, {{0}}, 0,
     cmd_send_command,
     "hand a command, a number and a text, to the servers; one process has none",
     "send-command 9 \"any text\"          # returns when all servers have carried it out",
     "barrier", "dtype, value"},
    {"begin", {{0}}, {{0}}, 0, cmd_begin,
     "open a transaction of the store: commit keeps what follows, rollback takes it back",
     "begin; push 3 a; init 20 a; rollback  # values, new keys and the updater are as before\n"
     "begin; push 3 a; commit",
     "commit, rollback", "value, unsupported"},
    {"commit", {{0}}, {{0}}, 0, cmd_commit, "keep what happened since begin",
     "begin; push 3 a; commit", "begin, rollback", "value"},
    {"rollback", {{0}}, {{0}}, 0, cmd_rollback, "put the store back to where it was at begin",
     "begin; push 3 a; rollback", "begin, commit", "value"},
    {"wait", {{0}}, {{0}}, 0, cmd_wait, "until all work that was queued is done", "wait",
     "push, pull", NULL},
    {"print", {{ARG_EXPRS, "EXPRS", false}}, {{0}}, COMMAND_PRINTS, cmd_print,
     "show values, blank-joined",
     "print a                             # [[1. 1. 1.]\n"
     "print \"loss\", 1/4                   # loss 0.25\n"
     "print f\"loss {1/3:.3f}\"             # loss 0.333",
     "write", NULL},
    {"plot", {{ARG_VALUES, "EXPR...", false}},
     {{"heat", OPTION_FLAG, NULL}, {"hist", OPTION_FLAG, NULL}},
     COMMAND_PRINTS | COMMAND_DRAWS, cmd_plot,
     "draw lines, a heat map or a histogram, on the terminal or in a file, through gnuplot",
     "loss = 2 ** -(arange(20) / 4); plot loss\n"
     "plot loss loss/2                    # two lines; an array of two axes: its columns\n"
     "plot --heat reshape(arange(50), (5, 10)) # row 0 on top\n"
     "plot --hist normal(1000)            # how many lie where\n"
     "plot loss > loss.txt                # .svg and .png too, with gnuplot",
     "print, write", "dtype, shape, value, unsupported, io"},
    {"write", {{ARG_VALUE, "VALUE", false}, {ARG_FILE, "FILE", false}}, {{0}}, COMMAND_WRITES,
     cmd_write,
     "save a value; FILE is complete or not there, also after a crash: set write.sync",
     "write a a.csv                       # by the ending: .csv .tsv .json .npy .txt\n"
     "write [a, a*2] two.ndjson           # a list: an array a line\n"
     "write a*2 -                         # to stdout",
     "print, pull", "io, usage"},
    {"assert", {{ARG_EXPRS, "EXPR [, TEXT]", false}}, {{0}}, 0, cmd_assert,
     "fail unless every element of EXPR is true",
     "assert a == ones(2,3)\n"
     "assert sum(a) < 7, \"too large\"      # with a text for the message",
     "print", "assert"},
    {"expect", {{ARG_HEREDOC, "<<END", false}}, {{0}}, 0, cmd_expect,
     "fail unless the statement before put out these lines; they end before a line END",
     "print 1 + 1\nexpect <<END\n2\nEND",
     "assert, expect-error", "expect"},
    {"expect-error", {{ARG_CODE, "CODE", false}, {ARG_BLOCK, "{ ... }", false}}, {{0}},
     COMMAND_RUNS, cmd_expect_error, "fail unless the block fails with this code",
     "expect-error key { pull 99 }        # says nothing: there is no key 99\n"
     "expect-error shape { push 3 ones(9) }",
     "assert, expect", "expect"},
    {"time", {{ARG_STATEMENT, "STATEMENT | { ... }", false}}, {{"runs", OPTION_INT, "N"}},
     COMMAND_RUNS, cmd_time, "how long it takes, on stderr: once, or min, median and p95 of N runs",
     "time push 3 a\n"
     "time --runs 20 { push 3 a; pull 3 -> w }", NULL, NULL},
    {"explain", {{ARG_EXPLAINED, "on|off|COMMAND", false}}, {{0}}, COMMAND_RUNS | COMMAND_GIVES,
     cmd_explain,
     "what the store does, step by step and with small numbers: of one command, or of all from now",
     "explain push 3 [a, a*2]             # what it would do; nothing is changed\n"
     "set-updater { stored += input * 2 }; explain kv.push(3, a)\n"
     "explain pull 3 --ctx gpu(0..1)      # of several machines: who waits for whom\n"
     "explain on; push 3 a; explain off   # what happens, on stderr",
     "push, pull, set-updater, echo", "value"},
    {"profile", {{ARG_FILE, "FILE|off", false}}, {{0}}, COMMAND_WRITES, cmd_profile,
     "record what the store does and when, for https://ui.perfetto.dev",
     "profile p.json; push 3 a; pull 3    # every operation, its waits, its parts\n"
     "profile off                         # writes the file, a million events at most; so does\n"
     "                                    # leaving kvctl. Of several machines each rank has a\n"
     "                                    # file; jq -s add p.rank*.json > p.json merges them",
     "time, wait", "value, usage, io"},
    {"bench", {{ARG_WORDS, "WORKLOAD...", true}},
     {{"op", OPTION_LIST, "LIST"}, {"values", OPTION_LIST, "LIST"}, {"runs", OPTION_INT, "N"},
      {"size", OPTION_VALUE, "N"}, {"min-fraction", OPTION_VALUE, "X"},
      {"format", OPTION_WORD, "table|csv"}, {"quick", OPTION_FLAG, NULL},
      {"scale", OPTION_FLAG, NULL}, {"ctx", OPTION_VALUE, "DEVS"},
      {"type", OPTION_WORD, "local|device"}},
     COMMAND_PRINTS, cmd_bench,
     "time the store beside what only moves the same bytes: W1 to W8, or all; on the CPU or GPUs",
     "bench --quick                       # W1, the arrays of ResNet-50; small ones for a test\n"
     "bench W2,W3 --quick --op pull  # ResNet-200, VGG-16; limit: s streaming stores, p plain\n"
     "bench W1 --quick --op push,adam,push+adam+pull --values 2 --runs 3\n"
     "bench W4,W6 --quick --runs 3        # many small keys; rows\n"
     "bench W5 --size 1000000 --runs 3    # one array of so many floats\n"
     "bench W7,W8 --quick --runs 3        # float16 and bfloat16; 2bit and 1bit\n"
     "bench W1 --quick --op push --min-fraction 0.001 # fails below; 0.92 is what to expect\n"
     "bench --scale --quick --runs 3      # one array from 1 MB on; 10 keys, 100, ...\n"
     "bench W1 --quick --op pull --format csv > pull.txt\n"
     "bench W1 --quick --op push --ctx gpu(0)   # beside a copy within the GPU; with --type local\n"
     "                                    # the keys stay on the CPU; gpu(0..3) are four, in turn",
     "time, doctor", "usage, value, unsupported, memory, assert"},
    {"echo", {{ARG_SWITCH, "on|off", false}}, {{0}}, 0, cmd_echo,
     "print each command to stderr before it runs, as --trace does",
     "echo on; push 3 a; echo off", NULL, NULL},
    {"set", {{ARG_WORD, "NAME", true}, {ARG_VALUE, "VALUE", true}}, {{0}}, COMMAND_GIVES, cmd_set,
     "change a setting, or show settings",
     "set                                 # all settings\n"
     "set print.precision 4               # digits behind the point\n"
     "set write.sync off                  # many small files: each is still whole or not there,\n"
     "                                    # but after a power cut the last ones may be missing",
     "vars", "usage, value"},
    {"vars", {{0}}, {{0}}, COMMAND_GIVES, cmd_vars, "the variables and what they hold", "vars",
     "set", NULL},
    {"source", {{ARG_SOURCE, "FILE", false}}, {{0}}, COMMAND_CHANGES, cmd_source,
     "run the statements of a file; a literal name is read before anything runs",
     "!echo 'b = 2' > two.kv\n"
     "f = \"two.kv\"; source $f            # a name that is computed is read when it is reached",
     NULL,
     "io, syntax"},
    {"help", {{ARG_WORD, "WORD", true}, {ARG_WORD, "NAME", true}}, {{"json", OPTION_FLAG, NULL}},
     COMMAND_GIVES, cmd_help,
     "what a command or function does, or what there is",
     "help push                           # also: ?push, push --help\n"
     "help optimizer                      # the optimizers; help optimizer adam: one of them\n"
     "help rules                          # the language of updaters\n"
     "help types                          # what stores there are; help local: one of them\n"
     "help environment                    # the variables that are read\n"
     "help --json > help.txt              # all commands and functions for a program\n"
     "help \"gradient\"                     # everything that mentions a word",
     NULL, NULL},
    {"history", {{ARG_VALUE, "COUNT", true}}, {{0}}, COMMAND_GIVES, cmd_history,
     "what was typed at the prompt, in this and in earlier sessions",
     "history\n"
     "history 20                          # the last 20 entries", NULL, "io"},
    {"doctor", {{0}}, {{0}}, COMMAND_PRINTS, cmd_doctor,
     "test this build on this machine; kvctl --doctor does the same",
     "doctor", "version", "assert"},
    {"version", {{0}}, {{0}}, COMMAND_GIVES, cmd_version, "the version of kvctl and its library",
     "version", NULL, NULL},
    {"quit", {{ARG_VALUE, "CODE", true}}, {{0}}, 0, cmd_quit, "leave, with an exit code",
     "quit                                # 0 unless something failed", "exit", NULL},
    {"exit", {{ARG_VALUE, "CODE", true}}, {{0}}, 0, cmd_quit, "the same as quit",
     "exit()                              # as quit", "quit", NULL},
    {0},
};

/* The methods of KVStore in MXNet 1.9.1 (python/mxnet/kvstore): see command_method. */
static const struct {
    command_fn *run;
    const char *method;
} methods[] = {
    {cmd_create, "create(name='local')"},
    {cmd_init, "init(key, value)"},
    {cmd_push, "push(key, value, priority=0)"},
    {cmd_pull, "pull(key, out=None, priority=0, ignore_sparse=True)"},
    {cmd_row_sparse_pull, "row_sparse_pull(key, out=None, priority=0, row_ids)"},
    {cmd_pushpull, "pushpull(key, value, out=None, priority=0)"},
    {cmd_broadcast, "broadcast(key, value, out, priority=0)"},
    {cmd_set_updater, "_set_updater(updater)"},
    {cmd_set_optimizer, "set_optimizer(optimizer)"},
    {cmd_save_states, "save_optimizer_states(fname, dump_optimizer=False)"},
    {cmd_load_states, "load_optimizer_states(fname)"},
    {cmd_set_gradient_compression,
     "set_gradient_compression(compression_params: type, threshold=0.5, pull=False)"},
    {cmd_type, "type"},
    {cmd_rank, "rank"},
    {cmd_num_workers, "num_workers"},
    {cmd_is_capable, "is_capable(capability)"},
    {cmd_barrier, "_barrier()"},
    {cmd_send_command, "_send_command_to_servers(head, body)"},
};

void result_release(result *r)
{
    value_release(&r->v);
    value_release(&r->sides.left);
    value_release(&r->sides.right);
    value_release(&r->sides.index);
    value_release(&r->sides.max_diff);
    value_release(&r->sides.differences);
    rows_release(&r->entries);
    rows_release(&r->summary);
    mem_free(r->keys);
    arena_release(&r->names);
}

int result_for_keys(result *r, int64_t n, kv_err *e)
{
    if (!(r->keys = mem_alloc(n, sizeof *r->keys, e)))
        return KV_E_MEMORY;
    int code = value_list_new(&r->v, VALUE_LIST, n, e);
    r->nkeys = code ? 0 : n;
    return code;
}

static bool same_word(const char *name, const char *word, size_t n)
{
    if (strlen(name) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (name[i] != (word[i] == '_' ? '-' : word[i]))
            return false;
    return true;
}

const command *command_find(const char *word, size_t n)
{
    for (const command *c = command_table; c->name; c++)
        if (same_word(c->name, word, n))
            return c;
    return NULL;
}

const char *command_method(const command *c)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].run == c->run)
            return methods[i].method;
    return NULL;
}

const command *command_find_method(const char *name)
{
    for (const command *c = command_table; c->name; c++) {
        const char *method = command_method(c);
        size_t n = method ? strcspn(method, "(") : 0;
        if (n > 0 && strlen(name) == n && memcmp(method, name, n) == 0)
            return c;
    }
    return command_find(name, strlen(name));
}

bool command_can_be_called(const command *c)
{
    for (const command_arg *a = c->args; a->kind != ARG_END; a++) {
        switch (a->kind) {
        case ARG_KEYS:
        case ARG_VALUE:
        case ARG_VALUES:
        case ARG_WORD:
        case ARG_GLOB:
        case ARG_NAME:
        case ARG_FILE:
        case ARG_RULE:
        case ARG_END:
            break;
        case ARG_EXPRS:
        case ARG_WORDS:
        case ARG_SOURCE:
        case ARG_HEREDOC:
        case ARG_CODE:
        case ARG_SWITCH:
        case ARG_BLOCK:
        case ARG_STATEMENT:
        case ARG_EXPLAINED:
            return false;
        }
    }
    return true;
}

void command_call_usage(buf *out, const command *c)
{
    const char *method = command_method(c);
    buf_add(out, "kv.");
    if (method)
        buf_add(out, method);
    for (const char *at = method ? "" : c->name; *at; at++)
        buf_char(out, *at == '-' ? '_' : *at);
    if (!method)
        buf_add(out, "(…)");
}

void command_option_usage(buf *out, const command_option *o)
{
    bool optional = o->kind != OPTION_NEEDED;
    buf_printf(out, optional ? "[--%s" : "--%s", o->name);
    if (o->value)
        buf_printf(out, " %s", o->value);
    if (optional)
        buf_char(out, ']');
}

void command_usage(buf *out, const command *c)
{
    buf_add(out, c->name);
    for (const command_arg *a = c->args; a->kind != ARG_END; a++)
        buf_printf(out, a->optional ? " [%s]" : " %s", a->name);
    if (c->flags & COMMAND_PARAMS)
        buf_add(out, " [--PARAM V]...");
    for (const command_option *o = c->options; o->name; o++) {
        buf_char(out, ' ');
        command_option_usage(out, o);
    }
}

const ast *command_option_of(const ast *call, const char *name)
{
    for (uint32_t i = 0; i < call->n; i++) {
        const ast *kid = call->kid[i];
        if (kid && kid->kind == STMT_OPTION && strcmp(kid->u.text, name) == 0)
            return kid->n > 0 ? kid->kid[0] : kid;
    }
    return NULL;
}

const ast *command_redirect_of(const ast *node, bool to_variable)
{
    for (uint32_t i = 0; i < node->n; i++) {
        const ast *kid = node->kid[i];
        if (kid && kid->kind == STMT_REDIRECT && (kid->op == REDIRECT_VARIABLE) == to_variable)
            return kid;
    }
    return NULL;
}

int command_priority(session *s, const ast *call, kv_call *out, kv_err *e)
{
    const ast *node = command_option_of(call, "priority");
    *out = (kv_call){0};
    return node ? eval_int(s, node, "a priority", &out->priority, e) : KV_OK;
}
