/* The command table: how each command is read. What help shows of it, its examples too, is its
 * section of cmd/texts/commands.txt. */
#include "checkpoints/checkpoints.h"
#include "cmd/commands.h"
#include "files/files.h"
#include "language.h"
#include "run/run.h"
#include "session/session.h"

/* Options of several commands: FLAG has no value; OUTPUT is of those that write a checkpoint. */
#define FLAG(name) {name, OPTION_FLAG, NULL}
#define PRIORITY   {"priority", OPTION_INT, "N"}
#define EXCLUDE    {"exclude", OPTION_RAWS, "GLOB"}
#define DTYPE      {"dtype", OPTION_RAWS, "[GLOB=]T"}
#define OUTPUT                                                                                     \
    {"shard-size", OPTION_RAW, "5G"}, {"metadata", OPTION_RAWS, "K=V"}, FLAG("drop-metadata"),     \
        FLAG("strict"), FLAG("raw"), FLAG("weights-only"), FLAG("force")

/* Options that exclude each other, and options that need another one. */
#define PAIRS(...)                .pairs = (const command_pair[]){__VA_ARGS__, {0}}
#define APART(option, other, why) {option, {other}, false, why, NULL}
#define OUT_OR_CTX APART("out", "ctx", "--out keeps the devices of its arrays: no --ctx")

/* Legend. What a command does not have is left out; what stands behind goes on in this order.
 *   args      how each argument is read and how usage lines call it; true: may be left out
 *   options   name, how the value is read, how usage lines call the value
 *   flags     COMMAND_*: what a redirect can take; whether --PARAM VALUE is allowed; whether attach
 *             runs it
 *   PAIRS     options that exclude or need each other
 */
