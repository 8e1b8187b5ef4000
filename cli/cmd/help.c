/* help and version, as text and as JSON: everything comes from the tables. */
#include "cmd/help.h"

#include <string.h>
#include <strings.h>

#include "base/suggest.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "io/json_writer.h"
#include "launch/launch_options.h"
#include "options/options.h"
#include "options/shell_option.h"
#include "session/session.h"
#include "session/unit.h"
#include "syntax/function.h"
#include "syntax/prelude.h"
#include "syntax/read_unit.h"
#include "term/line.h"

/* ---- JSON ---- */

static const char *const arg_kinds[] = {
    [ARG_KEYS] = "keys",       [ARG_VALUE] = "value",
    [ARG_VALUES] = "values",   [ARG_EXPRS] = "exprs",
    [ARG_WORD] = "word",       [ARG_GLOB] = "glob",
    [ARG_NAME] = "name",       [ARG_FILE] = "file",
    [ARG_SOURCE] = "file",     [ARG_PATH] = "path",
    [ARG_PATHS] = "paths",     [ARG_RULE] = "rule",
    [ARG_MERGE] = "rule",      [ARG_HEREDOC] = "heredoc",
    [ARG_CODE] = "code",       [ARG_SWITCH] = "switch",
    [ARG_BLOCK] = "block",     [ARG_STATEMENT] = "statement",
    [ARG_EXPLAINED] = "switch or command",
};

static const char *const option_kinds[] = {
    [OPTION_INT] = "integer",   [OPTION_VALUE] = "value", [OPTION_NEEDED] = "value",
    [OPTION_NAME] = "name",     [OPTION_WORD] = "word",   [OPTION_FILE] = "file",
    [OPTION_VALUES] = "values", [OPTION_PATH] = "path",   [OPTION_OUTPUT] = "path",
    [OPTION_RAW] = "text",      [OPTION_RAWS] = "texts",  [OPTION_FLAG] = "flag",
};

/* n bytes of text, without blanks at the end. */
static void put_part(json_writer *w, const char *name, const char *text, size_t n)
{
    own_buf part = {0};
    while (n > 0 && text[n - 1] == ' ')
        n--;
    buf_put(&part, text, n);
    json_text(w, name, buf_text(&part));
    w->out->failed = w->out->failed || part.failed;
}

/* "a, b" as a list of two. */
static void put_list(json_writer *w, const char *name, const char *words)
{
    json_begin(w, name, '[');
    while (words && *words) {
        size_t n = strcspn(words, ",");
        put_part(w, NULL, words, n);
        words += n;
        words += strspn(words, ", ");
    }
    json_end(w, ']');
}

/* The bytes of the first example: a line, and those behind it that it is not complete without. The
 * output is marked when there is no memory to find out. */
static size_t example_length(const char *lines, buf *out)
{
    own_buf text = {0};
    size_t n = 0;
    do {
        n += lines[n] == '\n';
        n += strcspn(lines + n, "\n");
        buf_clear(&text);
        buf_put(&text, lines, n);
    } while (lines[n] && !text.failed && !unit_is_complete(text.data, text.len));
    out->failed = out->failed || text.failed;
    return n;
}

/* Examples "what to type  # what it does". */
static void put_examples(json_writer *w, const char *lines)
{
    json_begin(w, "examples", '[');
    while (lines && *lines) {
        size_t n = example_length(lines, w->out), at = n;
        for (size_t i = 1; i + 1 < n; i++)
            if (memcmp(lines + i - 1, " # ", 3) == 0)
                at = i;
        json_begin(w, NULL, '{');
        put_part(w, "input", lines, at);
        if (at < n)
            put_part(w, "about", lines + at + 2, n - at - 2);
        else
            json_text(w, "about", NULL);
        json_end(w, '}');
        lines += n + (lines[n] == '\n');
    }
    json_end(w, ']');
}

