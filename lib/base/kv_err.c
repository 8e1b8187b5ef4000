/* Errors: a code and a finished sentence. Texts are cut between characters, so that what remains of
 * a long name is still UTF-8, and hold no control characters, so that a name from a file cannot
 * move the cursor of a terminal or break a line. */
#include "kv_err.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/utf8.h"

static const char *const code_names[KV_NCODES] = {
#define KV_CODE_NAME(code, name) [code] = name,
    KV_CODE_MAP(KV_CODE_NAME)
#undef KV_CODE_NAME
};

const char *kv_code_name(int rc)
{
    return rc >= 0 && rc < KV_NCODES ? code_names[rc] : "unknown";
}

/* Ends a text that was cut after n bytes before a character that lost its end. */
static void drop_cut_character(char *text, size_t n)
{
    size_t last = n;
    while (last > 0 && n - last < 3 && utf8_is_later(text[last - 1]))
        last--;
    unsigned char lead = last > 0 ? (unsigned char)text[last - 1] : 0;
    size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    text[n - last + 1 < need ? last - 1 : n] = '\0';
}

/* Formats into a field of an error. */
static void put_text(char *field, size_t size, const char *fmt, va_list ap)
{
    int n = vsnprintf(field, size, fmt, ap);
    if (n < 0)
        snprintf(field, size, "(a message that cannot be formatted)");
    else if ((size_t)n >= size)
        drop_cut_character(field, size - 1);
    for (char *p = field; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            *p = '?';
    }
}

int kv_err_vset(kv_err *e, kv_code code, const char *fmt, va_list ap)
{
    if (e && e->code == KV_OK) {
        e->code = code;
        put_text(e->text, sizeof e->text, fmt, ap);
    }
    return code;
}

int kv_err_set(kv_err *e, kv_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    kv_err_vset(e, code, fmt, ap);
    va_end(ap);
    return code;
}

int kv_err_hint(kv_err *e, const char *fmt, ...)
{
    if (!e || e->code == KV_OK || e->hint[0])
        return e ? e->code : KV_OK;
    va_list ap;
    va_start(ap, fmt);
    put_text(e->hint, sizeof e->hint, fmt, ap);
    va_end(ap);
    return e->code;
}

void kv_err_at(kv_err *e, const char *file, int line, int col, int end)
{
    if (!e || e->code == KV_OK || e->line != 0 || e->file[0])
        return;
    e->line = line;
    e->col = col;
    e->end = end;
    if (file) {
        /* The end of a path says most, so the front goes. */
        size_t n = strlen(file), room = sizeof e->file - 1;
        const char *from = n > room ? file + n - room : file;
        while (from != file && utf8_is_later(*from))
            from++;
        memcpy(e->file, from, strlen(from) + 1);
    }
}

void kv_err_key(kv_err *e, const kv_key *key)
{
    if (!e || e->code == KV_OK || e->has_key)
        return;
    e->has_key = 1;
    e->key_is_text = key->name != NULL;
    e->key_id = key->name ? 0 : key->id;
    if (key->name) {
        size_t n = utf8_cut(key->name, strlen(key->name), sizeof e->key_name - 1);
        memcpy(e->key_name, key->name, n);
        e->key_name[n] = '\0';
    }
}

void kv_err_option(kv_err *e, int i)
{
    if (e && e->code != KV_OK && e->option == 0 && i >= 0 && i < UINT8_MAX)
        e->option = (uint8_t)(i + 1);
}

/* ---- Assertions that stay in releases ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*_Atomic on_failure)(const char *report);
atomic_bool kv_assert_failed;
static char first_report[sizeof ((kv_err *)0)->text];

void kv_assert_on_failure(void (*handler)(const char *report))
{
    atomic_store(&on_failure, handler);
}

bool kv_assert_fail(const char *file, int line, const char *condition, const char *fmt, ...)
{
    char state[256], report[sizeof first_report];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(state, sizeof state, fmt, ap);
    va_end(ap);
    snprintf(report, sizeof report, "%s:%d: %s does not hold: %s; this is a bug in kvstore", file,
             line, condition, state);

    pthread_mutex_lock(&lock);
    if (!atomic_load(&kv_assert_failed)) {
        snprintf(first_report, sizeof first_report, "%s", report);
        atomic_store(&kv_assert_failed, true);
    }
    pthread_mutex_unlock(&lock);

    void (*handler)(const char *) = atomic_load(&on_failure);
    if (handler)
        handler(report);
    return false;
}

int kv_assert_report(kv_err *e)
{
    if (e)
        *e = (kv_err){0};
    return kv_err_set(e, KV_E_INTERNAL, "%s", first_report);
}
