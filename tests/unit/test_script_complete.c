/* Completion and hints: what is offered for a text with the cursor behind it, and what is not. */
#include "language.h"
#include "test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "../memory.h"
#include "complete/complete.h"
#include "session/unit.h"
#include "syntax/read_unit.h"
#include "run/run.h"

/* A session with keys, variables, a function, an updater and a second store. */
static void begin(session *s)
{
    static const char text[] =
        "create; create --name b; use kv; init fc1.weight ones(2); init fc1.bias 1\n"
        "init \"two words\" 1; init conv 1; init c-1 1\n"
        "learning_rate = 0.5; list_of = [1, 2]; g = gpu(1)\n"
        "def halve(x, parts) = x / 2\n"
        "updater scale(by = 2.0, warm_up = 1) { stored += input * by }\n";
    kv_err e = {0};
    unit *u;
    language_init();
    session_init(s);
    s->out.quiet = true;
    char *copy = mem_text(text, strlen(text), &e);
    CHECK_OK(unit_read(s, &u, "<test>", copy, strlen(text), 1, NULL, &e));
    CHECK_OK(unit_run(s, u, &e));
}

/* The words that are offered, joined by blanks; "a b ..." when there are more than `most`. */
static const char *words(session *s, const char *text, int most)
{
    static char all[16384];
    line_words got = {0};
    complete_words(s, text, strlen(text), &got);
    all[0] = '\0';
    for (int64_t i = 0; i < got.n && i < most; i++) {
        strcat(all, i > 0 ? "|" : "");
        strcat(all, got.words[i]);
    }
    if (got.n > most)
        strcat(all, "|...");
    line_words_release(&got);
    return all;
}

static bool offers(session *s, const char *text, const char *word)
{
    line_words got = {0};
    bool found = false;
    complete_words(s, text, strlen(text), &got);
    for (int64_t i = 0; i < got.n; i++)
        found = found || strcmp(got.words[i], word) == 0;
    line_words_release(&got);
    return found;
}

typedef struct expected {
    const char *text, *words;
} expected;

static void check_words(const expected *cases, size_t n)
{
    OWN(session_release) session s = {0};
    begin(&s);
    for (size_t i = 0; i < n; i++) {
        const char *got = words(&s, cases[i].text, 12);
        if (strcmp(got, cases[i].words) != 0)
            printf("# %s<Tab>\n", cases[i].text);
        CHECK_TEXT(got, cases[i].words);
    }
}

/* The rows of a table. */
#define CHECK_WORDS(...)                                                                           \
    check_words((const expected[]){__VA_ARGS__},                                                   \
                sizeof((const expected[]){__VA_ARGS__}) / sizeof(expected))

TEST(script_complete_statements)
{
    CHECK_WORDS(
        {"pus", "push|pushpull"}, {"!true\npus", "push|pushpull"},
        {"if a {\n!true\nprint 1 | cat\npus", "push|pushpull"},
        {"!pus", ""},                                {"set-up", "set-updater"},
        {"rep", "repeat|repeat(|replace(|repr("},    {"learn", "learning_rate"},
        {"hal", "halve("},                           {"print 1; pus", "push|pushpull"},
        {"for i in 1..2 {\n  pus", "push|pushpull"}, {"if true { pus", "push|pushpull"},
        {"if true { } els", "else"},                 {"repeat 3 pus", "push|pushpull"},
        {"time pus", "push|pushpull"},               {"# pus", ""},
        {"!pus", ""},                                {"?pus", "push|pushpull"},
        {"print 1 # pus", ""},
        {"if learning_rate:\n  pus", "push|pushpull"}, {"kv> pus", "push|pushpull"},
        /* a mistake ends with its statement, and nothing is known of the rest of that */
        {"print );\npus", "push|pushpull"}, {"x = [1, 2\npull 3\npus", "push|pushpull"},
        {"push conv --what 1 learn", ""},   {"repeat 2 { print ); pus", "push|pushpull"});
}