static void put_arguments(json_writer *w, const command *c)
{
    json_begin(w, "args", '[');
    for (const command_arg *a = c->args; a->kind != ARG_END; a++) {
        json_begin(w, NULL, '{');
        json_text(w, "kind", arg_kinds[a->kind]);
        json_text(w, "name", a->name);
        json_bool(w, "optional", a->optional);
        json_end(w, '}');
    }
    json_end(w, ']');
    json_begin(w, "options", '[');
    for (const command_option *o = c->options; o->name; o++) {
        json_begin(w, NULL, '{');
        json_text(w, "kind", option_kinds[o->kind]);
        json_text(w, "name", o->name);
        json_text(w, "value", o->value);
        json_bool(w, "optional", !command_option_is_needed(o));
        json_end(w, '}');
    }
    json_end(w, ']');
    json_bool(w, "params", c->flags & COMMAND_PARAMS);
    json_bool(w, "gives", c->flags & COMMAND_GIVES);
}

static void put_names(json_writer *w, const char *name, const buf *usage, const char *summary)
{
    json_text(w, "name", name);
    json_text(w, "usage", buf_text(usage));
    json_text(w, "summary", summary);
    w->out->failed = w->out->failed || usage->failed;
}

static void put_command(json_writer *w, const command *c)
{
    own_buf usage = {0};
    command_usage(&usage, c);
    json_begin(w, NULL, '{');
    put_names(w, c->name, &usage, c->summary);
    put_arguments(w, c);
    put_examples(w, c->examples);
    put_list(w, "see", c->see);
    put_list(w, "fails", c->fails);
    json_end(w, '}');
}

static void put_function(json_writer *w, const function *f)
{
    own_buf usage = {0};
    function_usage(&usage, f);
    json_begin(w, NULL, '{');
    put_names(w, f->name, &usage, f->help);
    json_begin(w, "params", '[');
    for (int i = 0; f->params[i]; i++) {
        size_t n = strcspn(f->params[i], "=");
        json_begin(w, NULL, '{');
        put_part(w, "name", f->params[i], n);
        json_bool(w, "optional", f->params[i][n]);
        json_end(w, '}');
    }
    json_end(w, ']');
    json_end(w, '}');
}

/* Appends one object, {"v":1,"commands":[…],"functions":[…]}, with c and f alone unless both are
 * NULL. */
static void help_json(buf *out, const command *c, const function *f)
{
    bool all = !c && !f;
    json_writer w = {.out = out};
    json_begin(&w, NULL, '{');
    json_int(&w, "v", 1);
    json_begin(&w, "commands", '[');
    for (const command *one = registry.commands; one->name; one++)
        if (all || one == c)
            put_command(&w, one);
    json_end(&w, ']');
    json_begin(&w, "functions", '[');
    for (const function *one = registry.functions; one->name; one++)
        if (all || one == f)
            put_function(&w, one);
    json_end(&w, ']');
    json_end(&w, '}');
    buf_char(out, '\n');
}

/* ---- Text ---- */

static void command_help(buf *out, const command *c)
{
    buf usage = {0};
    command_usage(&usage, c);
    help_usage(out, buf_text(&usage));
    out->failed = out->failed || usage.failed;
    buf_release(&usage);
    buf_printf(out, "  %s\n", c->summary);
    const char *line = c->examples;
    while (line && *line) {
        const char *end = strchr(line, '\n');
        size_t n = end ? (size_t)(end - line) : strlen(line);
        buf_add(out, "    ");
        buf_put(out, line, n);
        buf_char(out, '\n');
        line += n + (end != NULL);
    }
    if (c->method) {
        buf_add(out, "As a method: ");
        command_call_usage(out, c);
        buf_add(out, ".\n");
    }
    if (c->see)
        buf_printf(out, "See also: %s.\n", c->see);
    if (c->fails)
        buf_printf(out, "Fails with: %s.\n", c->fails);
}

