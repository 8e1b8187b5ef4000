/* Texts as values. A value points at the text itself, so that it is used like any other; what is
 * known of it stands in front. */
#include "session/value.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

typedef struct counted_text {
    int64_t refs;
    int64_t bytes, room;
    int64_t length;       /* in characters; -1: nobody has asked */
    int64_t at, at_byte;  /* the character that was found last, and where it begins */
    char text[];
} counted_text;

static counted_text *counted(const char *text)
{
    return (counted_text *)(uintptr_t)(text - offsetof(counted_text, text));
}

int value_text_new(value *out, const char *text, size_t n, kv_err *e)
{
    if (n && memchr(text, '\0', n))
        return kv_err_set(e, KV_E_VALUE, "a text cannot hold a NUL character");
    counted_text *t = mem_alloc((int64_t)(sizeof *t + n + 1), 1, e);
    if (!t)
        return KV_E_MEMORY;
    *t = (counted_text){.refs = 1, .bytes = (int64_t)n, .room = (int64_t)n, .length = -1};
    if (n)
        memcpy(t->text, text, n);
    t->text[n] = '\0';
    *out = (value){.kind = VALUE_TEXT, .u.text = t->text};
    return KV_OK;
}

int value_text(value *out, const char *text, kv_err *e)
{
    return value_text_new(out, text, strlen(text), e);
}

int value_text_take(value *out, buf *text, int rc, kv_err *e)
{
    if (rc == KV_OK && (rc = buf_check(text, e)) == KV_OK)
        rc = value_text_new(out, buf_text(text), text->len, e);
    buf_release(text);
    return rc;
}

bool text_append(value *text, value more, int *code, kv_err *e)
{
    counted_text *t = counted(text->u.text);
    int64_t n = text_bytes(more), bytes = t->bytes + n;
    *code = KV_OK;
    if (t->refs > 1)
        return false;
    if (bytes > t->room) {
        void *block = t;
        int64_t cap = (int64_t)sizeof *t + t->room + 1;
        if ((*code = mem_grow(&block, &cap, (int64_t)sizeof *t + bytes + 1, 1, e)))
            return true;
        t = block;
        t->room = cap - (int64_t)sizeof *t - 1;
        text->u.text = t->text;
    }
    memcpy(t->text + t->bytes, more.u.text, (size_t)n + 1);
    t->bytes = bytes;
    t->length = -1;
    return true;
}

void text_ref(const char *text)
{
    counted(text)->refs++;
}

void text_unref(const char *text)
{
    if (--counted(text)->refs == 0)
        mem_free(counted(text));
}

int64_t text_bytes(value text)
{
    return counted(text.u.text)->bytes;
}

int64_t text_length(value text)
{
    counted_text *t = counted(text.u.text);
    if (t->length < 0)
        t->length = utf8_count(t->text, (size_t)t->bytes);
    return t->length;
}

static int64_t character_bytes(const counted_text *t, int64_t at)
{
    bool valid;
    return (int64_t)utf8_length(t->text + at, (size_t)(t->bytes - at), &valid);
}

int64_t text_byte_of(value text, int64_t i)
{
    counted_text *t = counted(text.u.text);
    if (text_length(text) == t->bytes)
        return i;
    if (i < t->at)
        t->at = t->at_byte = 0;
    for (; t->at < i; t->at++)
        t->at_byte += character_bytes(t, t->at_byte);
    return t->at_byte;
}

int text_part(value *out, value text, int64_t from, int64_t step, int64_t n, kv_err *e)
{
    const counted_text *t = counted(text.u.text);
    buf part = {0};
    int64_t first = step > 0 ? from : from + (n - 1) * step; /* the leftmost */
    if (n <= 0)
        return value_text(out, "", e);
    if (step == 1) {
        int64_t begin = text_byte_of(text, from);
        return value_text_new(out, t->text + begin, (size_t)(text_byte_of(text, from + n) - begin),
                              e);
    }
    /* backwards, the leftmost character comes last */
    int64_t stride = step > 0 ? step : -step, at = text_byte_of(text, first);
    char *room = buf_room(&part, (size_t)(t->bytes - at));
    char *to = room && step < 0 ? room + (t->bytes - at) : room, *end = to;
    for (int64_t i = 0; room && i < n; i++) {
        int64_t bytes = character_bytes(t, at);
        if (step < 0)
            to -= bytes;
        memcpy(to, t->text + at, (size_t)bytes);
        if (step > 0)
            to += bytes;
        for (int64_t k = 0; k < stride && i + 1 < n; k++)
            at += character_bytes(t, at);
    }
    int rc = room ? value_text_new(out, step > 0 ? end : to,
                                   (size_t)(step > 0 ? to - end : end - to), e)
                  : buf_check(&part, e);
    buf_release(&part);
    return rc;
}
