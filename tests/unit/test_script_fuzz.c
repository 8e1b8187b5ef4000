/* Random texts: mutations of scripts and soup of tokens. Whatever a text holds, it is parsed or
 * refused with a finished sentence at a place inside it, the same each time, and nothing is left
 * behind. */
#include <ctype.h>
#include <signal.h>
#include <unistd.h>

#include "complete/complete.h"
#include "language.h"
#include "syntax/parse_statement.h"
#include "syntax/read_unit.h"
#include "test_lang.h"

static const char *const scripts[] = {
    "create local\nshape = (2,3)\ninit 3 ones(shape)*2\na = zeros(shape)\npull 3 -> a; print a\n",
    "b = [ones(shape)@gpu(i) for 4 gpus]\npush 3 b; pull 3 > f-{key}.csv\npull * | head -1\n",
    "set-updater { print \"update on key: %d\" % key; stored += input * 2 }\n",
    "push $keys [[ones(shape) for $n cpus]]*len(keys) --priority -1\npull w,x{0..3},\"a b\" --out "
    "b\n",
    "if a > 0 and not b {\n  push w -1\n} elif f\"{a:.3f}\\u{e9}\" == 'x' { !ls -l; # }\n} else { "
    "break }\n",
    "for i in 0..9 by 2 { while a[i] <= 3 { a[i] += 1 ; continue } }\nrepeat 3 repeat (n + 1) "
    "type\n",
    "def f(a,\n b) { return a ** -2 // b % 3 }\ndef g(x) = x.T[1:, ::2, ...].f(k=1e-3, m=none)\n",
    "updater sgd, mine(momentum = 0.9 in 0..1, lazy = true, t = \"x\") counts after {\n  state key "
    "n = 0\n"
    "  state m, v = stored # c\n  if momentum != 0 { mom = momentum * mom - step; skip }\n  else "
    "if n % 2 == 0 "
    "{ rows present }\n  else { fail \"no\" }\n  stored -= lr * m / (sqrt(v) + 1e-8)\n}\n",
    "x = @m.safetensors#fc1.weight + @\"my file.csv\"[0] + load(\"-\", format='csv')\nwrite x -\n",
    "init (3 - 1),-5,0..9 [1, 2,\n 3] \\\n --priority=1\n?push\nassert(a == b, \"no\")\nset "
    "print.precision 4\n",
    "\xef\xbb\xbf#!/usr/bin/env kvctl\n\xc3\xa4 = 0.5\r\ny=[i*2 for i in [1,-2]]\r\nlist "
    "fc?*[a-z]\r\nquit 3",
    "kv.push(3, ones(2,3)*8)\na = kv.pull([5, 7])\nkv.pull(3) -> c\nsource a.kv\ninfo 3,5 >> "
    "\"x.csv\"; help \"gradient\"",
};

static const char *const words[] = {
    "init",        "push",
    "pull",        "print",
    "set-updater", "updater",
    "state",       "if",
    "else",        "elif",
    "for",         "in",
    "while",       "def",
    "repeat",      "return",
    "a",           "w",
    "3",           "0..3",
    "1.5",         "1e999",
    "-",           "+",
    "*",           "**",
    "//",          "==",
    "<",           ">",
    ">>",          "->",
    "|",           "!",
    "?",           "@",
    "@f.csv",      "#",
    "# c",         "$a",
    "(",           ")",
    "[",           "]",
    "{",           "}",
    ",",           ";",
    "\n",          "\\\n",
    "\\",          "'",
    "\"",          "f\"",
    "f\"{a}\"",    "'a b'",
    "\"\\x\"",     "--p",
    "=",           "+=",
    ":",           "...",
    "..",          ".",
    ".T",          "not",
    "and",         "or",
    "true",        "none",
    "by",          "gpus",
    "inf",         "1 -2",
    "w-",          "x{0..3}",
    "conv*",       "\r",
    "\t",          "\xff",
    "\xc3\xa4",    "9223372036854775808",
    "<<",          "<<END\n",
    "END\n",       "expect-error value",
    "time",        "row",
    "key",
};

enum {
    NSCRIPTS = sizeof scripts / sizeof *scripts,
    NWORDS = sizeof words / sizeof *words,
    TEXT_MAX = 1500
};

typedef struct random_text {
    uint64_t state;
    char text[TEXT_MAX + 64];
    size_t n;
} random_text;

static uint32_t below(random_text *r, uint32_t n)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return (uint32_t)((r->state >> 32) * n >> 32);
}

/* Replaces `drop` bytes at `at` by n bytes. */
static void splice(random_text *r, size_t at, size_t drop, const char *with, size_t n)
{
    if (r->n - drop + n > TEXT_MAX)
        return;
    memmove(r->text + at + n, r->text + at + drop, r->n - at - drop);
    memcpy(r->text + at, with, n);
    r->n = r->n - drop + n;
    r->text[r->n] = '\0';
}

