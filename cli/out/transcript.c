/* The page of --record, entry by entry. See transcript.h. */
#include "out/transcript.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

typedef struct transcript {
    file_out page;
    bool begun;   /* something was written */
    bool failed;  /* nothing is written any more */
    kv_err error; /* of a write whose caller could not be told */
    buf entry;         /* the lines of the entry that is open */
    sink out;          /* gets what it puts out */
    bool whole;        /* the entry was typed: its statements begin none of their own */
    const source *src; /* of the entry's lines in a script, and where they end */
    uint32_t to;
} transcript;

int transcript_open(session *s, const char *path, kv_err *e)
{
    transcript *t = mem_zalloc(1, sizeof *t, e);
    int code = t ? file_out_open_part(&t->page, path, e) : KV_E_MEMORY;
    if (code) {
        mem_free(t);
        return code;
    }
    s->out.transcript = t;
    t->out = (sink){.kind = SINK_HEARS, .sees_shell = true};
    sink_push(s, &t->out);
    return KV_OK;
}

void transcript_entry(session *s, const char *text, size_t n)
{
    transcript *t = s->out.transcript;
    if (!t)
        return;
    buf_put(&t->entry, text, n);
    t->whole = true;
}

/* The bytes of the lines that from..to touches. */
static void whole_lines(const source *src, uint32_t *from, uint32_t *to)
{
    while (*from > 0 && src->text[*from - 1] != '\n')
        (*from)--;
    while (*to < src->len && src->text[*to] != '\n')
        (*to)++;
}

void transcript_statement(session *s, const source *src, const ast *node)
{
    transcript *t = s->out.transcript;
    if (!t || t->whole)
        return;
    uint32_t from = node->pos, to = node->end;
    whole_lines(src, &from, &to);
    bool same_lines = t->src == src && t->entry.len > 0 && from <= t->to;
    if (!same_lines) {
        transcript_done(s, &t->error);
    } else if (to > t->to) {
        from = t->to; /* with the newline between them */
    } else {
        return;
    }
    buf_put(&t->entry, src->text + from, to - from);
    t->src = src;
    t->to = to;
}

void transcript_error(session *s, const char *report)
{
    if (s->out.transcript)
        buf_add(&s->out.transcript->out.text, report);
}

/* The lines of an entry with their prompts. */
static void add_entry(buf *page, const char *text)
{
    const char *prompt = "kv> ";
    do {
        size_t n = strcspn(text, "\n");
        size_t shown = n > 0 && text[n - 1] == '\r' ? n - 1 : n;
        buf_add(page, prompt);
        buf_put(page, text, shown);
        buf_char(page, '\n');
        text += n + (text[n] == '\n');
        prompt = "..> ";
    } while (*text);
}

/* All of text at the end of the file, or none of it; then nothing is written any more. */
static int append(transcript *t, const buf *text, kv_err *e)
{
    size_t done = 0;
    int fd = fileno(t->page.f), code = KV_OK;
    off_t before = lseek(fd, 0, SEEK_END);
    t->begun = true;
    while (done < text->len && code == KV_OK) {
        ssize_t n = write(fd, text->data + done, text->len - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            code = file_error(e, "write", t->page.name, n ? errno : EIO);
    }
    if (code && t->page.temp && ftruncate(fd, before) == 0)
        kv_err_hint(e, "what was recorded before is in \"%s\"", t->page.temp);
    return code;
}

int transcript_done(session *s, kv_err *e)
{
    transcript *t = s->out.transcript;
    buf page = {0};
    int code = KV_OK;
    if (!t)
        return KV_OK;
    if (t->entry.len > 0 && !t->failed) {
        add_entry(&page, buf_text(&t->entry));
        const buf *out = &t->out.text;
        buf_put(&page, buf_text(out), out->len);
        if (out->len > 0 && out->data[out->len - 1] != '\n')
            buf_char(&page, '\n');
        if ((code = buf_check(&page, e)) == KV_OK)
            code = append(t, &page, e);
        t->failed = code != KV_OK;
        if (t->failed)
            file_out_leave(&t->page);
    }
    t->whole = false;
    t->src = NULL;
    buf_clear(&t->entry);
    buf_clear(&t->out.text);
    buf_release(&page);
    return code;
}

int transcript_close(session *s, kv_err *e)
{
    transcript *t = s->out.transcript;
    if (!t)
        return KV_OK;
    int code = transcript_done(s, e);
    if (t->error.code) {
        *e = t->error;
        code = e->code;
    }
    if (!t->begun) {
        file_out_abandon(&t->page); /* nothing ran */
    } else if (!t->failed) {
        int ended = file_out_commit(&t->page, code ? NULL : e);
        code = code ? code : ended;
    }
    s->out.transcript = NULL;
    sink_pop(s, &t->out);
    buf_release(&t->entry);
    buf_release(&t->out.text);
    mem_free(t);
    return code;
}