TEST(script_complete_keys)
{
    CHECK_WORDS(
        {"pull fc", "fc1.bias|fc1.weight"},
        {"pull ", "\"two words\"|c-1|conv|fc1.bias|fc1.weight"},
        {"pull two", "\"two words\""}, {"pull \"two", "two words\""},
        {"pull fc1.bias,con", "conv"}, {"pull [conv, fc1.b", "fc1.bias"},
        {"pull $li", "list_of"},       {"pull conv ", ""},
        {"push con", "conv"},          {"list con", "conv"},
        {"info conv,", "\"two words\"|c-1|conv|fc1.bias|fc1.weight"},
        {"x = has(\"con", "conv\""}, {"kv.pull(\"con", "conv\""});
}

TEST(script_complete_values)
{
    CHECK_WORDS(
        {"push conv lea", "learning_rate"},
        {"push conv learning_rate lis", "list(|list_of"},
        {"x = lea", "learning_rate"}, {"x = 1 + lea", "learning_rate"},
        {"print lea", "learning_rate"},
        {"print learning_rate, lis", "list(|list_of"}, {"if lea", "learning_rate"},
        {"x = learning_rate lea", ""},                 {"x = learning_rate an", "and"},
        {"x = 12", ""},                                {"x = \"lea", ""},
        {"x = f\"lea", ""},                            {"for i i", "in"},
        {"for lea", ""},                               {"for i in lis", "list(|list_of"},
        {"x = [i for lea", ""},                        {"x = learning_rate.asty", "astype("},
        {"kv.row", "row_sparse_pull("},                {"kv.rown", ""},
        {"kv.exp", ""}, /* explain and expect have no call form */
        {"kv.set_u", "set_updater("}, {"push conv (2 + lea", "learning_rate"},
        {"def lea", ""},              {"def f(lea", ""},
        {"create --name lea", ""},    {"pull conv -> lea", "learning_rate"},
        {"pull conv --out lea", "learning_rate"});
}

TEST(script_complete_words_of_commands)
{
    CHECK_WORDS(
        {"use ", "b|kv"}, {"help pus", "push|pushpull"}, {"set print.p", "print.precision"},
        {"set print.format ", "\"csv\"|\"json\"|\"legacy\"|\"mxnet\"|\"numpy\"|\"raw\"|\"repr\""},
        {"set print.format \"l", "legacy\""}, {"set-updater ", "assign|scale"},
        {"set-updater sc", "scale"}, {"set-updater scale --", "--by|--fresh|--warm-up"},
        {"set-optimizer ada", "adabelief|adadelta|adagrad|adam|adamax|adamw"},
        {"set-optimizer sc", "scale"}, {"set-gradient-compression ", "1bit|2bit|none"},
        {"set-gradient-compression 2bit --th", "--threshold"},
        {"set-optimizer sgd --mom", "--momentum"},
        {"set-optimizer Adam --be", "--begin-num-update|--beta1|--beta2"},
        {"set-optimizer adam --be 1 --lr", "--lr-mult|--lr-scheduler"},
        {"set-optimizer adam --lr-scheduler f", "factor("}, {"set-optimizer --up", "--update"},
        {"set-optimizer adam be", "begin_num_update=|beta1=|beta2="},
        {"set-optimizer adam wd=0.1 lr", "lr_mult=|lr_scheduler="},
        {"set-updater { sto", "stored"}, {"set-updater { stored += flo", "floor("},
        {"set-updater { stored += is", "isfinite(|isnan("},
        {"set-updater { stored += ro", "round(|rowmax(|rowmean(|rowmin(|rows present|rowsum("},
        {"set-updater { stored += ma", "matmul(|max(|maximum("},
        {"updater f(by = 1) {\n  state moment\n  stored += mo", "moment"},
        {"expect-error sha", "shape"}, {"expect-error key { pul", "pull"},
        {"echo o", "off|on"},          {"push conv 1 --p", "--priority"},
        {"pull conv --", "--ctx|--ignore-sparse|--out|--priority|--since"},
        {"pull conv --out g --", "--ctx|--ignore-sparse|--priority|--since"},
        {"pull conv --ignore-sparse f", "false"},
        {"row-sparse-pull conv --", "--ctx|--out|--priority|--row-ids"},
        {"pull conv --ctx c", "cpu(0)"}, {"create loc", "local"}, {"merge tie", "ties"},
        {"merge dare", "dare_linear|dare_ties"}, {"merge ties a --de", "--density"},
        {"merge dare-ties a --s", "--scale|--seed|--shard-size|--strict"},
        {"merge ties a --density 0.5 --", "--base|--density|--drop-metadata|--dtype|"
                                          "--exclude|--force|--keep-first|--metadata|"
                                          "--normalize|--out|--raw|--scale|..."},
        {"merge ties a --weights le", "learning_rate|len("}, {"merge ties a --dtype BF", "BF16"},
        {"merge { merged = mo", "models"}, {"merge { merged = tr", "trimmed_mean(|true"},
        {"merge { fo", "for"}, {"help merge ti", "ties"}, {"help optimizer nad", "nadam"},
        {"help language lo", "loops"}, {"help language st", "statements|stores|strings"});
    OWN(session_release) session s = {0};
    begin(&s);
    CHECK(offers(&s, "create ", "local"));
    CHECK(offers(&s, "create ", "device"));
    CHECK(!offers(&s, "create local ", "local"));
}