/* A name that is too long for its column has a line of its own. */
static void column(buf *out, const char *name, const char *text)
{
    int n = (int)strlen(name) + 2;
    bool fits = n < HELP_COLUMN;
    buf_printf(out, fits ? "  %s" : "  %s\n", name);
    help_lines(out, text, fits ? n : 0);
}

static void overview(buf *out)
{
    buf_add(out, "Commands (help NAME says more, ?NAME too):\n");
    for (const command *c = registry.commands; c->name; c++)
        column(out, c->name, c->summary);
    buf_add(out, "Statements:\n");
    column(out, "name = expr", "a variable; also += -= *= /= and name[i] = expr");
    column(out, "if, elif, else", "if a > 0 { ... } elif a < 0 { ... } else { ... }");
    column(out, "for, while", "for i in 0..3 { ... }; while a < 10 { ... }; break, continue");
    column(out, "repeat", "repeat 10 { ... }, or one statement");
    column(out, "def", "def f(a, b) { ...; return a }, or def f(a) = a * 2");
    column(out, "updater", "updater scale(by = 2.0) { stored += input * by }");
    column(out, "!command", "run a shell command");
    buf_add(out, "`help language`: the page on it all; `help for`, `help @`: a section of it.\n"
                 "`help checkpoints`: files of models: ls and the other commands on them.\n"
                 "`help rules`: the language of updaters. `help optimizer`: those of the library.\n"
                 "`help lecture`: a lesson of an hour. `help python`: the module for Python.\n");
    buf_add(out, "`help types`: what stores there are; `help dist_sync`: one of them.\n"
                 "`help options`: what stands behind kvctl on its command line.\n"
                 "`help environment`: the variables that are read.\n"
                 "`help launch`: a script as a job of several ranks.\n"
                 "`help attach`: a look at a job that runs; `help jobs`: which ones there are.\n");
    buf_add(out, "Functions:");
    size_t width = 80;
    for (const function *f = registry.functions; f->name; f++) {
        if (width + strlen(f->name) + 1 > 76) {
            buf_add(out, "\n ");
            width = 1;
        }
        buf_printf(out, " %s", f->name);
        width += strlen(f->name) + 1;
    }
    buf_add(out, "\nFunctions in the language itself (help NAME shows them):\n ");
    for (int i = 0; prelude_name(i); i++)
        buf_printf(out, "%s %s", i % 8 ? "" : i ? "\n " : "", prelude_name(i));
    buf_char(out, '\n');
}

/* The methods of a store: the commands that have a call form. */
static void method_list(buf *out)
{
    buf_add(out, "Methods of a store (help NAME says more; help types: what stores there are):\n");
    for (const command *c = registry.commands; c->name; c++) {
        own_buf call = {0};
        if (!c->method || strncmp(c->method, "create", 6) == 0)
            continue;
        command_call_usage(&call, c);
        buf_printf(out, "  %s\n      %s\n", buf_text(&call), c->summary);
        out->failed |= call.failed;
    }
    buf_add(out,
            "  kv = kv.create(name='local')\n      make a store and use it\n"
            "All other commands with keys, files and names have a call form, too: kv.list().\n");
}

