/* Pages: entries with their prompts, and between them their outputs, pasted, typed at the prompt,
 * or compared with what they give now (--verify). And the session behind the prompt: what repl.h
 * asks of an interpreter, answered by cli/run. */
#include "pages.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "complete/complete.h"
#include "lang/lex.h"
#include "out/record.h"
#include "out/transcript.h"
#include "run/run.h"
#include "session/unit.h"
#include "session/visit.h"
#include "syntax/read_unit.h"
#include "term/repl.h"
#include "term/signals.h"
#include "term/terminal.h"

/* ---- Entries ---- */

/* To find out if an entry goes on behind a prompt all of it is parsed again, which is not done for
 * larger ones. */
#define OPEN_MAX 16384

/* The bytes of a line, with its newline. */
static size_t line_bytes(const char *text, size_t n)
{
    const char *newline = memchr(text, '\n', n);
    return newline ? (size_t)(newline - text) + 1 : n;
}

static bool is_blank_line(const char *line, size_t n)
{
    while (n > 0 && letter_is_blank(line[n - 1]))
        n--;
    return n == 0;
}

/* Returns true if the text is a page: its first line has a prompt. Reports of errors may stand
 * before it. */
static bool page_is(const char *text, size_t n)
{
    source src = {.text = text, .len = (uint32_t)n, .line = 1, .col = 1};
    lexer lx;
    if (n > SOURCE_MAX)
        return false;
    lex_init(&lx, &src);
    return lx.transcript;
}

/* Returns true if n bytes of text, with `end` behind them, are complete. */
static bool is_complete(const char *text, size_t n, const char *end)
{
    own_buf copy = {0};
    buf_put(&copy, text, n);
    buf_add(&copy, end);
    return buf_check(&copy, NULL) || unit_is_complete(buf_text(&copy), copy.len);
}

/* Some pages have the prompt of an entry in front of each line of a block, too: what is indented
 * behind it, and `else`, goes on. */
static bool begins_entry(const char *line, size_t n)
{
    size_t margin = lex_margin(line, n);
    const char *text = line + margin;
    size_t left = n - margin;
    bool more = left >= 4 && (memcmp(text, "else", 4) == 0 || memcmp(text, "elif", 4) == 0);
    return lex_begins_entry(line, n) && !more && !(left > 0 && lex_is_blank(*text));
}

/* The bytes of the first entry of a page, with its output: up to the next line with the prompt of
 * an entry, unless the entry is not complete there. */
static size_t page_entry(const char *text, size_t n)
{
    size_t end = 0;
    bool begun = false;
    while (end < n) {
        size_t line = line_bytes(text + end, n - end);
        /* The prompt behind it ends a block that is written by indentation. */
        if (begins_entry(text + end, line)) {
            if (begun && (end > OPEN_MAX || is_complete(text, end, ">>> 0")))
                return end;
            begun = true;
        }
        end += line;
    }
    return n;
}

/* Returns true if two lines differ in blanks at most. */
static bool same_line(const char *a, size_t n, const char *b, size_t m)
{
    for (size_t i = 0, k = 0;; i++, k++) {
        while (i < n && letter_is_blank(a[i]))
            i++;
        while (k < m && letter_is_blank(b[k]))
            k++;
        if (i == n || k == m)
            return i == n && k == m;
        if (a[i] != b[k])
            return false;
    }
}

static bool holds_line(const buf *shown, const char *line, size_t n)
{
    const char *text = buf_text(shown);
    size_t left = shown->len, m;
    for (; left > 0; text += m, left -= m) {
        m = line_bytes(text, left);
        if (same_line(line, n, text, m))
            return true;
    }
    return false;
}

/* The bytes of the lines that text begins with and that stand in `shown` as well. Blanks do not
 * count: NumPy has printed `[ 2.  2.]` and `[2. 2.]`. */
static size_t page_shown(const char *text, size_t n, const buf *shown)
{
    size_t end = 0, line;
    for (; end < n; end += line) {
        line = line_bytes(text + end, n - end);
        if (lex_margin(text + end, line) ||
            !(is_blank_line(text + end, line) || holds_line(shown, text + end, line)))
            break;
    }
    return end;
}

