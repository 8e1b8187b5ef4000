/* Hints for words of other languages and programs, from tables of these words. Letters alone
 * would take ln for len and pow for pop, and looking into $PATH would find names of variables, too.
 * A word of Python is refused only where it begins a statement as Python has it, so that a variable
 * may have its name. */
#include "syntax/hints.h"

#include <stddef.h>
#include <string.h>

#include "base/suggest.h"
#include "lang/lex.h"
#include "syntax/parse_statement.h"

/* The hint for a word. */
typedef struct word_hint {
    const char *word, *hint;
} word_hint;

static bool is_word(const char *name, const char *word, size_t n)
{
    return strlen(name) == n && memcmp(name, word, n) == 0;
}

static bool hint_word(const word_hint *table, size_t rows, const char *word, size_t n, kv_err *e)
{
    for (size_t i = 0; i < rows; i++)
        if (is_word(table[i].word, word, n)) {
            kv_err_hint(e, "%s", table[i].hint);
            return true;
        }
    return false;
}

#define HINT_WORD(table, word, n, e) hint_word(table, sizeof table / sizeof *table, word, n, e)

/* ---- Variables ---- */

void hint_variable(const source *src, const ast *call,
                   bool (*is_variable)(void *arg, const char *name), void *arg, kv_err *e)
{
    for (uint32_t i = 0; i < call->n; i++) {
        const ast *word = call->kid[i];
        int line, col;
        if (word && word->kind == STMT_OPTION) /* that of `c = kv.create()` begins with its word */
            word = word->n == 1 && word->pos < word->kid[0]->pos ? word->kid[0] : NULL;
        bool bare = word && word->kind == AST_TEXT && word->end > word->pos &&
                    lex_is_letter(src->text[word->pos]) && !strchr("\"'", src->text[word->end - 1]);
        if (!bare || !is_variable(arg, word->u.text) || !strstr(e->text, word->u.text))
            continue;
        source_locate(src, word->pos, &line, &col);
        if (e->line == line && e->col == col)
            e->hint[0] = '\0';
        kv_err_hint(e, "`%s` is a word here; $%s is what the variable holds", word->u.text,
                    word->u.text);
    }
}

/* ---- The shell, and the command line of kvctl ---- */

/* Words with a hint of their own. Names that a variable may well have (id, env, free) are in
 * neither table. An expression begins with `nvidia` of nvidia-smi. */
static const word_hint shell_hints[] = {
    {"cd", "kvctl stays in its folder; !cd DIR && COMMAND runs one in another"},
    {"dump", "ls FILE lists the keys of a file, stat FILE their numbers"},
    {"hist", "plot --hist @FILE draws how many of its values lie where"},
    {"histogram", "plot --hist @FILE draws how many of its values lie where"},
    {"inspect", "ls FILE lists the keys of a file, stat FILE their numbers"},
    {"man", "help COMMAND is the page of a command"},
    {"nvidia", "!nvidia-smi runs it in a shell, and doctor says which GPUs can be used"},
    {"sudo", "! before the line runs it in a shell"}};

static const char *const programs[] = {
    "awk",        "bash", "cat",  "chmod", "cp",     "curl",    "date", "df",    "du",    "find",
    "git",        "grep", "gzip", "head",  "htop",   "less",    "make", "mkdir", "mv",    "nano",
    "nvidia-smi", "pip",  "ps",   "pwd",   "python", "python3", "rm",   "rmdir", "rsync", "scp",
    "sed",        "sh",   "ssh",  "tail",  "tar",    "tmux",    "top",  "touch", "uname", "unzip",
    "vi",         "vim",  "wc",   "wget",  "which",  "whoami",  "xargs"};

const char *const process_words[] = {"attach",     "jobs",        "launch", "launch-rank",
                                     "launch-ssh", "launch-tell", "serve",  NULL};

bool is_process_word(const char *word, size_t n)
{
    for (size_t i = 0; process_words[i]; i++)
        if (is_word(process_words[i], word, n))
            return true;
    return false;
}

const char *process_word_page(const char *word, size_t n)
{
    for (size_t i = 0; i < PROCESS_WORDS_OF_USERS; i++)
        if (is_word(process_words[i], word, n))
            return process_words[i];
    return "launch";
}

