/* A word is refused only where it begins a statement as Python has it, so that a variable may have
 * its name. */
#include "syntax/refuse.h"

#include <string.h>

typedef struct refusal {
    const char *word, *why, *hint;
} refusal;

static const refusal statements[] = {
    {"class", "there are no classes", "a dict holds values by names: d = {'lr': 0.1}; d['lr']"},
    {"try", "there is no try", "expect-error CODE { … } asks that a block fails"},
    {"except", "there is no try", "expect-error CODE { … } asks that a block fails"},
    {"finally", "there is no try", "expect-error CODE { … } asks that a block fails"},
    {"with", "there is no with", "a = load(\"a.csv\") reads a file; a > a.csv writes one"},
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

static const refusal modules[] = {
    {"os", "", "env(\"HOME\"), glob(\"*.csv\"), script_dir()"},
    {"sys", "", "args holds the words behind the script's name; exit(1) leaves"},
    {"time", "", "time { … } measures a block"},
    {"math", "", "functions stand alone: sqrt(2), exp(1), pi"},
    {"random", "", "uniform(3), normal(3), randint(3, low=0, high=9), permutation(5)"},
    {"json", "", "load(\"a.json\") reads arrays; a > a.json writes them"},
    {"glob", "", "glob(\"*.csv\")"},
    {"csv", "", "load(\"a.csv\", cols=[0, 1])"},
    {"torch", "", "functions stand alone: ones(2, 3), dot(a, b); ones(2, 3)@gpu(0) is on a device"},
};

/* Returns true if what stands behind the word that ends here follows no variable and is no call. */
static bool begins_statement(const parser *p, uint32_t end)
{
    bool blank = lex_is_blank(parse_char(p, end));
    while (lex_is_blank(parse_char(p, end)))
        end++;
    char c = parse_char(p, end);
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
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        if (strcmp(modules[i].word, name) == 0) {
            kv_err_hint(e, "%s", modules[i].hint);
            return true;
        }
    }
    return false;
}

bool refuse_module(parser *p)
{
    static const char *const known[] = {"mxnet", "mx",  "kvstore",   "numpy", "np",
                                        "nd",    "d2l", "__future__"};
    token t = *parse_peek(p);
    const char *name = t.kind == TOK_NAME ? parse_token_text(p, &t) : NULL;
    bool is_known = !name;
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        is_known |= strcmp(known[i], name) == 0;
    if (is_known)
        return p->e->code != KV_OK;
    parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "there is no module `%s`", name);
    const char *file = p->lx.src->name, *dot = file ? strrchr(file, '.') : NULL;
    if (dot && strcmp(dot, ".py") == 0)
        kv_err_hint(p->e, "python3 runs a program of Python; kvctl launch --python, one a rank");
    hint_module(name, p->e);
    kv_err_hint(p->e, "all functions are there without an import: help lists them");
    return true;
}