/* Concerns, which have words of their own: what to try first. */
static const struct concern {
    const char *words; /* with a blank around each; - for a blank, z of -ize */
    const char *answer;
} concerns[] = {
    {" undo transactions ", "begin; ...; rollback, and rollback alone goes back to the file of -s"},
    {" distributed mpi slurm kubernetes k8s sge ssh cluster hosts ",
     "kvctl launch -n 4 SCRIPT; help launch"},
    {" straggler slow ",
     "if rank() == 2 { sleep 1 }; time pull w is long on the ranks that wait for the slow one;\n  "
     "kvctl jobs, attach JOB -c rounds and explain push name it"},
    {" hang deadlock debug timeout stuck ", "kvctl jobs; attach -c rounds names the rank R;\n  "
     "attach JOB --rank R -c 'print e' reads its variables; launch --timeout 60"},
    {" kill killed stop cancel ",
     "Ctrl-C or SIGTERM ends a launch with all its ranks; a killed rank: help restart"},
    {" threads cores ",
     "KVSTORE_THREADS=4 kvctl SCRIPT; without it one a processor"},
    {" notebook jupyter ", "kvctl --record page.md SCRIPT; in Python: help python"},
    {" port ports firewall hostfile ",
     "kvctl launch -H FILE, with lines HOST[:PORT] of ssh; Open MPI chooses the ports of ranks"},
    {" docker container ", "kvctl launch --launcher k8s --image IMAGE; help launch"},
    {" resume restart crash crashed fault-tolerance ",
     "kvctl launch --checkpoint FILE --checkpoint-every 50 --max-restarts 2;\n  "
     "without launch a script goes on from its store: kvctl -s FILE SCRIPT"},
    {" regex ", "re_sub, re_match; kvctl convert --rename 's/OLD/NEW/'"},
    {" torch pytorch huggingface ", "kvctl convert, ls, diff of .pt; help checkpoints"},
    {" tensorflow keras onnx ", "files that they write as npz or safetensors: help checkpoints"},
    {" jax cupy pip conda venv virtualenv wheel install ",
     "make install PREFIX=$VIRTUAL_ENV, make wheel for pip; help python"},
    {" adapter adapters peft ", "kvctl merge lora BASE ADAPTER --out OUT; help lora"},
    {" numpy npz ", "@w.npy, @w.npz#name, write x w.npy; help files"},
    {" csv category categories categorical labels onehot one-hot percent ",
     "load(\"f.csv\", cols=[\"a\"], cats=[\"a\"], missing=nan, percent=true); write x f.csv"},
    {" gz compression ", "load(\"f.csv.gz\"); set-gradient-compression is for pushes"},
    {" git textconv git-diff ",
     "*.safetensors diff=kvctl in .gitattributes, and then\n  "
     "git config diff.kvctl.textconv "
     "'f() { kvctl --format csv stat \"$1\"; kvctl hash \"$1\"; }; f'"},
    {" mxnet gluon ",
     "help python: import kvstore as mx; help lecture; the prompt takes kv.push(3, v) too"},
    {" ci exit-code exit-codes exit-status tolerance github workflow ",
     "kvctl check FILE, diff A B --rtol 0.01: both exit with 1 for no, and --json has rows;\n  "
     "examples/ci-gate.sh writes the summary of a workflow; all codes: kvctl(1)"},
    {" nan inf ", "kvctl check FILE names the keys and places; isnan, isinf, where"},
    {" json logging logs jq ", "kvctl --json COMMAND; x > x.json; @x.json; kvctl help --json"},
    {" checkpoint model quantized quantization ",
     "kvctl ls, stat, check, convert: help checkpoints"},
    {" memory oom out-of-memory larger-than-memory streaming ",
     "a checkpoint may be larger than memory: none is loaded whole; help checkpoints"},
    {" compare checksum serialize backup ",
     "kvctl diff A B; hash FILE; save FILE: help checkpoints"},
    {" session variables discard ",
     "vars; -s FILE keeps a store; quit --discard leaves FILE as it was; --record"},
    {" random ", "normal, uniform, randint, permutation; kvctl --seed N|random; help seed"},
    {" teach lesson ", "help lecture: a lesson of an hour"},
    {" blanks npy-a ", "@\"a b.npy\", '@\"a b.npy\"' in a shell; (@w.npy) - a; help files"},
    {" gpu cuda ", "ones(2)@gpu(0); kvctl --doctor; kvctl --gpus N makes virtual ones"},
    {" float16 bf16 bfloat16 fp16 fp8 float8 half-precision mixed-precision dtypes quantize ",
     "kvctl convert A B --dtype bf16, f16 or f8_e4m3; x.astype(\"bfloat16\")"},
    {" weight-decay learning-rate schedule scheduler lr_scheduler lr-scheduler momentum ",
     "set-optimizer sgd --momentum 0.9 --wd 1e-4 --lr-scheduler \"factor(step=9, factor=0.5)\""},
    {" gradient-clipping clipping clip-gradient freeze frozen ",
     "set-optimizer sgd --clip-gradient 1; --lr-mult KEY=0 freezes a key"},
    {" warmup warm-up ",
     "set-optimizer sgd --lr-scheduler \"cosine(max_update=100, warmup_steps=10)\""},
    {" early-stopping epoch epochs ",
     "for epoch in 0..9 { ...; if loss < 0.1 { break } }; help for"},
    {" batch batches shuffle dataset dataloader ",
     "x = load(\"f.csv\"); permutation(len(x)) shuffles rows; x[i:j] is a batch; help slices"},
    {" normalize standardize ", "(x - mean(x, axis=0)) / std(x, axis=0)"},
    {" initialize ", "init KEYS VALUES; init w normal((2, 3)); help init"},
    {" synchronize ", "barrier, of all workers; wait, for what was queued"},
    {" tensorboard ", "plot loss > loss.png, also from kvctl attach JOB -c 'plot loss > loss.png'"},
    {" broadcasting ", "x + y with axes of size 1 repeats them; help language values"},
    {" slicing slices ", "x[1:3], x[:, 0], x[::-1], x[x > 0]; help language slices"},
    {" matmul ", "x @ w, as dot(x, w); x@gpu(0) is x on a device, @f.csv an array of a file"},
    {" f-string alias comment ", "f\"{x:.3f}\"; def f(x) = g(x); # goes to the end of the line"},
    {" + * / // % ** == != < <= >= & ",
     "as in Python, of numbers and of arrays; x @ w is a product, a * b joins masks; help values"},
    {" = += -= *= /= ", "x = 1; x += 1; x[0] = 1; help statements; of keys: push, pull"},
    {" ? ", "?push, push? and help push are the same"},
    {" errors error ", "help language statements; expect-error CODE { }; the exit codes: kvctl(1)"},
    {" stdin pipe ", "x = @-; print x | sort; help language files"},
    {" color colors colour colours ", "kvctl --color auto, always or never; help options"},
};