static void mutate(random_text *r)
{
    size_t at = below(r, (uint32_t)r->n + 1), left = r->n - at;
    size_t some = left ? below(r, left < 20 ? (uint32_t)left : 20) : 0;
    const char *word = words[below(r, NWORDS)];
    char byte = (char)below(r, 256), piece[20];
    switch (below(r, 6)) {
    case 0: splice(r, at, 0, word, strlen(word)); break;
    case 1: splice(r, at, some, word, strlen(word)); break;
    case 2: splice(r, at, some, "", 0); break;
    case 3: splice(r, at, left > 0, &byte, 1); break;
    case 4:
        memcpy(piece, r->text + at, some);
        splice(r, at, 0, piece, some);
        break;
    case 5: {
        const char *other = scripts[below(r, NSCRIPTS)];
        size_t from = below(r, (uint32_t)strlen(other)), n = strlen(other + from);
        splice(r, at, 0, other + from, n < 30 ? n : 30);
        break;
    }
    }
}

static void make_text(random_text *r)
{
    r->n = 0;
    r->text[0] = '\0';
    if (below(r, 4) == 0) {
        for (uint32_t n = 1 + below(r, 30); n > 0; n--) {
            const char *word = words[below(r, NWORDS)];
            splice(r, r->n, 0, word, strlen(word));
            if (below(r, 3))
                splice(r, r->n, 0, " ", 1);
        }
        return;
    }
    const char *script = scripts[below(r, NSCRIPTS)];
    splice(r, 0, 0, script, strlen(script));
    for (uint32_t n = 1 + below(r, 3); n > 0; n--)
        mutate(r);
}

/* ---- What must hold ---- */

static void show(const random_text *r, const kv_err *e, const char *what)
{
    printf("# %s: %s at %d:%d-%d \"%s\" in: ", what, kv_code_name(e->code), e->line, e->col, e->end,
           e->text);
    for (size_t i = 0; i < r->n; i++)
        printf(isprint((unsigned char)r->text[i]) ? "%c" : "\\x%02x", (unsigned char)r->text[i]);
    printf("\n");
}

/* Whether a place lies in the text, at most one column behind the end of its line. */
static bool is_inside(const source *s, const kv_err *e)
{
    int line = s->line;
    const char *at = s->text, *end = s->text + s->len;
    for (; line < e->line; line++) {
        at = memchr(at, '\n', (size_t)(end - at));
        if (!at)
            return false;
        at++;
    }
    int columns = 0;
    for (; at < end && *at != '\n'; at++)
        columns += ((unsigned char)*at & 0xc0) != 0x80;
    return e->line >= 1 && e->col >= 1 && e->col <= columns + 1 && e->end > e->col &&
           e->end <= columns + 2;
}

static bool is_sound(const source *s, const ast *node)
{
    if (!node)
        return true;
    if (node->pos > node->end || node->end > s->len ||
        node->height > AST_MAX_HEIGHT + 4 * PARSE_MAX_DEPTH)
        return false;
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i] && (node->kid[i]->height >= node->height || !is_sound(s, node->kid[i])))
            return false;
    return true;
}

static bool is_sentence(const kv_err *e)
{
    return e->text[0] && !strchr(e->text, '\n') && !strchr(e->hint, '\n') && e->code > KV_OK &&
           e->code < KV_NCODES && e->code != KV_E_INTERNAL && e->code != KV_E_MEMORY;
}

/* The number of nodes and a sum of what they are. */
static uint64_t digest(const ast *node)
{
    uint64_t sum = node ? node->kind * 31u + node->op + (uint64_t)node->pos * 977 + node->end : 7;
    for (uint32_t i = 0; node && i < node->n; i++)
        sum = sum * 1099511628211u + digest(node->kid[i]);
    return sum;
}

typedef struct outcome {
    bool ok, incomplete;
    uint64_t digest;
    kv_err e;
} outcome;

static outcome parse_once(const random_text *r)
{
    lang_text t;
    lang_begin_bytes(&t, r->text, r->n);
    language_init();
    const ast *body = statement_parse_all(&t.p);
    outcome o = {body != NULL, t.p.lx.incomplete, digest(body), t.e};
    const char *wrong = (body != NULL) != (t.e.code == KV_OK) ? "an error and a tree"
                        : body && !is_sound(&t.src, body)     ? "a tree that is not sound"
                        : !body && !is_sentence(&t.e)         ? "no sentence"
                        : !body && !is_inside(&t.src, &t.e)   ? "a place outside"
                                                              : NULL;
    if (wrong) {
        show(r, &t.e, wrong);
        CHECK(!wrong);
    }
    lang_end(&t);
    return o;
}