/* Returns true if a text that cannot be read holds more than one entry: its first is complete
 * before it ends. */
static bool page_has_several(const char *text, size_t n)
{
    size_t end = 0, line;
    for (; end < n && end < OPEN_MAX; end += line) {
        line = line_bytes(text + end, n - end);
        if (!is_blank_line(text, end) && !is_blank_line(text + end, n - end) &&
            is_complete(text, end, ""))
            return true;
    }
    return false;
}

/* ---- Pages as tests ---- */

/* Pages are gone through once, line by line. The text outside entries is kept as it is, so that an
 * updated page differs from the old one only in outputs. */

/* A page being gone through. */
typedef struct verifier {
    session *s;
    const char *path;
    const char *at, *end; /* the rest of the page */
    int line;             /* the number of the line at `at` */
    bool fences;          /* the page has some */
    bool python;          /* its prompts are those of Python, `>>> ` */
    char fence;           /* the character of the one that is open, or 0 */
    size_t fence_length;
    size_t indent; /* blanks in front of it */
    buf updated;   /* the page with the new outputs */
    int entries, wrong;
} verifier;

/* ---- Lines ---- */

/* The line at `at`, its newline included. */
static size_t line_length(const verifier *v)
{
    return line_bytes(v->at, (size_t)(v->end - v->at));
}

static size_t blanks_at(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && (text[i] == ' ' || text[i] == '\t'))
        i++;
    return i;
}

/* The part of the fence's indentation that the line at `at` has. */
static size_t indentation(const verifier *v)
{
    size_t has = blanks_at(v->at, line_length(v));
    return has < v->indent ? has : v->indent;
}

static size_t prompt_here(const verifier *v, bool more)
{
    size_t skip = indentation(v), n = line_length(v) - skip;
    return v->python ? lex_python_prompt(v->at + skip, n, more) : lex_prompt(v->at + skip, n, more);
}

/* Goes past a line, which the updated page keeps. */
static void keep_line(verifier *v)
{
    size_t n = line_length(v);
    buf_put(&v->updated, v->at, n);
    v->at += n;
    v->line++;
}

/* ---- Fences ---- */

/* The number of fence characters at the begin of the line, and the character; 0 if it is no
 * fence. */
static size_t fence_at(const char *text, size_t n, char *sign)
{
    size_t from = blanks_at(text, n), i = from;
    *sign = from < n ? text[from] : '\0';
    if (*sign != '`' && *sign != '~')
        return 0;
    while (i < n && text[i] == *sign)
        i++;
    return i - from >= 3 ? i - from : 0;
}

/* Returns true if the line closes the open fence: it is as long as the opening one or longer, with
 * nothing behind it. */
static bool closes(const verifier *v)
{
    char sign;
    size_t n = line_length(v), length = fence_at(v->at, n, &sign);
    size_t end = blanks_at(v->at, n) + length;
    return v->fence && sign == v->fence && length >= v->fence_length &&
           is_blank_line(v->at + end, n - end);
}

static bool at_fence(verifier *v)
{
    char sign;
    size_t n = line_length(v), length = fence_at(v->at, n, &sign);
    if (v->fence) {
        if (!closes(v))
            return false;
        v->fence = '\0';
        v->indent = 0;
    } else if (length > 0) {
        v->fence = sign;
        v->fence_length = length;
        v->indent = blanks_at(v->at, n);
    }
    return length > 0;
}

/* ---- Entries ---- */

/* Appends the text of an entry's line, without its prompt. */
static void take_entry_line(verifier *v, buf *entry, bool more)
{
    size_t n = line_length(v), skip = indentation(v) + prompt_here(v, more);
    buf_put(entry, v->at + skip, n - skip);
    keep_line(v);
}

/* The empty lines that a text ends in. */
static const char *empty_lines(const buf *text)
{
    size_t i = text->len;
    while (i > 0 && letter_is_blank(text->data[i - 1]))
        i--;
    const char *newline = i > 0 ? strchr(text->data + i, '\n') : NULL;
    return newline ? newline + 1 : i > 0 ? "" : buf_text(text);
}