/* Words of several parts, as `weight decay` and weight_decay, are found as weight-decay. */
static const char *concern_of(const char *word)
{
    char sought[64];
    int n = snprintf(sought, sizeof sought, " %s ", word);
    for (int i = 1; i < n - 1 && i < (int)sizeof sought - 1; i++)
        sought[i] = strchr(" _", sought[i]) ? '-' : sought[i];
    for (size_t i = 0; i < sizeof concerns / sizeof *concerns; i++)
        if (strcasestr(concerns[i].words, sought))
            return concerns[i].answer;
    return NULL;
}

/* Returns true if each word of `words`, parted by blanks, stands in one of the texts. */
static bool mention(const char *const texts[3], const char *words)
{
    bool all = true;
    while (all && *(words += strspn(words, " "))) {
        char word[64];
        size_t n = strcspn(words, " ");
        bool plural = n > 3 && words[n - 1] == 's'; /* `sum keys`: a text may have one key */
        snprintf(word, sizeof word, "%.*s", (int)n - plural, words);
        all = false;
        for (int i = 0; i < 3 && !all; i++)
            all = texts[i] && strcasestr(texts[i], word);
        words += n;
    }
    return all;
}

/* Copies a word with z in -ise, -ising and -isation, as the tables have it. False without these. */
static bool with_z(char made[64], const char *word)
{
    bool any = false;
    snprintf(made, 64, "%s", word);
    for (char *at = made; (at = strcasestr(at, "is")); at += 2)
        if (at[2] && strchr("eiaEIA", at[2])) {
            at[1] = 'z';
            any = true;
        }
    return any;
}

/* Prints what to try first for a word that does not name anything; or else the commands and
 * functions whose name or help mentions it, or each of several words. Returns true if it found
 * something. A word of one or two letters is not searched for: too many texts contain it. */
