/* Goes through a page line by line: entries run in one session with their output caught, what the
 * page says is compared with it, and every line is also copied to the updated page, the expected
 * ones replaced by what came out.
 */
#include "verify.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "script/report.h"
#include "script/unit.h"

/* A file being gone through line by line. */
typedef struct verifier {
    session *s;
    const char *path;
    const char *at, *end;  /* what is left of the file */
    int line;              /* the number of the line at `at` */
    bool fences, inside;   /* whether the file has fences; whether one is open */
    buf updated;           /* the file with what came out */
    int entries, wrong;
} verifier;

static size_t line_length(const verifier *v)
{
    const char *newline = memchr(v->at, '\n', (size_t)(v->end - v->at));
    return newline ? (size_t)(newline - v->at) + 1 : (size_t)(v->end - v->at);
}

static bool begins(const verifier *v, const char *word)
{
    size_t n = strlen(word), left = (size_t)(v->end - v->at);
    /* a prompt without an entry may have lost its last blank */
    if (n > 0 && word[n - 1] == ' ' && left >= n - 1 && memcmp(v->at, word, n - 1) == 0 &&
        (left == n - 1 || v->at[n - 1] == '\n' || v->at[n - 1] == '\r'))
        return true;
    return left >= n && memcmp(v->at, word, n) == 0;
}

/* Goes past a line, which the updated file keeps. */
static void keep_line(verifier *v)
{
    size_t n = line_length(v);
    buf_put(&v->updated, v->at, n);
    v->at += n;
    v->line++;
}

/* Appends the text of an entry's line, without its prompt. */
static void take_entry_line(verifier *v, buf *entry)
{
    size_t n = line_length(v), skip = n < 4 ? n : 4;
    buf_put(entry, v->at + skip, n - skip);
    keep_line(v);
}

/* What the file says comes out: up to the next prompt or fence. */
static void take_expected(verifier *v, buf *expected)
{
    while (v->at < v->end && !begins(v, "kv> ") && !(v->inside && begins(v, "```"))) {
        size_t n = line_length(v);
        buf_put(expected, v->at, n);
        v->at += n;
        v->line++;
    }
}

static void run_entry(verifier *v, const buf *entry, int line, buf *got)
{
    kv_err e = {0};
    unit *u = NULL;
    char *text = mem_text(buf_text(entry), entry->len, &e);
    v->s->captured = got;
    if (text && unit_read(v->s, &u, v->path, text, entry->len, line, NULL, &e) == KV_OK)
        unit_run(v->s, u, &e);
    if (e.code)
        report_text(v->s, &e, got);
    v->s->captured = NULL;
    unit_drop(v->s, u);
}

/* The text with blanks at the ends of lines and of the text dropped. */
static void normalise(buf *b)
{
    size_t to = 0;
    for (size_t i = 0; i < b->len; i++) {
        if (b->data[i] == '\n')
            while (to > 0 && (b->data[to - 1] == ' ' || b->data[to - 1] == '\r'))
                to--;
        b->data[to++] = b->data[i];
    }
    while (to > 0 && strchr(" \r\n", b->data[to - 1]))
        to--;
    b->len = to;
    if (b->data)
        b->data[to] = '\0';
}

static void show_lines(const char *sign, const buf *text)
{
    const char *at = buf_text(text);
    while (*at) {
        size_t n = strcspn(at, "\n");
        fprintf(stderr, "%s%.*s\n", sign, (int)n, at);
        at += n + (at[n] == '\n');
    }
}

static void compare(verifier *v, const buf *entry, int line, buf *expected, buf *got)
{
    normalise(expected);
    normalise(got);
    v->entries++;
    if (strcmp(buf_text(expected), buf_text(got)) == 0)
        return;
    v->wrong++;
    fprintf(stderr, "%s:%d: the output differs\n", v->path, line);
    buf shown = {0};
    buf_put(&shown, buf_text(entry), entry->len);
    normalise(&shown);
    show_lines("  kv> ", &shown);
    show_lines(" -", expected);
    show_lines(" +", got);
    buf_release(&shown);
}

static int verify_entry(verifier *v, bool update, kv_err *e)
{
    buf entry = {0}, expected = {0}, got = {0};
    int line = v->line, code;
    take_entry_line(v, &entry);
    while (v->at < v->end && begins(v, "..> "))
        take_entry_line(v, &entry);
    take_expected(v, &expected);
    run_entry(v, &entry, line, &got);
    if ((code = buf_check(&entry, e)) || (code = buf_check(&expected, e)) ||
        (code = buf_check(&got, e)))
        goto out;
    if (update)
        buf_put(&v->updated, buf_text(&got), got.len);
    else
        compare(v, &entry, line, &expected, &got);
out:
    buf_release(&entry);
    buf_release(&expected);
    buf_release(&got);
    return code;
}

static int write_back(const char *path, const buf *text, kv_err *e)
{
    file_out f;
    int code = buf_check(text, e);
    if (code || (code = file_out_open(&f, path, e)))
        return code;
    if (text->len > 0)
        fwrite(text->data, 1, text->len, f.f); /* the commit finds out whether it worked */
    return file_out_commit(&f, e);
}

int verify_file(session *s, const char *path, bool update, kv_err *e)
{
    char *text;
    size_t n;
    int code = file_read(path, &text, &n, e);
    if (code)
        return code;
    verifier v = {.s = s, .path = path, .at = text, .end = text + n, .line = 1};
    v.fences = strncmp(text, "```", 3) == 0 || strstr(text, "\n```") != NULL;
    while (v.at < v.end && code == KV_OK && !s->leaving) {
        if (v.fences && begins(&v, "```")) {
            v.inside = !v.inside;
            keep_line(&v);
        } else if (begins(&v, "kv> ") && (v.inside || !v.fences)) {
            code = verify_entry(&v, update, e);
        } else {
            keep_line(&v);
        }
    }
    if (code == KV_OK && update)
        code = write_back(path, &v.updated, e);
    else if (code == KV_OK && v.wrong > 0)
        code = kv_err_set(e, KV_E_EXPECT, "%d of %d entries of %s print something else", v.wrong,
                          v.entries, path);
    else if (code == KV_OK && v.entries == 0)
        code = kv_err_set(e, KV_E_EXPECT, "%s holds no line that begins with `kv> `", path);
    buf_release(&v.updated);
    mem_free(text);
    return code;
}