bool hint_shell(const char *word, size_t n, kv_err *e)
{
    if (is_process_word(word, n)) {
        kv_err_hint(e, "!kvctl %.*s …; help %s", (int)n, word, process_word_page(word, n));
        return true;
    }
    if (HINT_WORD(shell_hints, word, n, e))
        return true;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (is_word(programs[i], word, n)) {
            kv_err_hint(e, "!%s runs it in a shell", programs[i]);
            return true;
        }
    return false;
}

bool hint_command(const char *word, size_t n, kv_err *e)
{
    static const char jobs[] = "kvctl jobs lists the jobs, kvctl jobs NAME the line of each rank";
    static const word_hint words[] = {
        {"kvctl", "this is kvctl already: begin with the next word; !kvctl … runs another"},
        {"get", "pull shows the value of a key"},
        {"show", "pull shows the value of a key, print that of a variable"},
        {"put", "push hands a value to a key, init gives it the first one"},
        {"load", "`@` reads a file: a = @FILE; kvctl -s FILE has its store; source runs a script"},
        {"average", "merge average A B --out OUT makes the mean of checkpoints"},
        {"export", "save FILE writes the store, convert A OUT a checkpoint in another form"},
        {"run", "kvctl FILE runs a script, kvctl launch -n 2 FILE a job of two workers"},
        {"ps", jobs}, {"status", jobs}, {"top", jobs},
        {"watch", "kvctl attach JOB plot loss draws what a job has so far"},
        {"strip", "convert A OUT --exclude 'optimizer*' leaves keys out"},
        {"let", "a variable needs no word before it: x = 3"},
        {"var", "a variable needs no word before it: x = 3"}};
    return HINT_WORD(words, word, n, e);
}

bool hint_output(const char *word, size_t n, kv_err *e)
{
    bool is = n >= 2 && memcmp(word, "-o", 2) == 0;
    if (is)
        kv_err_hint(e, "merge, patch and apply have --out OUT; convert ends in it: convert A OUT");
    return is;
}

bool hint_shell_path(const char *statement, size_t n, kv_err *e)
{
    static const char *const begins[] = {"./", "../", "~/", "/"};
    size_t end = 0;
    while (end < n && !strchr(" \n;", statement[end]))
        end++;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        size_t len = strlen(begins[i]);
        if (end <= len || memcmp(statement, begins[i], len) != 0)
            continue;
        kv_err_hint(e, "!%.*s runs a program in a shell; source runs a script of kvctl", (int)end,
                    statement);
        return true;
    }
    return false;
}

/* ---- Statements of Python ---- */

typedef struct refusal {
    const char *word, *why, *hint;
} refusal;

static const refusal statements[] = {
    {"class", "there are no classes",
     "an optimizer is a rule: help rules; a dict holds values by names: d = {'lr': 0.1}; d['lr']"},
    {"try", "there is no try", "expect-error CODE { … } asks that a block fails"},
    {"except", "there is no try", "expect-error CODE { … } asks that a block fails"},
    {"finally", "there is no try", "expect-error CODE { … } asks that a block fails"},
    {"with", "the language has no `with`",
     "load(\"a.csv\") reads a file, a > a.csv writes one; autograd is not here"},
    {"del", "there is no del",
     "delete KEYS removes keys of the store, l.pop(0) an item of a list, d.pop('k') one of a dict"},
    {"global", "a function sets no variables around it", "return the new value: n = f(n)"},
    {"nonlocal", "a function sets no variables around it", "return the new value: n = f(n)"},
    {"raise", "there is no raise", "assert false, \"why\""},
    {"lambda", "there is no lambda", "def f(x): return x + 1"},
    {"yield", "there are no generators", "return a list"},
    {"async", "there is no async", "def f(x): …; a store works beside the script by itself"},
    {"await", "there is no async", "wait waits for a store"},
    {"match", "there is no match", "if x == 1: … elif x == 2: …"},
};