static bool search(buf *out, const char *word)
{
    buf found = {0};
    char other[64];
    const char *first = concern_of(word);
    if (first) {
        buf_printf(out, "%s: %s\n", word, first);
        return true;
    }
    for (const command *c = registry.commands; c->name && strlen(word) > 2; c++)
        if (mention((const char *[]){c->name, c->summary, c->examples}, word))
            column(&found, c->name, c->summary);
    for (const function *f = registry.functions; f->name && strlen(word) > 2; f++)
        if (mention((const char *[]){f->name, f->help, NULL}, word))
            column(&found, f->name, f->help);
    bool any = found.len > 0;
    if (any)
        buf_printf(out, "Nothing is called `%s`; these mention it:\n%s", word, buf_text(&found));
    out->failed |= found.failed;
    buf_release(&found);
    return any || (with_z(other, word) && search(out, other));
}

/* ---- Topics: pages that are about no single command or function ---- */

static const char seed_text[] =
    "uniform, normal, randint and permutation draw random numbers.\n"
    "  kvctl --seed N         the seed of a session; 0 unless given, so each run prints the same\n"
    "  kvctl --seed random    another one each time\n"
    "  seed(N)                the same from here on, on every rank; mx.random.seed(N) does the "
    "same\n"
    "  normal((2), seed=3)    the numbers of this seed, wherever the call stands, on every rank\n"
    "Of a job each rank draws numbers of its own, and rank 0 those that one process would draw.\n"
    "init a,b normal((2)) draws for each key, as init a normal((2)); init b normal((2)) does.\n";

static const struct topic {
    const char *name;
    const char *text;
    void (*show)(buf *out); /* where there is no text; NULL: of the session, list_options */
} topics[] = {
    {"attach", NULL, attach_help}, {"checkpoints", checkpoints_text, NULL},
    {"environment", environment_text, NULL}, {"jobs", NULL, jobs_help}, {"kv", NULL, method_list},
    {"kvstore", NULL, method_list}, {"language", language_text, NULL},
    {"launch", NULL, launch_help}, {"lecture", lecture_text, NULL},
    {"optimizer", NULL, optimizer_list}, {"options", NULL, NULL}, {"python", python_text, NULL},
    {"rules", rules_text, NULL}, {"seed", seed_text, NULL}, {"types", NULL, type_list}};

enum { NTOPICS = sizeof topics / sizeof *topics };

const char *help_topic(int i)
{
    return i < NTOPICS ? topics[i].name : NULL;
}

/* Appends a topic's page. False when there is none of that name. */
static bool topic_help(const session *s, buf *out, const char *name)
{
    for (int i = 0; i < NTOPICS; i++) {
        const struct topic *t = &topics[i];
        void (*show)(buf *) = t->show ? t->show : s->list_options;
        if (strcasecmp(t->name, name) != 0 || (!t->text && !show))
            continue;
        if (t->text)
            buf_add(out, t->text);
        else
            show(out);
        return true;
    }
    return false;
}

/* json: commands and functions alone have rows there. */
static int not_found(const char *word, bool json, kv_err *e)
{
    kv_err_set(e, KV_E_NAME,
             json ? "there is no command or function `%s`" : "there is no help on `%s`", word);
    suggest near = {.word = word};
    for (const command *c = registry.commands; c->name; c++)
        suggest_add(&near, c->name);
    for (const function *f = registry.functions; f->name; f++)
        suggest_add(&near, f->name);
    for (int i = 0; !json && help_topic(i); i++)
        suggest_add(&near, help_topic(i));
    suggest_done(&near, e);
    return kv_err_hint(e, json ? "`help --json` lists them" : "`help` lists everything"), KV_E_NAME;
}