static void check_texts(uint64_t seed, int n)
{
    random_text r = {.state = seed};
    for (int i = 0; i < n; i++) {
        make_text(&r);
        outcome first = parse_once(&r), second = parse_once(&r);
        bool same = first.ok == second.ok && first.incomplete == second.incomplete &&
                    first.digest == second.digest &&
                    memcmp(&first.e, &second.e, sizeof first.e) == 0;
        if (!same)
            show(&r, &first.e, "another outcome");
        CHECK(same);
        if (unit_is_complete(r.text, r.n) != (first.ok || !first.incomplete))
            show(&r, &first.e, "complete");
        CHECK(unit_is_complete(r.text, r.n) == (first.ok || !first.incomplete));
    }
}

TEST(script_fuzz_seeds)
{
    for (int i = 0; i < NSCRIPTS; i++) {
        random_text r = {.state = 1};
        splice(&r, 0, 0, scripts[i], strlen(scripts[i]));
        outcome o = parse_once(&r);
        if (!o.ok)
            show(&r, &o.e, "a script");
        CHECK(o.ok);
    }
}

TEST(script_fuzz_texts)
{
    check_texts(test_seed(20151203), test_random(8000));
}

/* Keys, rules and paths by themselves, from the first byte on. */
TEST(script_fuzz_parts)
{
    random_text r = {.state = test_seed(42)};
    for (int64_t i = 0, n = test_random(4000); i < n; i++) {
        make_text(&r);
        for (int part = 0; part < 4; part++) {
            lang_text t;
            rule_ast *rule = NULL;
            lang_begin_bytes(&t, r.text, r.n);
            const void *got = part == 0   ? (void *)parse_keys(&t.p)
                              : part == 1 ? (void *)parse_path(&t.p)
                              : part == 2
                                  ? (void *)parse_literal(&t.p)
                                  : (parse_rule(&rule, &t.src, &t.nodes, &t.e), (void *)rule);
            if (!got && (!is_sentence(&t.e) || !is_inside(&t.src, &t.e)))
                show(&r, &t.e, "part");
            CHECK((got != NULL) == (t.e.code == KV_OK));
            CHECK(got || (is_sentence(&t.e) && is_inside(&t.src, &t.e)));
            lang_end(&t);
        }
    }
}

/* When memory runs out anywhere, it is an error like any other. */
TEST(script_fuzz_memory)
{
    random_text r = {.state = test_seed(7)};
    for (int64_t i = 0, n = test_random(3300); i < n; i++) {
        make_text(&r);
        lang_text t;
        lang_begin_bytes(&t, r.text, r.n);
        mem_fail_at(1 + below(&r, 60));
        language_init();
        const ast *body = statement_parse_all(&t.p);
        mem_fail_at(0);
        if ((body != NULL) != (t.e.code == KV_OK))
            show(&r, &t.e, "memory");
        CHECK((body != NULL) == (t.e.code == KV_OK));
        lang_end(&t);
    }
}

/* ---- Half-written text ---- */

/* Completion and hints read what is typed at every key. A text that takes them longer than this, in
 * seconds, is an endless loop. */
#define COMPLETION_SECONDS 10

static random_text being_typed;

static void too_long(int sig)
{
    (void)sig;
    show(&being_typed, &(kv_err){0}, "completion does not end");
    fflush(stdout);
    _exit(1);
}

/* Types a text byte by byte, and asks for offers and the hint at some of them. */
static void type(session *s, const random_text *r)
{
    char text[sizeof r->text];
    random_text *now = &being_typed;
    memcpy(text, r->text, sizeof text);
    *now = *r;
    alarm(COMPLETION_SECONDS);
    for (now->n = 0; now->n <= r->n; now->n++) {
        parse_cursor at;
        arena nodes = {0};
        now->text[now->n] = '\0';
        unit_cursor(&at, &nodes, now->text, now->n);
        CHECK(at.word <= now->n && at.statement <= at.word && at.rule <= at.word);
        arena_release(&nodes);
        if (now->n % 16 == 0 || now->n == r->n) {
            OWN(line_words_release) line_words offers = {0};
            own_buf hint = {0};
            complete_words(s, now->text, now->n, &offers);
            complete_hint(s, now->text, now->n, &hint);
        }
        now->text[now->n] = text[now->n];
    }
    alarm(0);
}

static void type_texts(uint64_t seed, int n)
{
    random_text r = {.state = seed};
    OWN(session_release) session s = {0};
    language_init();
    session_init(&s);
    signal(SIGALRM, too_long);
    for (int i = 0; i < n; i++) {
        make_text(&r);
        type(&s, &r);
    }
}

TEST(script_fuzz_completion)
{
    type_texts(test_seed(20260117), (int)test_random(160));
}

TEST(script_fuzz_completion_of_seeds)
{
    random_text r = {.state = 1};
    OWN(session_release) session s = {0};
    language_init();
    session_init(&s);
    signal(SIGALRM, too_long);
    for (int i = 0; i < NSCRIPTS; i++) {
        r.n = 0;
        splice(&r, 0, 0, scripts[i], strlen(scripts[i]));
        type(&s, &r);
    }
}
