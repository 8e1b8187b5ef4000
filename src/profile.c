/* kv_profile_start and kv_profile_stop: the events of lib/engine/trace.h as a file in Chrome's
 * trace event format, an array of objects, one a line, which Perfetto shows.
 *
 * A thread is a track, with the calls that it scheduled, the operations that it ran and the parts
 * inside these. What an operation waits for has no thread, so it is an asynchronous pair; an arrow
 * leads from the call to the operation.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "engine/trace.h"
#include "io/json_writer.h"
#include "kvstore.h"
#include "runtime.h"

/* Part of the process-wide state that runtime.h lists. */
static struct {
    pthread_mutex_t lock;
    file_out file;
    int rank;
} profile = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- An event ---- */

static void put_key(json_writer *w, const char *name, const kv_key *key)
{
    if (key->name)
        json_text(w, name, key->name);
    else
        json_int(w, name, key->id);
}

/* `before`, the operation's name and the keys, as one text. */
static void put_title(json_writer *w, const trace_event *ev, const char *before)
{
    enum { SHOWN = 3 };
    own_buf title = {0};
    buf_printf(&title, "%s%s", before, ev->name);
    for (int64_t i = 0; i < ev->nkeys && i < SHOWN; i++) {
        buf_add(&title, i ? ", " : " ");
        if (ev->keys[i].name)
            buf_add(&title, ev->keys[i].name);
        else
            buf_printf(&title, "%lld", (long long)ev->keys[i].id);
    }
    if (ev->nkeys > SHOWN)
        buf_printf(&title, ", ... (%lld keys)", (long long)ev->nkeys);
    json_text(w, "name", buf_text(&title));
    w->out->failed |= title.failed;
}

/* Microseconds, which is what the format counts in. */
static void put_time(json_writer *w, const char *name, int64_t ns)
{
    buf_printf(json_field(w, name), "%lld.%03d", (long long)(ns / 1000), (int)(ns % 1000));
}

/* before: words of the title before the operation's name; NULL: the category is the title. */
static json_writer begin_event(buf *out, const trace_event *ev, const char *phase,
                               const char *category, const char *before, int64_t at)
{
    json_writer w = {.out = out};
    buf_add(out, ",\n");
    json_begin(&w, NULL, '{');
    json_text(&w, "ph", phase);
    json_text(&w, "cat", category);
    json_int(&w, "pid", profile.rank);
    json_int(&w, "tid", ev->thread);
    put_time(&w, "ts", at);
    if (before)
        put_title(&w, ev, before);
    else
        json_text(&w, "name", category);
    return w;
}

static void put_args(json_writer *w, const trace_event *ev)
{
    json_begin(w, "args", '{');
    json_int(w, "op", (int64_t)ev->op);
    if (ev->kind == TRACE_PART) {
        put_key(w, "key", &ev->keys[0]);
        json_int(w, "from", ev->from);
    } else {
        json_begin(w, "keys", '[');
        for (int64_t i = 0; i < ev->nkeys && i < TRACE_KEYS; i++)
            put_key(w, NULL, &ev->keys[i]);
        json_end(w, ']');
        json_int(w, "nkeys", ev->nkeys);
    }
    if (ev->kind == TRACE_DEVICE)
        buf_printf(json_field(w, "device"), "\"gpu(%d)\"", ev->device);
    if (ev->kind == TRACE_PART || ev->kind == TRACE_DEVICE) {
        json_int(w, "elements", ev->elements);
        json_int(w, "bytes", ev->bytes);
    }
    json_end(w, '}');
}

/* The work of a thread from begin to end. */
static void put_slice(buf *out, const trace_event *ev, const char *category, const char *before)
{
    json_writer w = begin_event(out, ev, "X", category, before, ev->begin);
    put_time(&w, "dur", ev->end - ev->begin);
    put_args(&w, ev);
    json_end(&w, '}');
}

/* The time that an operation spent without a thread. */
static void put_pair(buf *out, const trace_event *ev, const char *category, const char *before)
{
    json_writer w = begin_event(out, ev, "b", category, before, ev->begin);
    json_int(&w, "id", (int64_t)ev->op);
    put_args(&w, ev);
    json_end(&w, '}');
    w = begin_event(out, ev, "e", category, before, ev->end);
    json_int(&w, "id", (int64_t)ev->op);
    json_end(&w, '}');
}