/* Words that a second one may follow, the name of one page. */
static const struct help_group {
    const char *name, *what; /* of an error about the second word: "the name of a merge" */
    bool (*show)(buf *out, const char *word);
    int (*check)(const char *word, kv_err *e);
} groups[] = {
    {"optimizer", "the name of an optimizer", optimizer_show, optimizer_check},
    {"merge", "the name of a merge", merges_show, merges_check},
    {"language", "a word of the language", language_section, language_check},
};

/* The group of a word, in any case: "optimizer", "merge", "language"; or NULL. */
static const struct help_group *group_of(const char *name)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strcasecmp(groups[i].name, name) == 0)
            return &groups[i];
    return NULL;
}

int help_words(buf *out, const char *first, const char *second, kv_err *e)
{
    const struct help_group *g = group_of(first);
    char both[160];
    snprintf(both, sizeof both, "%s %s", first, second);
    const char *words[] = {first, second};
    bool found = (g && g->show(out, second)) ||
                 (strcasecmp(first, "error") == 0 && search(out, first)) || /* a code follows */
                 ((!g || strlen(second) > 2) && search(out, both));
    for (int i = 0; i < 2 && !found; i++)
        found = concern_of(words[i]) && search(out, words[i]);
    return found ? KV_OK : g ? g->check(second, e) : not_found(both, false, e);
}

/* Two words: optimizer adam, or two that are searched for together. */
static int help_on_two(session *s, const ast *call, buf *text, result *out, kv_err *e)
{
    const ast *node = call->kid[1];
    own_buf first = {0};
    const char *word = eval_word(s, call->kid[0], "a word to look up", out, e);
    if (!word)
        return e->code;
    buf_add(&first, word);
    const char *topic = buf_text(&first);
    const struct help_group *g = group_of(topic);
    if (buf_check(&first, e) == KV_OK)
        word = eval_word(s, node, g ? g->what : "a word to look up", out, e);
    if (!e->code && word && help_words(text, topic, word, e))
        unit_at(s, node, e);
    return e->code;
}

/* Appends what a word names: a function may have the name of a command, and either that of a topic
 * or of a section on the language. Types, optimizers and merges are looked for where it names none
 * of these. Returns false when it names nothing. */
static bool show_word(const session *s, buf *out, const char *word)
{
    const command *c = command_find(word, strlen(word));
    const function *f = function_find(word);
    bool topic = topic_help(s, out, word);
    if (c) {
        command_help(out, c);
        if (c->args[0].kind == ARG_MERGE) {
            buf_add(out, "Rules, which help merge NAME shows:\n");
            merges_list(out);
        }
    }
    if (f) {
        function_usage(out, f);
        buf_printf(out, "\n  %s\n", f->help);
    }
    const char *prelude = prelude_text(word);
    if (prelude)
        buf_printf(out, "%s\n", prelude);
    if (f && merges_check(word, &(kv_err){0}) == KV_OK)
        buf_printf(out, "help merge %s: the merge of that name.\n", word);
    topic = topic || (!c && language_section(out, word));
    const char *concern = c || f ? concern_of(word) : NULL;
    if (concern)
        buf_printf(out, "In general: %s\n", concern);
    if (c || f || prelude || topic || type_show(out, word) || optimizer_show(out, word) ||
        merges_show(out, word))
        return true;
    if (session_find_store(s, word) < 0)
        return false;
    method_list(out);
    return true;
}

/* Appends what an option means to kvctl, launch, attach and jobs, and lists the commands that have
 * one of that name. Returns false when nothing has it. */
static bool option_help(buf *out, const char *word)
{
    static const struct {
        const shell_table *table;
        const char *of;
    } tables[] = {{&options_table, "kvctl"},
                  {&launch_table, "kvctl launch"},
                  {&attach_table, "kvctl attach"},
                  {&jobs_table, "kvctl jobs"}};
    size_t from = out->len, n = strlen(word);
    bool named = n > 2 && word[1] == '-', any = false;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const shell_option *o = shell_option_find(tables[i].table, word, n);
        if (!o)
            continue;
        buf_printf(out, "%s:\n", tables[i].of);
        shell_option_line(out, o, 26);
    }
    for (const command *c = registry.commands; c->name && named; c++) {
        if (!command_option_find(c, word + 2, n - 2))
            continue;
        buf_add(out, any ? "" : "Commands that have it:\n");
        column(out, c->name, c->summary);
        any = true;
    }
    return out->len > from;
}