/* Appends lines as they stand in the page. */
static void put_indented(verifier *v, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        if (n > 0)
            buf_repeat(&v->updated, ' ', (int64_t)v->indent);
        buf_put(&v->updated, text, n);
        buf_char(&v->updated, '\n');
        text += n + (text[n] == '\n');
    }
}

/* Runs an entry; what it prints and how it fails goes to got. Only what must end the whole is an
 * error here. */
static int run_entry(verifier *v, const buf *entry, int line, sink *got, kv_err *e)
{
    kv_err failed = {0};
    session *s = v->s;
    unit *u = NULL;
    char *text = mem_text(buf_text(entry), entry->len, &failed);
    sink_push(s, got);
    if (text && unit_read(s, &u, v->path, text, entry->len, line, NULL, &failed) == KV_OK)
        unit_run(s, u, &failed);
    if (failed.code)
        report_text(s, &failed, &got->text);
    sink_pop(s, got);
    s->leaving = false; /* a page may end in quit, and what follows is another day */
    s->exit_code = 0;
    unit_drop(s, u);
    return session_interrupted(s, e);
}

/* ---- Comparing ---- */

/* The end of the place of an error at the begin of a line, `FILE:3:8: error[`; 0 if there is
 * none. */
static size_t error_place(const char *text, size_t n, size_t *column)
{
    static const char mark[] = ": error[";
    const char *at = memmem(text, n, mark, sizeof mark - 1);
    const char *p = at;
    int numbers = 0;
    *column = 0;
    if (!at)
        return 0;
    while (p > text && numbers < 2) {
        const char *digits = p;
        while (digits > text && digits[-1] >= '0' && digits[-1] <= '9')
            digits--;
        if (digits == p || digits == text || digits[-1] != ':')
            break;
        if (numbers == 0)
            *column = (size_t)(digits - text);
        p = digits - 1;
        numbers++;
    }
    return numbers == 2 ? (size_t)(at - text) : 0;
}

/* Returns true if the line is `  in FILE:12`, a caller below an error. */
static bool is_frame(const char *text, size_t n)
{
    size_t i = n;
    while (i > 0 && text[i - 1] >= '0' && text[i - 1] <= '9')
        i--;
    return n > 5 && memcmp(text, "  in ", 5) == 0 && i < n && text[i - 1] == ':';
}

/* Puts * for the file and the lines in reports of errors: the page is another file than the script
 * it was recorded from. */
static void drop_places(buf *b)
{
    buf out = {0};
    const char *text = buf_text(b);
    bool below = false; /* an error stands above */
    while (*text) {
        size_t n = strcspn(text, "\n"), column, sign = lex_gutter(text, n);
        size_t place = error_place(text, n, &column);
        if (place > 0) {
            buf_add(&out, "*:");
            buf_put(&out, text + column, n - column);
            below = true;
        } else if (below && sign > 0 && lex_is_digit(text[sign - 2])) {
            buf_add(&out, "    * ");
            buf_put(&out, text + sign, n - sign);
        } else if (below && is_frame(text, n)) {
            buf_add(&out, "  in *");
        } else {
            buf_put(&out, text, n);
        }
        buf_char(&out, '\n');
        text += n + (text[n] == '\n');
    }
    buf_release(b);
    *b = out;
}

/* An output without the blanks and places that a comparison ignores. */
static buf comparable(const buf *text)
{
    buf out = {0};
    buf_put(&out, buf_text(text), text->len);
    drop_places(&out);
    diff_normalise(&out);
    return out;
}

static void show_difference(const verifier *v, const buf *entry, int line, const buf *expected,
                            const buf *got)
{
    own_buf shown = {0};
    fflush(stdout);
    terminal_say("%s:%d: the output differs (- the page, + this run)", v->path, line);
    prompt_lines(&shown, "  kv> ", "  ..> ", buf_text(entry), entry->len, true);
    diff_lines(&shown, buf_text(expected), buf_text(got));
    fputs(buf_text(&shown), stderr);
}