const command command_table[] = {
    {"create", {{ARG_WORD, "TYPE", true}},
     {{"name", OPTION_NAME, "N"}, {"staleness", OPTION_VALUE, "N"}},
     COMMAND_CHANGES | COMMAND_CHOOSES, cmd_create, .method = "create(name='local')",
     .check = check_type},
    {"use", {{ARG_NAME, "NAME", false}}, .flags = COMMAND_CHOOSES, cmd_use},
    {"init", {{ARG_KEYS, "KEYS", false}, {ARG_VALUES, "VALUES", false}}, {PRIORITY},
     COMMAND_ONE_EACH | COMMAND_CHANGES | COMMAND_EXPLAINED, cmd_init,
     .method = "init(key, value)"},
    {"push", {{ARG_KEYS, "KEYS", false}, {ARG_VALUES, "VALUES", false}}, {PRIORITY},
     COMMAND_PRINTS | COMMAND_CHANGES | COMMAND_EXPLAINED, cmd_push,
     .method = "push(key, value, priority=0)"},
    {"pull", {{ARG_KEYS, "KEYS", false}},
     {{"out", OPTION_VALUE, "V"}, {"ctx", OPTION_VALUE, "DEVS"}, PRIORITY,
      {"ignore-sparse", OPTION_VALUE, "B"}, {"since", OPTION_VALUE, "ROUND"}},
     COMMAND_GIVES | COMMAND_EXPLAINED | COMMAND_READS, cmd_pull,
     .method = "pull(key, out=None, priority=0, ignore_sparse=True)",
     PAIRS(OUT_OR_CTX, APART("since", "ignore-sparse", "--since fills no row_sparse arrays"),
           {"since", {"out"}, true, "--since needs --out, the arrays that hold the round",
            "none at first: pull KEYS --out w --since none -> r"})},
    {"row-sparse-pull", {{ARG_KEYS, "KEYS", false}},
     {{"row-ids", OPTION_NEEDED, "IDS"}, {"out", OPTION_VALUE, "V"}, {"ctx", OPTION_VALUE, "DEVS"},
      PRIORITY},
     COMMAND_GIVES, cmd_row_sparse_pull,
     .method = "row_sparse_pull(key, out=None, priority=0, row_ids)", PAIRS(OUT_OR_CTX)},
    {"pushpull", {{ARG_KEYS, "KEYS", false}, {ARG_VALUES, "VALUES", false}},
     {{"out", OPTION_VALUE, "V"}, PRIORITY}, COMMAND_GIVES | COMMAND_CHANGES | COMMAND_EXPLAINED,
     cmd_pushpull, .method = "pushpull(key, value, out=None, priority=0)"},
    {"broadcast", {{ARG_KEYS, "KEYS", false}, {ARG_VALUES, "VALUES", false}},
     {{"out", OPTION_VALUE, "V"}, PRIORITY},
     COMMAND_GIVES | COMMAND_ONE_EACH | COMMAND_CHANGES | COMMAND_EXPLAINED, cmd_broadcast,
     .method = "broadcast(key, value, out, priority=0)"},
    {"delete", {{ARG_KEYS, "KEYS", false}}, .flags = COMMAND_CHANGES, cmd_delete},
    {"rename", {{ARG_KEYS, "KEY", false}, {ARG_KEYS, "NEW", false}}, .flags = COMMAND_CHANGES,
     cmd_rename},
    {"set-updater", {{ARG_RULE, "NAME | { RULE }", false}}, {FLAG("fresh")},
     COMMAND_PARAMS | COMMAND_ALL_KEYS | COMMAND_CHANGES, cmd_set_updater,
     .method = "_set_updater(updater)"},
    {"set-optimizer", {{ARG_RULE, "NAME", true}}, {FLAG("update"), FLAG("fresh")},
     COMMAND_PARAMS | COMMAND_ALL_KEYS | COMMAND_CHANGES, cmd_set_updater,
     .method = "set_optimizer(optimizer)", .check = check_params,
     PAIRS(APART("update", "fresh", "--update keeps the states, --fresh drops them"),
           APART("decay-names", "update",
                 "--decay-names is set with the optimizer, not changed later"))},
    {"save", {{ARG_FILE, "FILE", false}, {ARG_PATHS, "GLOB...", true}},
     {EXCLUDE, DTYPE, {"metadata", OPTION_RAWS, "K=V"}, {"shard-size", OPTION_RAW, "5G"},
      FLAG("force"), FLAG("strict"), {"patch-from", OPTION_PATH, "CKPT"}},
     COMMAND_WRITES, .run = cmd_save,
     PAIRS(APART("shard-size", "patch-from", "a patch is one file: no --shard-size"),
           APART("force", "patch-from", "a patch is one file: no --force"))},
    {"save-states", {{ARG_FILE, "FILE", false}}, {FLAG("dump-optimizer")}, COMMAND_WRITES,
     cmd_save_states, .method = "save_optimizer_states(fname, dump_optimizer=False)"},
    {"load-states", {{ARG_FILE, "FILE", false}}, .flags = COMMAND_ALL_KEYS | COMMAND_CHANGES,
     cmd_load_states, .method = "load_optimizer_states(fname)"},
    {"set-gradient-compression", {{ARG_WORD, "2bit|1bit|none", false}},
     {{"threshold", OPTION_VALUE, "T"}, FLAG("pull")}, COMMAND_ALL_KEYS | COMMAND_CHANGES,
     cmd_set_gradient_compression,
     .method = "set_gradient_compression(compression_params: type, threshold=0.5, pull=False)",
     .check = check_compression},
    {"list", {{ARG_GLOB, "GLOB", true}}, .flags = COMMAND_GIVES | COMMAND_READS | COMMAND_LOCKS,
     cmd_list},
    {"info", {{ARG_KEYS, "KEYS", true}}, {FLAG("states"), FLAG("cluster"), FLAG("metrics")},
     COMMAND_GIVES | COMMAND_READS | COMMAND_LOCKS, .run = cmd_info},
    {"rounds", .flags = COMMAND_GIVES | COMMAND_READS, cmd_rounds},
    {"ls", {{ARG_PATH, "CKPT...", false}, {ARG_PATHS, "GLOB...", true}},
     {EXCLUDE, FLAG("fold"), FLAG("long"), FLAG("all")}, COMMAND_GIVES, .run = cmd_ls,
     PAIRS(APART("long", "fold",
                "--long tells where each key stands, and --fold counts keys: give one"))},
    {"convert", {{ARG_PATHS, "CKPT... OUT [GLOB...]", false}},
     {EXCLUDE, DTYPE, {"rename", OPTION_RAWS, "s/RE/TO/"}, OUTPUT},
     COMMAND_GIVES, /* with --dry-run: old and new names */
     .run = cmd_convert},
    {"merge", {{ARG_MERGE, "RULE", false}, {ARG_PATHS, "CKPT... [GLOB...]", false}},
     {{"out", OPTION_OUTPUT, "OUT"}, {"base", OPTION_PATH, "CKPT"},
      {"weights", OPTION_VALUES, "0.5,0.3,..."}, EXCLUDE, DTYPE, FLAG("keep-first"), OUTPUT},
     COMMAND_PARAMS, cmd_merge, .check = cmd_merge_check},
    {"stat", {{ARG_PATH, "CKPT...", true}, {ARG_PATHS, "GLOB...", true}}, {EXCLUDE, FLAG("raw")},
     COMMAND_GIVES | COMMAND_READS, .run = cmd_stat},
    {"check", {{ARG_PATH, "CKPT...", false}, {ARG_PATHS, "GLOB...", true}},
     {{"like", OPTION_PATH, "OTHER"}, EXCLUDE, FLAG("allow-zeros"), FLAG("all")}, COMMAND_GIVES,
     .run = cmd_check},
    {"diff", {{ARG_PATH, "A", false}, {ARG_PATH, "B", false}, {ARG_PATHS, "GLOB...", true}},
     {{"rtol", OPTION_VALUE, "R"}, {"atol", OPTION_VALUE, "A"}, {"ulps", OPTION_INT, "N"},
      {"rename", OPTION_RAWS, "s/RE/TO/"}, EXCLUDE, FLAG("brief"), {"top", OPTION_INT, "N"},
      {"sort", OPTION_WORD, "max_abs|rms|rel|ulps|equal|cosine|key"}, FLAG("fold"), FLAG("raw")},
     COMMAND_GIVES, .run = cmd_diff,
     PAIRS(APART("fold", "brief", "--brief shows names, and --fold is about numbers: give one"))},
    {"hash", {{ARG_PATH, "CKPT...", false}, {ARG_PATHS, "GLOB...", true}},
     {EXCLUDE, FLAG("sha256"), {"verify", OPTION_PATH, "FILE"}, FLAG("all")}, COMMAND_GIVES,
     .run = cmd_hash,
     PAIRS(APART("sha256", "verify",
                "--verify knows the kind of hash by its length: leave --sha256 out"))},
    {"patch", {{ARG_PATHS, "A B", false}}, {{"out", OPTION_OUTPUT, "P"}, FLAG("chain")},
     COMMAND_GIVES, .run = cmd_patch},
    {"apply", {{ARG_PATHS, "P... A", false}},
     {{"out", OPTION_PATH, "B"}, FLAG("in-place"), {"shard-size", OPTION_RAW, "5G"},
      FLAG("weights-only"), FLAG("force")},
     COMMAND_GIVES, .run = cmd_apply,
     PAIRS(APART("out", "in-place", "--out or --in-place, not both"),
           {"", {"out", "in-place"}, true, "nothing says where the result goes",
            "--out B, or --in-place"})},
    {"type", .flags = COMMAND_GIVES | COMMAND_READS, cmd_call_function, .method = "type"},
    {"rank", .flags = COMMAND_GIVES | COMMAND_READS, cmd_call_function, .method = "rank"},
    {"num-workers", .flags = COMMAND_GIVES | COMMAND_READS, cmd_call_function,
     .method = "num_workers"},
    {"is-capable", {{ARG_WORD, "CAP", false}}, .flags = COMMAND_GIVES | COMMAND_READS,
     cmd_call_function, .method = "is_capable(capability)", .check = check_capability},
    {"register", {{ARG_NAME, "NAME", false}},
     {{"base", OPTION_WORD, "TYPE"}, {"plugin", OPTION_FILE, "FILE.so"}}, COMMAND_REGISTERS,
     .run = cmd_register},
    {"barrier", .flags = COMMAND_EXPLAINED, cmd_barrier, .method = "_barrier()"},
    {"done", .run = cmd_call_store, .on_store = kv_done},
    {"send-command", {{ARG_VALUE, "HEAD", false}, {ARG_WORD, "BODY", false}},
     .run = cmd_send_command, .method = "_send_command_to_servers(head, body)"},
    {"begin", .run = cmd_call_store, .on_store = kv_begin},
    {"commit", .options = {FLAG("disk")}, .run = cmd_commit},
    {"rollback", .run = cmd_rollback},
    {"undo", .run = cmd_undo},
    {"wait", .run = cmd_call_store, .on_store = kv_wait},
    {"print", {{ARG_EXPRS, "EXPR[, EXPR]...", false}},
     .flags = COMMAND_PRINTS | COMMAND_SAVES | COMMAND_READS, cmd_print},
    {"plot", {{ARG_VALUES, "EXPR...", false}},
     {FLAG("heat"), FLAG("hist"), FLAG("histogram"), FLAG("log"), {"title", OPTION_WORD, "T"},
      {"xlabel", OPTION_WORD, "T"}, {"ylabel", OPTION_WORD, "T"}, {"bins", OPTION_INT, "N"}},
     COMMAND_PRINTS | COMMAND_DRAWS | COMMAND_READS, .run = cmd_plot,
     PAIRS({"heat", {"hist", "histogram"}, false, "--heat and --hist do not go together", NULL},
           {"bins", {"hist", "histogram"}, true, "--bins is for --hist", NULL})},
    {"write", {{ARG_VALUE, "VALUE", false}, {ARG_FILE, "FILE", false}}, .flags = COMMAND_WRITES,
     cmd_write, .check = check_write},
    {"assert", {{ARG_EXPRS, "EXPR [, TEXT]", false}}, .run = cmd_assert},
    {"expect", {{ARG_HEREDOC, "<<END", false}}, .flags = COMMAND_EXPECTS, cmd_expect},
    {"expect-error", {{ARG_CODE, "CODE", false}, {ARG_BLOCK, "{ ... }", false}},
     .flags = COMMAND_RUNS | COMMAND_EXPECTS_ERROR, cmd_expect_error},
    {"sleep", {{ARG_VALUE, "SECONDS", false}}, .run = cmd_call_function},
    {"time", {{ARG_STATEMENT, "STATEMENT | { ... }", false}},
     {{"runs", OPTION_INT, "N"}, FLAG("no-wait")}, COMMAND_RUNS, .run = cmd_time},
    {"explain", {{ARG_EXPLAINED, "on|off|COMMAND", false}},
     .flags = COMMAND_RUNS | COMMAND_GIVES | COMMAND_READS | COMMAND_LOCKS, cmd_explain},
    {"profile", {{ARG_FILE, "FILE|off", false}}, .flags = COMMAND_WRITES | COMMAND_READS,
     cmd_profile},
    {"echo", {{ARG_SWITCH, "on|off", false}}, .run = cmd_echo},
    {"set", {{ARG_WORD, "NAME", true}, {ARG_VALUE, "VALUE", true}},
     .flags = COMMAND_GIVES | COMMAND_SETS, cmd_set},
    {"vars", .flags = COMMAND_GIVES, cmd_vars},
    {"source", {{ARG_SOURCE, "FILE", false}}, .flags = COMMAND_CHANGES | COMMAND_SOURCES,
     cmd_source},
    {"help", {{ARG_WORD, "WORD", true}, {ARG_WORD, "NAME", true}}, {FLAG("json")},
     COMMAND_GIVES | COMMAND_READS, cmd_help, .check = check_help},
    {"history", {{ARG_VALUE, "COUNT", true}}, .flags = COMMAND_GIVES, cmd_history},
    {"doctor", .flags = COMMAND_PRINTS, cmd_doctor},
    {"version", .flags = COMMAND_GIVES | COMMAND_READS, cmd_version},
    {"quit", {{ARG_VALUE, "CODE", true}}, {FLAG("discard")}, .run = cmd_quit},
    {"exit", {{ARG_VALUE, "CODE", true}}, {FLAG("discard")}, .run = cmd_quit},
#ifdef COMMANDS_MORE /* of a program that includes this table */
    COMMANDS_MORE,
#endif
    {0},
};

void language_init(void)
{
    registry.commands = command_table;
    registry.functions = function_table;
    for (int c = 0, i = 0; c < 129; registry.first[c++] = i)
        while (i < function_count && function_table[i].name[0] < c)
            i++;
    registry.run_block = run_block;
    registry.define = run_def;
    registry.run_method_call = run_method_call;
    registry.load = load_eval;
}