static const word_hint modules[] = {
    {"os", "env(\"HOME\"), glob(\"*.csv\"), script_dir()"},
    {"sys", "args holds the words behind the script's name; exit(1) leaves"},
    {"time", "sleep 1 waits a second; time pull w, time { push w 1; pull w } measure"},
    {"math", "functions have no module here: sqrt(2), exp(1), pi"},
    {"random", "uniform(3), normal(3), randint(3, low=0, high=9), permutation(5)"},
    {"json", "load(\"a.json\") reads arrays; a > a.json writes them"},
    {"glob", "glob(\"*.csv\")"},
    {"csv", "load(\"a.csv\", cols=[0, 1])"},
    {"torch",
     "functions have no module here: ones(2, 3), dot(a, b); ones(2, 3)@gpu(0) is on a device"},
};

/* Returns true if the text behind this word follows neither a variable nor a call. */
static bool begins_statement(const parser *p, uint32_t end)
{
    bool blank = lex_is_blank(parse_char(p, end));
    char c = parse_char(p, parse_past_blanks(p, end));
    bool value = lex_is_word_char(c) || c == '"' || c == '\'';
    return c == ':' || c == '\n' || c == '\0' || (blank && value);
}

bool refuse_statement(parser *p)
{
    token t = *parse_peek(p);
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!parse_is_word(p, statements[i].word) || !begins_statement(p, t.end))
            continue;
        parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "%s", statements[i].why);
        kv_err_hint(p->e, "%s", statements[i].hint);
        return true;
    }
    if (t.kind == TOK_NAME && parse_char(p, t.end) == ':' && !parse_is_word(p, "else")) {
        parse_fail(p, t.end, t.end + 1, KV_E_UNSUPPORTED, "a name has no type");
        kv_err_hint(p->e, "x = 3");
        return true;
    }
    return false;
}

bool refuse_lambda(parser *p)
{
    token t = *parse_peek(p);
    if (!parse_is_word(p, "lambda") || !begins_statement(p, t.end))
        return false;
    parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "there is no lambda");
    kv_err_hint(p->e, "an updater is a rule, set-updater { stored += input * 2 }, or a "
                      "def f(key, input, stored): …");
    return true;
}

bool hint_module(const char *name, kv_err *e)
{
    return HINT_WORD(modules, name, strlen(name), e);
}

bool refuse_module(parser *p)
{
    static const char *const known[] = {"mxnet", "mx",  "kvstore",   "numpy", "np",
                                        "nd",    "d2l", "__future__"};
    token t = *parse_peek(p);
    const char *name = t.kind == TOK_NAME ? parse_token_text(p, &t) : NULL;
    if (!name || NAME_AMONG(name, known) >= 0)
        return p->e->code != KV_OK;
    parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "there is no module `%s`", name);
    const char *file = p->lx.src->name, *dot = file ? strrchr(file, '.') : NULL;
    if (dot && strcmp(dot, ".py") == 0)
        kv_err_hint(p->e, "python3 runs a program of Python; kvctl launch --python, one a rank");
    hint_module(name, p->e);
    kv_err_hint(p->e, "all functions are there without an import: help lists them");
    return true;
}

/* ---- Functions of NumPy and PyTorch ---- */

static const char random[] = "uniform((2, 3), low=-1, high=1), normal((2, 3)), "
                             "randint((2, 3), high=9) and permutation(9) draw random numbers; "
                             "seed=N repeats them, and kvctl --seed N all of a session";

static const char hist[] = "plot --hist x draws one; sum(x > 1) counts";

bool hint_name(const char *name, kv_err *e)
{
    if (strcmp(name, "hist") == 0 || strcmp(name, "histogram") == 0)
        kv_err_hint(e, "%s", hist);
    else if (strcmp(name, "newaxis") == 0)
        kv_err_hint(e, "none is a new axis: x[:, none]");
    else if (strcmp(name, "random") == 0)
        kv_err_hint(e, "%s", random);
    else if (strcmp(name, "int") == 0 || strcmp(name, "float") == 0 || strcmp(name, "bool") == 0)
        kv_err_hint(e, "`%s` is a function: %s(…); a dtype is a text: \"%s\"", name, name,
                    *name == 'i' ? "int64" : *name == 'f' ? "float32" : name);
    else
        return hint_module(name, e);
    return true;
}