/* Compares, or writes the new output into the updated page. */
static void judge(verifier *v, const buf *entry, int line, buf *expected, buf *got, bool update)
{
    own_buf a = comparable(expected);
    own_buf b = comparable(got);
    bool equal = strcmp(buf_text(&a), buf_text(&b)) == 0;
    v->entries++;
    v->wrong += !equal;
    if (!update && !equal) {
        show_difference(v, entry, line, &a, &b);
    } else if (update && equal) {
        put_indented(v, buf_text(expected)); /* what differs may be what does not count */
    } else if (update) {
        diff_normalise(got);
        put_indented(v, buf_text(got));
        buf_add(&v->updated, empty_lines(expected));
    }
}

static int verify_entry(verifier *v, bool update, kv_err *e)
{
    own_buf entry = {0}, expected = {0};
    sink got = {.kind = SINK_TAKES};
    int line = v->line;
    take_entry_line(v, &entry, false);
    while (v->at < v->end && prompt_here(v, true))
        take_entry_line(v, &entry, true);
    /* the output that the page expects goes up to the next prompt or the end of the fence */
    for (size_t n; v->at < v->end && !prompt_here(v, false) && !closes(v); v->at += n, v->line++) {
        size_t skip = indentation(v);
        n = line_length(v);
        buf_put(&expected, v->at + skip, n - skip);
    }
    int rc = run_entry(v, &entry, line, &got, e);
    if (rc == KV_OK && (rc = buf_check(&entry, e)) == KV_OK &&
        (rc = buf_check(&expected, e)) == KV_OK && (rc = buf_check(&got.text, e)) == KV_OK)
        judge(v, &entry, line, &expected, &got.text, update);
    buf_release(&got.text);
    return rc;
}

/* ---- Pages ---- */

static int verdict(const verifier *v, bool update, kv_err *e)
{
    if (v->entries == 0)
        return kv_err_set(e, KV_E_EXPECT, "%s holds no line that begins with `kv> ` or `>>> `%s",
                          v->path, v->fences ? " between its fences" : "");
    if (update)
        session_note(v->s, "%s: %d of %d entries changed", v->path, v->wrong, v->entries);
    if (v->wrong == 0)
        return KV_OK;
    if (update) {
        file_out f;
        TRY(buf_check(&v->updated, e));
        TRY(file_out_open(&f, v->path, e));
        if (v->updated.len > 0) /* the commit finds out whether it worked */
            fwrite(v->updated.data, 1, v->updated.len, f.f);
        return file_out_commit(&f, e);
    }
    kv_err_set(e, KV_E_EXPECT, "%d of %d entr%s of %s print%s something else", v->wrong, v->entries,
               v->entries == 1 ? "y" : "ies", v->path, v->wrong == 1 ? "s" : "");
    return kv_err_hint(e, "if it is right now: kvctl --verify %s --update", v->path);
}

int verify_file(session *s, const char *path, bool update, kv_err *e)
{
    own_mem char *text = NULL;
    size_t n;
    TRY(file_read_text(path, &text, &n, e));
    verifier v = {.s = s, .path = path, .at = text, .end = text + n, .line = 1, .python = true};
    char sign;
    for (const char *at = text; at < v.end; at += line_bytes(at, (size_t)(v.end - at))) {
        size_t bytes = line_bytes(at, (size_t)(v.end - at)), skip = blanks_at(at, bytes);
        v.fences |= fence_at(at, bytes, &sign) > 0;
        /* beside prompts of kvctl `>>> ` is one of Python, in a fence for python3 */
        v.python &= lex_prompt(at + skip, bytes - skip, false) == 0;
    }
    s->out.remembers = true;
    int rc = KV_OK;
    while (v.at < v.end && rc == KV_OK) {
        if (!(v.fences && at_fence(&v)) && (v.fence || !v.fences) && prompt_here(&v, false))
            rc = verify_entry(&v, update, e);
        else
            keep_line(&v);
    }
    if (rc == KV_OK)
        rc = verdict(&v, update, e);
    buf_release(&v.updated);
    return rc;
}

/* ---- The prompt ---- */

/* Every entry is a unit of its own, and an error in it is reported and forgotten. */

typedef struct prompt {
    session *s;
    buf shown; /* the output of the entry before, if it was one of a page */
} prompt;

/* The output that a page shows below an entry is no entry. It is recognised by comparison with the
 * output of the entry that ran, so it must be the same. */