TEST(script_complete_parameters)
{
    CHECK_WORDS(
        {"ones(2, dt", "dtype="}, {"ones(2, dtype=\"float", "float16\"|float32\"|float64\""},
        {"ones(2, dtype=bf", "\"bfloat16\""},
        {"ones(2, dtype=", "\"bfloat16\"|\"bool\"|\"float16\"|\"float32\"|\"float64\"|\"int32\"|"
                           "\"int64\"|\"int8\"|\"uint8\""},
        {"ones(2, ctx=c", "cpu(0)"}, {"ones(2)@gpu(3", ""}, {"ones(2)@c", "cpu(0)"},
        {"ones(2)@g", "g|gpu(0)|gpu(1)|gpu(2)|gpu(3)|gpu(4)|gpu(5)|gpu(6)|gpu(7)"},
        {"a.astype(\"int", "int32\"|int64\"|int8\""}, {"load(\"x\", header=", "false|true"},
        {"load(\"x\", format=\"nd", "ndjson\""});
}

static void make_file(const char *name)
{
    FILE *f = fopen(name, "w");
    CHECK(f != NULL);
    fclose(f);
}

TEST(script_complete_files)
{
    static const expected cases[] = {
        {"a = @gra", "grad-1.csv|grad-2.csv"},
        {"a = @", "\"my file.json\"|data/|grad-1.csv|grad-2.csv"},
        {"a = @\"my", "my file.json\""},             {"a = @my", "\"my file.json\""},
        {"a = @data/", "data/w.npy"},                {"push conv @gr", "grad-1.csv|grad-2.csv"},
        {"pull conv > gr", "grad-1.csv|grad-2.csv"}, {"g > gr", "grad-1.csv|grad-2.csv"},
        {"g > l", "learning_rate|list_of"},          {"print g > l", "learning_rate|list_of"},
        {"g >> l", ""},                              {"pull conv > l", ""},
        {"x = g > gr", ""},                          {"print g > gr", "grad-1.csv|grad-2.csv"},
        {"assert g > gr", ""},
        {"a = load(\"gr", "grad-1.csv\"|grad-2.csv\""},
        {"write g gr", "grad-1.csv|grad-2.csv"},
        {"write g ", "\"my file.json\"|data/|grad-1.csv|grad-2.csv"},
        {"save-states gr", "grad-1.csv|grad-2.csv"},   {"load-states da", "data/"},
        {"load-states --", ""},                        {"save-states x --", "--dump-optimizer"},
        {"info 3 --", "--cluster|--metrics|--states"}, {"source ", "data/|train.kv"},
        {"ls gr", "grad-1.csv|grad-2.csv"},
        {"ls ", "\"my file.json\"|data/|grad-1.csv|grad-2.csv|notes.md|train.kv"},
        {"ls \"my", "my file.json\""}, {"ls 'no", "notes.md'"},
        {"ls ./d", "./data/"},         {"if true { ls no", "notes.md"},
        {"ls grad-1.csv ", "\"my file.json\"|data/|grad-1.csv|grad-2.csv|notes.md|train.kv"},
        {"ls grad-1.csv *", ""},       {"ls data/ gr", "grad-1.csv|grad-2.csv"},
        {"ls data/ --exclude gr", ""}, {"source \"tr", "train.kv\""},
        {"pull conv | gr", ""},
    };
    char folder[64], before[4096];
    CHECK(getcwd(before, sizeof before) != NULL);
    CHECK(mkdtemp(memory_path(folder, sizeof folder, "complete")) != NULL);
    CHECK(chdir(folder) == 0 && mkdir("data", 0700) == 0);
    static const char *const files[] = {"grad-1.csv",   "grad-2.csv", "train.kv", "notes.md",
                                        "my file.json", "data/w.npy", ".hidden.csv"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        make_file(files[i]);
    check_words(cases, sizeof cases / sizeof *cases);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(files[i]);
    CHECK(rmdir("data") == 0 && chdir(before) == 0 && rmdir(folder) == 0);
}

TEST(script_complete_hints)
{
    static const expected cases[] = {
        {"push", " KEYS VALUES [--priority N]"}, {"push ", "KEYS VALUES [--priority N]"},
        {"push 3", " VALUES [--priority N]"},    {"push 3 ", "VALUES [--priority N]"},
        {"push 3 1", " [--priority N]"},         {"push 3 a", " [--priority N]"},
        {"push 3 a --priority 1", ""},           {"push 3 a --pri", ""},
        {"pus", ""},
        {"create", " [TYPE] [--name N] [--staleness N]"},
        {"pull a -> ", ""}, {"pull a > ", ""},
        {"set-optimizer", " [NAME] [--PARAM V]... [--update] [--fresh]"},
        {"set-optimizer --update ", "[NAME] [--fresh]"},
        {"print 1; use ", "NAME"},                    {"x = 1", ""},
        {"# push", ""},                               {"for", " NAME in EXPR { ... }"},
        {"for ", "NAME in EXPR { ... }"},             {"repeat", " N STATEMENT | { ... }"},
        {"halve(", "x, parts)"},                      {"halve(1", ", parts)"},
        {"halve(1, ", "parts)"},                      {"x = full(", "shape, v, dtype=, ctx=)"},
        {"x = full(2", ", v, dtype=, ctx=)"},         {"x = full(2, ", "v, dtype=, ctx=)"},
        {"x = full(2, 1, dtype=\"int8\"", ", ctx=)"}, {"x = ones(2,3", ", dtype=, ctx=)"},
        {"x = sqrt(2)", ""},                          {"print \"push ", ""},
        {"pull", " KEYS [--out V] [--ctx DEVS] [--priority N] [--ignore-sparse B] [--since ROUND]"},
        {"row-sparse-pull", " KEYS --row-ids IDS [--out V] [--ctx DEVS] [--priority N]"},
    };
    OWN(session_release) session s = {0};
    begin(&s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        own_buf hint = {0};
        complete_hint(&s, cases[i].text, strlen(cases[i].text), &hint);
        if (strcmp(buf_text(&hint), cases[i].words) != 0)
            printf("# hint of %s\n", cases[i].text);
        CHECK_TEXT(buf_text(&hint), cases[i].words);
    }
}