static const word_hint functions[] = {
    {"add", "x + y"}, {"assert_allclose", "assert allclose(a, b)"}, {"avg", "mean(x)"},
    {"cast", "x.astype(\"float16\")"}, {"cat", "concat(a, b) joins arrays"},
    {"cbrt", "x ** (1 / 3)"}, {"choice", "x[randint(3, high=len(x))] takes three items"},
    {"cross", "the vector product is not a function here"}, {"cuda", "x@gpu(0) is on a device"},
    {"divide", "x / y"}, {"dropna", "x[~isnan(x).any(axis=1)]"},
    {"einsum", "a @ b, sum(a * b, axis=0), transpose(a)"},
    {"exists", "\"a\" in keys()"}, {"expm1", "exp(x) - 1"}, {"fill", "x[:] = 0"},
    {"fillna", "where(isnan(x), 0, x)"}, {"filter", "[x for x in l if x > 0]"},
    {"genfromtxt", "@x.csv; load(\"x.csv\", cols=[0, 1]) reads some columns"},
    {"hist", hist}, {"histogram", hist},
    {"input", "args holds the words behind the script's name; @- reads stdin"},
    {"inv", "linear algebra ends at a @ b and norm(x) here"},
    {"isclose", "abs(a - b) <= 1e-8 + 1e-5 * abs(b)"},
    {"isinstance", "type(x) is the class of x, dtype(x) that of the elements"},
    {"item", "float(x), int(x)"}, {"length", "len(x)"}, {"ljust", "f\"{s:<8}\""}, {"ln", "log(x)"},
    {"load_checkpoint", "load(\"m-0001.params\") reads the arrays of a file"},
    {"loadtxt", "@x.csv; load(\"x.csv\", cols=[0, 1]) reads some columns"},
    {"log10", "log(x) / log(10)"}, {"log1p", "log(1 + x)"}, {"log2", "log(x) / log(2)"},
    {"logical_and", "a * b of masks, `and` of conditions"},
    {"logspace", "10 ** linspace(0, 3, num=4)"}, {"map", "[f(x) for x in l]"},
    {"matmul", "a @ b, or dot(a, b)"},
    {"meshgrid", "reshape(y, (3, 1)) + x: axes of size 1 are repeated; broadcast_to(x, (3, 2))"},
    {"mod", "x % y"}, {"multiply", "x * y"}, {"nan_to_num", "where(isnan(x), 0, x)"},
    {"numpy", "an array is NumPy's kind already: leave it out"},
    {"open", "load(\"a.csv\") reads a file; a > a.csv writes one"}, {"permute", "transpose(x)"},
    {"pow", "x ** y"}, {"rand", random}, {"randn", random}, {"random", random},
    {"read_csv", "load(\"x.csv\", missing=nan); cats=[\"city\"] makes codes of a column's texts"},
    {"rjust", "f\"{s:>8}\""},
    {"row_sparse_array", "row_sparse(data, row_ids, shape)"},
    {"save", "a > x.npy writes an array; `save FILE`, a command, the store"},
    {"savetxt", "a > x.csv"},
    {"scatter", "plot y draws values in their order; there are no plots of x and y"},
    {"setdefault", "if 'k' not in d { d['k'] = 0 }"}, {"shuffle", "x = x[permutation(len(x))]"},
    {"subtract", "x - y"},
    {"svd", "linear algebra ends at a @ b and norm(x) here"},
    {"tensor", "array([1, 2])"}, {"time", "time pull w, time { push w 1; pull w } measure"},
    {"to", "x@gpu(0), x.astype(\"float16\")"},
    {"tolist", "list(x) of a vector; [list(row) for row in x] of a matrix"},
    {"trace", "sum(a * eye(len(a)))"},
    {"tril", "a * (reshape(arange(3), (3, 1)) >= arange(3)) of three rows and columns"},
    {"triu", "a * (reshape(arange(3), (3, 1)) <= arange(3)) of three rows and columns"},
    {"variance", "var(x)"}, {"view", "reshape(x, (2, 3)) is a copy"}};

bool hint_function(const char *name, kv_err *e)
{
    return HINT_WORD(functions, name, strlen(name), e);
}