static int entry_complete(void *arg, const char *text, size_t n)
{
    const prompt *p = arg;
    size_t shown = page_shown(text, n, &p->shown);
    return unit_is_complete(text + shown, n - shown);
}

/* Returns true if statement i of a text stands on lines of its own, below the one before it: in a
 * pasted text it begins an entry. */
static bool begins_line(const unit *u, uint32_t i)
{
    uint32_t from = i > 0 ? u->body->kid[i - 1]->end : 0, to = u->body->kid[i]->pos;
    return i == 0 || memchr(u->src.text + from, '\n', to - from);
}

/* The entries of a text from statement i on. */
static int64_t count_entries(const unit *u, uint32_t i)
{
    int64_t n = 0;
    for (; i < u->body->n; i++)
        n += begins_line(u, i);
    return n;
}

/* Echoes an entry of a pasted text, which as a whole stands above. */
static void echo_entry(const unit *u, uint32_t i)
{
    const char *text = u->src.text;
    uint32_t from = u->body->kid[i]->pos, to = u->body->kid[i]->end;
    if (!begins_line(u, i))
        return;
    while (from > 0 && text[from - 1] != '\n')
        from--;
    for (i++; i < u->body->n && !begins_line(u, i); i++)
        to = u->body->kid[i]->end;
    const char *newline = memchr(text + to, '\n', u->src.len - to);
    to = newline ? (uint32_t)(newline - text) : u->src.len;
    own_buf shown = {0};
    prompt_lines(&shown, "kv> ", "..> ", text + from, to - from, true);
    fflush(stdout);
    fputs(buf_text(&shown), stderr);
}

/* Runs one entry; an error is reported and the session goes on. A pasted text may hold several,
 * each of which is shown in front of its output. */
static void run_one(session *s, const char *text, size_t n, int line, bool pasted)
{
    kv_err e = {0};
    unit *u = NULL;
    char *copy = mem_text(text, n, &e);
    transcript_entry(s, text, n);
    s->pasted = memchr(text, '\n', n) && !page_is(text, n);
    if (copy && unit_read(s, &u, "<repl>", copy, n, line, NULL, &e) == KV_OK) {
        s->begins = pasted && s->pasted && count_entries(u, 0) > 1 ? echo_entry : NULL;
        unit_run(s, u, &e);
    }
    s->begins = NULL;
    s->pasted = false;
    if (e.code == KV_E_INTERRUPTED) {
        fflush(stdout);
        progress_hide(STDERR_FILENO);
        /* the terminal has shown ^C there */
        fputs(isatty(STDERR_FILENO) ? "\rinterrupted\n" : "interrupted\n", stderr);
    } else if (e.code) {
        report_error(s, &e);
    }
    /* an entry that fails ends a pasted text that has no prompts: says what did not run */
    int64_t left = u && u->body && u->begun > 0 ? count_entries(u, u->begun) : -1;
    if (e.code && !page_is(text, n) && left > 0)
        fprintf(stderr, "%lld entr%s not run\n", (long long)left, left == 1 ? "y was" : "ies were");
    else if (e.code && !page_is(text, n) && left < 0 && page_has_several(text, n))
        fputs("nothing of it was run\n", stderr);
    unit_drop(s, u);
    e = (kv_err){0};
    if (session_flush(s, &e) || transcript_done(s, &e))
        report_error(s, &e);
}

/* Shows the lines of an entry of a page that have a prompt in front of what it puts out: the page
 * as a whole stands above. */
static void echo(const char *text, size_t n)
{
    own_buf visible = {0};
    for (size_t line; n > 0; text += line, n -= line) {
        line = line_bytes(text, n);
        if (lex_margin(text, line))
            prompt_lines(&visible, "", "", text, line, true);
    }
    fputs(buf_text(&visible), stderr);
}

/* Each prompt of a page begins an entry, and when one fails the others run all the same. The output
 * of the last is kept. */