/* An end of an arrow. */
static void put_arrow(buf *out, const trace_event *ev, const char *phase, int64_t at)
{
    json_writer w = begin_event(out, ev, phase, "schedule", NULL, at);
    json_text(&w, "bp", "e");
    json_int(&w, "id", (int64_t)ev->op);
    json_end(&w, '}');
}

static void put_event(buf *out, const trace_event *ev)
{
    switch (ev->kind) {
    case TRACE_ENQUEUE:
        put_slice(out, ev, "enqueue", "enqueue ");
        if (ev->later)
            put_arrow(out, ev, "s", ev->begin);
        break;
    case TRACE_WAIT:
        put_pair(out, ev, "wait", "wait: ");
        break;
    case TRACE_QUEUE:
        put_pair(out, ev, "queue", "queue: ");
        put_arrow(out, ev, "f", ev->end);
        break;
    case TRACE_TRAVEL:
        put_pair(out, ev, "travel", "travel: ");
        break;
    case TRACE_RUN:
        put_slice(out, ev, "run", "");
        break;
    case TRACE_PART:
        put_slice(out, ev, "part", "");
        break;
    case TRACE_DEVICE:
        put_slice(out, ev, "gpu", "");
        break;
    }
}

/* ---- The file ---- */

static int write_text(const buf *text, kv_err *e)
{
    file_out *out = &profile.file;
    TRY(buf_check(text, e));
    errno = 0;
    if (fwrite(buf_text(text), 1, text->len, out->f) < text->len)
        return file_error(e, "write", out->name, errno ? errno : EIO);
    return KV_OK;
}

static int write_event(void *arg, const trace_event *ev, kv_err *e)
{
    buf *text = arg;
    buf_clear(text);
    put_event(text, ev);
    return write_text(text, e);
}

static int write_events(kv_err *e)
{
    buf text = {0};
    json_writer w = {.out = &text};
    buf_add(&text, "[\n");
    json_begin(&w, NULL, '{');
    json_text(&w, "ph", "M");
    json_int(&w, "pid", profile.rank);
    json_text(&w, "name", "process_name");
    json_begin(&w, "args", '{');
    buf_printf(json_field(&w, "name"), "\"rank %d\"", profile.rank);
    json_end(&w, '}');
    json_end(&w, '}');
    int rc = write_text(&text, e);
    int stopped = trace_stop(rc ? NULL : write_event, &text, e);
    rc = rc ? rc : stopped;
    buf_clear(&text);
    buf_add(&text, "\n]\n");
    if (!rc)
        rc = write_text(&text, e);
    buf_release(&text);
    return rc;
}

int kv_profile_start(const char *path, kv_err *e)
{
    TRY(arg_given(path, "path", e));
    pthread_mutex_lock(&profile.lock);
    int rc = KV_OK;
    if (profile.file.f)
        rc = kv_err_set(e, KV_E_VALUE, "the profile \"%s\" is being taken already",
                        profile.file.name);
    if (!rc && (rc = file_out_open(&profile.file, path, e)) == KV_OK &&
        (rc = trace_start(e)))
        file_out_abandon(&profile.file);
    pthread_mutex_unlock(&profile.lock);
    return rc;
}

/* p.json becomes p.rank1.json, in a job of several ranks. */
static int name_rank(kv_err *e)
{
    int ranks;
    profile.rank = runtime_rank(&ranks);
    const char *path = profile.file.path;
    if (ranks < 2 || !path)
        return KV_OK;
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t n = dot && (!slash || dot > slash + 1) ? (size_t)(dot - path) : strlen(path);
    own_buf name = {0};
    buf_printf(&name, "%.*s.rank%d%s", (int)n, path, profile.rank, path + n);
    TRY(buf_check(&name, e));
    mem_free(profile.file.path);
    profile.file.path = name.data;
    name = (buf){0};
    return KV_OK;
}

int kv_profile_stop(kv_err *e)
{
    e = e ? e : &(kv_err){0};
    pthread_mutex_lock(&profile.lock);
    int rc = KV_OK;
    if (!profile.file.f)
        rc = kv_err_set(e, KV_E_VALUE, "no profile is being taken");
    else if ((rc = name_rank(e)) || (rc = write_events(e)))
        file_out_abandon(&profile.file);
    else
        rc = file_out_commit(&profile.file, e);
    int64_t left_out = rc ? 0 : trace_left_out();
    pthread_mutex_unlock(&profile.lock);
    if (left_out)
        runtime_log("the profile has the first %d events; the %lld behind them are left out",
                    TRACE_EVENTS, (long long)left_out);
    return rc;
}
