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
#include "base/arg.h"
#include "base/file.h"
#include "base/mem.h"
#include "engine/trace.h"
#include "io/json.h"
#include "kvstore.h"
#include "runtime.h"

/* Part of the process-wide state that runtime.h lists. */
static struct {
    pthread_mutex_t lock;
    file_out file;
    int rank;
} profile = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- An event ---- */

static void put_key(buf *out, const kv_key *key)
{
    if (key->name)
        json_write_text(out, key->name);
    else
        buf_printf(out, "%lld", (long long)key->id);
}

/* `before`, the operation's name and the keys, as one text. */
static void put_title(buf *out, const trace_event *ev, const char *before)
{
    enum { SHOWN = 3 };
    buf title = {0};
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
    json_write_text(out, buf_text(&title));
    out->failed |= title.failed;
    buf_release(&title);
}

/* Microseconds, which is what the format counts in. */
static void put_time(buf *out, const char *name, int64_t ns)
{
    buf_printf(out, ",\"%s\":%lld.%03d", name, (long long)(ns / 1000), (int)(ns % 1000));
}

static void put_head(buf *out, const trace_event *ev, const char *phase, const char *category,
                     const char *before, int64_t at)
{
    buf_printf(out, ",\n{\"ph\":\"%s\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d", phase, category,
               profile.rank, ev->thread);
    put_time(out, "ts", at);
    buf_add(out, ",\"name\":");
    put_title(out, ev, before);
}

static void put_keys(buf *out, const trace_event *ev)
{
    buf_printf(out, ",\"args\":{\"op\":%llu,\"keys\":[", (unsigned long long)ev->op);
    for (int64_t i = 0; i < ev->nkeys && i < TRACE_KEYS; i++) {
        if (i)
            buf_char(out, ',');
        put_key(out, &ev->keys[i]);
    }
    buf_printf(out, "],\"nkeys\":%lld", (long long)ev->nkeys);
    if (ev->kind == TRACE_DEVICE)
        buf_printf(out, ",\"device\":\"gpu(%d)\",\"elements\":%lld,\"bytes\":%lld", ev->device,
                   (long long)ev->elements, (long long)ev->bytes);
    buf_add(out, "}}");
}

/* What a thread did from begin to end. */
static void put_slice(buf *out, const trace_event *ev, const char *category, const char *before)
{
    put_head(out, ev, "X", category, before, ev->begin);
    put_time(out, "dur", ev->end - ev->begin);
    if (ev->kind != TRACE_PART) {
        put_keys(out, ev);
        return;
    }
    buf_printf(out, ",\"args\":{\"op\":%llu,\"key\":", (unsigned long long)ev->op);
    put_key(out, &ev->keys[0]);
    buf_printf(out, ",\"from\":%lld,\"elements\":%lld,\"bytes\":%lld}}", (long long)ev->from,
               (long long)ev->elements, (long long)ev->bytes);
}

/* What an operation spent without a thread. */
static void put_pair(buf *out, const trace_event *ev, const char *category, const char *before)
{
    put_head(out, ev, "b", category, before, ev->begin);
    buf_printf(out, ",\"id\":%llu", (unsigned long long)ev->op);
    put_keys(out, ev);
    put_head(out, ev, "e", category, before, ev->end);
    buf_printf(out, ",\"id\":%llu}", (unsigned long long)ev->op);
}

/* An end of an arrow. */
static void put_arrow(buf *out, const trace_event *ev, const char *phase, int64_t at)
{
    buf_printf(out, ",\n{\"ph\":\"%s\",\"cat\":\"schedule\",\"pid\":%d,\"tid\":%d", phase,
               profile.rank, ev->thread);
    put_time(out, "ts", at);
    buf_printf(out, ",\"name\":\"schedule\",\"bp\":\"e\",\"id\":%llu}", (unsigned long long)ev->op);
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
    int rc = buf_check(text, e);
    errno = 0;
    if (!rc && fwrite(buf_text(text), 1, text->len, out->f) < text->len)
        rc = file_error(e, "write", out->name, errno ? errno : EIO);
    return rc;
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
    buf_printf(&text,
               "[\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\","
               "\"args\":{\"name\":\"rank %d\"}}",
               profile.rank, profile.rank);
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
    int rc = arg_given(path, "path", e);
    if (rc)
        return rc;
    pthread_mutex_lock(&profile.lock);
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
    buf name = {0};
    buf_printf(&name, "%.*s.rank%d%s", (int)n, path, profile.rank, path + n);
    int rc = buf_check(&name, e);
    if (!rc) {
        mem_free(profile.file.path);
        profile.file.path = name.data;
        name = (buf){0};
    }
    buf_release(&name);
    return rc;
}

int kv_profile_stop(kv_err *e)
{
    kv_err unused = {0};
    e = e ? e : &unused;
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