static void run_page(prompt *p, const char *text, size_t n, int line)
{
    bool several = page_entry(text, n) < n;
    for (size_t one; n > 0; text += one, n -= one) {
        sink heard = {.kind = SINK_HEARS};
        one = page_entry(text, n);
        if (several)
            echo(text, one);
        sink_push(p->s, &heard);
        run_one(p->s, text, one, line, false);
        sink_pop(p->s, &heard);
        buf_release(&p->shown);
        p->shown = heard.text;
        line += (int)text_newlines(text, one);
        if (p->s->leaving || p->s->out.closed || interrupt_pending())
            break;
    }
}

/* Returns true if the text is this word, with blanks behind it at most. */
static bool is_word(const char *text, size_t n, const char *word)
{
    while (n > 0 && letter_is_blank(text[n - 1]))
        n--;
    return n == strlen(word) && memcmp(text, word, n) == 0;
}

static bool entry_run(void *arg, const char *text, size_t n, int first_line, bool pasted)
{
    prompt *p = arg;
    size_t shown = page_shown(text, n, &p->shown);
    int line = first_line + (int)text_newlines(text, shown);
    text += shown;
    n -= shown;
    if (page_is(text, n)) {
        run_page(p, text, n, line);
    } else if (is_word(text, n, "clear") && !session_find(p->s, "clear")) {
        terminal_clear();
    } else if (n > 0) {
        bool leaves = is_word(text, n, "\\q"); /* as in psql */
        buf_clear(&p->shown);
        run_one(p->s, leaves ? "quit" : text, leaves ? 4 : n, line, pasted);
    }
    pager_from_end(false);
    return p->s->leaving || p->s->out.closed;
}

static void entry_candidates(void *arg, const char *text, size_t n, line_words *out)
{
    complete_words(((prompt *)arg)->s, text, n, out);
}

static void entry_hint(void *arg, const char *text, size_t n, buf *out)
{
    complete_hint(((prompt *)arg)->s, text, n, out);
}

/* kv> , or kv:b> for a store that is not the first; kv[2/4]> for rank 2 of 4 workers; with a * when
 * a transaction is open in it. */
static const char *entry_prompt(void *arg)
{
    session *s = ((prompt *)arg)->s;
    static char text[96]; /* the terminal is one a process */
    const store_entry *used = s->current >= 0 ? &s->stores[s->current] : NULL;
    const char *open = used && kv_in_transaction(used->store) ? "*" : "";
    bool first = !used || strcmp(used->name, "kv") == 0;
    char rank[28] = "";
    if (used && kv_num_workers(used->store) > 1)
        snprintf(rank, sizeof rank, "[%d/%d]", kv_rank(used->store), kv_num_workers(used->store));
    snprintf(text, sizeof text, "kv%s%.48s%s%s> ", first ? "" : ":", first ? "" : used->name, rank,
             open);
    return text;
}

int prompt_run(session *s, bool quiet)
{
    static const repl_ops ops = {
        entry_complete, entry_run,    entry_candidates,
        entry_hint,     entry_prompt, "kvctl " KV_VERSION ": try help; Ctrl-D leaves",
        NULL,           NULL};
    prompt p = {.s = s};
    pager_allow(true);
    kv_err e = {0};
    int ended = repl_run(&ops, &p, quiet, s->history, &e);
    pager_allow(false);
    if (e.code)
        report_error(s, &e);
    buf_release(&p.shown);
    return ended;
}

int prompt_serve(session *s, const entry_source *from, bool stops)
{
    prompt p = {.s = s};
    s->failure = 0;
    for (bool on = true; on;) {
        own_mem char *text = NULL;
        size_t n;
        int line;
        kv_err e = {0};
        interrupt_at_prompt(true);
        visit_park(s, true);
        int rc = entry_source_next(from, s->failure, &text, &n, &line, &e);
        s->failure = 0;
        if (rc)
            report_error(s, &e);
        visit_park(s, false);
        interrupt_at_prompt(false);
        if (!text)
            break;
        interrupt_clear(); /* a Ctrl-C that came late was for the entry before */
        on = !entry_run(&p, text, n, line, false) && !(stops && s->failure) &&
             interrupt_pending() != SIGTERM;
        interrupt_clear();
    }
    s->failure = stops ? s->failure : 0; /* errors at a prompt are part of the talk */
    buf_release(&p.shown);
    return interrupt_pending();
}