static int help_on(session *s, const ast *node, buf *text, result *out, kv_err *e)
{
    const char *word = eval_word(s, node, "a word to look up", out, e);
    if (!word)
        return e->code;
    char other[64];
    bool found = (*word == '-' && option_help(text, word)) || show_word(s, text, word) ||
                 (with_z(other, word) && show_word(s, text, other)) || search(text, word);
    if (!found && not_found(word, false, e))
        unit_at(s, node, e);
    return e->code;
}

/* The tables of commands and functions: all, or what one word names. */
static int help_as_json(session *s, const ast *call, buf *text, result *out, kv_err *e)
{
    const ast *node = call->kid[0];
    if (call->n > 1 && call->kid[1])
        return unit_err(s, call->kid[1], e, KV_E_USAGE, "help --json takes one word");
    const char *word = node ? eval_word(s, node, "a word to look up", out, e) : NULL;
    if (node && !word)
        return e->code;
    const command *c = word ? command_find(word, strlen(word)) : NULL;
    const function *f = word ? function_find(word) : NULL;
    if (word && !c && !f && not_found(word, true, e))
        return unit_at(s, node, e);
    help_json(text, c, f);
    return KV_OK;
}

int cmd_help(session *s, const ast *call, result *out, kv_err *e)
{
    buf text = {0};
    int rc = KV_OK;
    const ast *first = call->kid[0];
    out->as_json = command_option_of(call, "json") != NULL;
    if (out->as_json)
        rc = help_as_json(s, call, &text, out, e);
    else if (call->n > 1 && call->kid[1])
        rc = help_on_two(s, call, &text, out, e);
    else if (first)
        rc = help_on(s, first, &text, out, e);
    else
        overview(&text);
    return result_text(out, &text, rc, e);
}

void version_build(buf *out)
{
#if defined(__clang__)
    buf_printf(out, "clang %s", __clang_version__);
#else
    buf_printf(out, "gcc %s", __VERSION__);
#endif
    buf_printf(out, ", %d-bit, %s GNU Readline", (int)sizeof(void *) * 8,
               line_can_edit() ? "with" : "without");
}

/* The names of store types by whether they are available. */
typedef struct type_names {
    buf here, missing;
} type_names;

static int add_type_name(void *arg, const kv_field *fields, int n, kv_err *e)
{
    type_names *names = arg;
    bool here = field_number(fields, n, "available");
    (void)e;
    buf_printf(here ? &names->here : &names->missing, " %s", field_text(fields, n, "name"));
    return KV_OK;
}

void version_text(buf *out)
{
    const char *terms = line_can_edit()
                            ? "Apache-2.0; linked with GNU Readline, so this program: GPL-3"
                            : "Apache-2.0; without GNU Readline";
    buf_printf(out, "kvctl %s, libkvstore %s\n", KV_VERSION, kv_version());
    version_build(out);
    buf_char(out, '\n');
    type_names names = {0};
    bool lacks = kv_describe(NULL, "types", add_type_name, &names, NULL) == KV_E_MEMORY;
    buf_printf(out, "types:%s", buf_text(&names.here));
    if (names.missing.len > 0)
        buf_printf(out, "; not available:%s", buf_text(&names.missing));
    buf_char(out, '\n');
    out->failed = out->failed || lacks || names.here.failed || names.missing.failed;
    buf_release(&names.here);
    buf_release(&names.missing);
    buf_printf(out, "%s\n", terms);
}

int cmd_version(session *s, const ast *call, result *out, kv_err *e)
{
    buf text = {0};
    (void)s;
    (void)call;
    version_text(&text);
    return result_text(out, &text, KV_OK, e);
}
