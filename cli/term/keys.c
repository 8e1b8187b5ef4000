/* A block of bytes between stdin and the line editor. */
#include "term/keys.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "term/signals.h"

/* ---- The keyboard ---- */

/* A terminal hands out 4 KB at a time; a few of these fit. */
#define BLOCK 16384

static struct {
    char block[BLOCK];
    size_t from, to; /* the bytes that are not yet taken */
    bool ended;
    sigset_t ours, before; /* the signals to wait with, and the mask outside */
    struct sigaction stop_before;
} keys;

static volatile sig_atomic_t suspended;

static void on_suspend(int sig)
{
    (void)sig;
    suspended = 1;
}

bool keys_suspended(void)
{
    bool was = suspended;
    suspended = 0;
    return was;
}

void keys_begin(void)
{
    struct sigaction action = {.sa_handler = on_suspend};
    sigemptyset(&keys.ours);
    sigaddset(&keys.ours, SIGINT);
    sigaddset(&keys.ours, SIGTERM);
    sigaddset(&keys.ours, SIGTSTP);
    sigprocmask(SIG_BLOCK, &keys.ours, &keys.before);
    sigaction(SIGTSTP, &action, &keys.stop_before);
    if (keys.stop_before.sa_handler == SIG_IGN) /* there is nobody to come back to */
        sigaction(SIGTSTP, &keys.stop_before, NULL);
}

void keys_end(void)
{
    sigaction(SIGTSTP, &keys.stop_before, NULL);
    sigprocmask(SIG_SETMASK, &keys.before, NULL);
}

size_t keys_held(void)
{
    return keys.to - keys.from;
}

void keys_forget(void)
{
    keys.from = keys.to = 0;
}

/* Reads what is there, behind what is held. Called when stdin has something. */
static keys_result fill(void)
{
    if (keys.from > 0) {
        memmove(keys.block, keys.block + keys.from, keys_held());
        keys.to -= keys.from;
        keys.from = 0;
    }
    ssize_t n = read(STDIN_FILENO, keys.block + keys.to, BLOCK - keys.to);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? KEYS_SIGNAL : KEYS_END;
    keys.ended = n == 0;
    keys.to += (size_t)n;
    return n > 0 ? KEYS_READY : KEYS_END;
}

/* Waits for more bytes than it holds, at most for some milliseconds; -1: for ever. */
static keys_result wait_for_more(int ms)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    struct timespec limit = {ms / 1000, ms % 1000 * 1000000L};
    if (interrupt_pending() || ppoll(&in, 1, ms < 0 ? NULL : &limit, &keys.before) <= 0)
        return KEYS_SIGNAL;
    /* With bytes there ppoll lets no signal in: one that came before them must act before them. */
    sigprocmask(SIG_SETMASK, &keys.before, NULL);
    sigprocmask(SIG_BLOCK, &keys.ours, NULL);
    return interrupt_pending() || suspended ? KEYS_SIGNAL : fill();
}

keys_result keys_wait(void)
{
    return keys_held() > 0 ? KEYS_READY : keys.ended ? KEYS_END : wait_for_more(-1);
}

bool keys_soon(int ms)
{
    return keys_held() > 0 || (!keys.ended && wait_for_more(ms) == KEYS_READY);
}

bool keys_quiet(void)
{
    if (keys_held() == 0 && !keys.ended)
        wait_for_more(0);
    return keys_held() == 0 && !keys.ended && !suspended && !interrupt_pending();
}

int keys_next(void)
{
    keys_result got;
    while ((got = keys_wait()) == KEYS_SIGNAL && !interrupt_pending())
        ;
    return got == KEYS_READY ? (unsigned char)keys.block[keys.from++] : -1;
}

void keys_take(size_t n)
{
    keys.from += n;
}

/* n without the bytes at the end that only begin a character. */
static size_t whole_characters(const char *text, size_t n)
{
    size_t last = n;
    while (last > 0 && n - last < 3 && utf8_is_later(text[last - 1]))
        last--;
    if (last == 0)
        return n;
    unsigned char lead = (unsigned char)text[last - 1];
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    return n - (last - 1) < length ? last - 1 : n;
}

size_t keys_text(const char **text)
{
    size_t n = 0, held = keys_held();
    *text = keys.block + keys.from;
    while (n < held &&
           ((*text)[n] == '\t' || ((unsigned char)(*text)[n] >= ' ' && (*text)[n] != 127)))
        n++;
    if (n < held)
        return n;
    while (n > 0 && (*text)[n - 1] == '\t') /* pressed: it is the last thing that came */
        n--;
    return whole_characters(*text, n);
}

/* ---- Bracketed paste ---- */

static const char paste_end[] = "\033[201~";

/* A terminal sends \r for the end of a line; some send \r\n. */
static void add_line_ends(buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        const char *end = memchr(text + i, '\r', n - i);
        size_t part = end ? (size_t)(end - text) - i : n - i;
        buf_put(out, text + i, part);
        i += part;
        if (end) {
            buf_char(out, '\n');
            i += i + 1 < n && text[i + 1] == '\n' ? 2 : 1;
        }
    }
}

bool keys_paste(buf *out)
{
    size_t mark = sizeof paste_end - 1;
    for (;;) {
        size_t held = keys_held();
        char *text = keys.block + keys.from, *end = memmem(text, held, paste_end, mark);
        /* Bytes that may begin the mark, or the first half of \r\n, wait for the rest. */
        size_t n = end ? (size_t)(end - text) : held > mark ? held - mark : 0;
        if (!end && n > 0 && text[n - 1] == '\r')
            n--;
        add_line_ends(out, text, n);
        keys.from += end ? n + mark : n;
        if (end)
            return true;
        keys_result got = keys.ended ? KEYS_END : wait_for_more(-1);
        if (got == KEYS_END || interrupt_pending()) {
            add_line_ends(out, keys.block + keys.from, keys_held());
            keys_forget();
            return false;
        }
    }
}

/* ---- Pasted texts ---- */

typedef struct kept {
    buf text;
    char label[96];
} kept;

static struct {
    kept *items;
    int64_t n, cap;
} pasted;

bool paste_any(void)
{
    return pasted.n > 0;
}

const char *paste_label(void)
{
    return pasted.n > 0 ? pasted.items[pasted.n - 1].label : NULL;
}

const char *paste_keep(const char *text, size_t n)
{
    if (mem_grow(&pasted.items, &pasted.cap, pasted.n + 1, sizeof *pasted.items, NULL))
        return NULL;
    pasted.items[pasted.n++] = (kept){0};
    return paste_add(text, n);
}

const char *paste_add(const char *text, size_t n)
{
    kept *last = &pasted.items[pasted.n - 1];
    buf_put(&last->text, text, n);
    /* `[pasted 2000 lines, 31 KB]`; from the second of a line on with its number, so that no two
     * labels are equal. */
    long long bytes = (long long)last->text.len,
              lines = text_newlines(last->text.data, last->text.len);
    char number[24] = "", size[32];
    lines += bytes > 0 && last->text.data[bytes - 1] != '\n';
    if (pasted.n > 1)
        snprintf(number, sizeof number, " %lld:", (long long)pasted.n);
    if (bytes < 10000)
        snprintf(size, sizeof size, "%lld bytes", bytes);
    else if (bytes < 10000000)
        snprintf(size, sizeof size, "%lld KB", bytes / 1000);
    else
        snprintf(size, sizeof size, "%lld MB", bytes / 1000000);
    snprintf(last->label, sizeof last->label, "[pasted%s %lld line%s, %s]", number, lines,
             lines == 1 ? "" : "s", size);
    return last->label;
}

/* The text whose label begins at `at`, or NULL. */
static const kept *labelled(const char *at)
{
    for (int64_t i = 0; i < pasted.n; i++)
        if (strncmp(at, pasted.items[i].label, strlen(pasted.items[i].label)) == 0)
            return &pasted.items[i];
    return NULL;
}

void paste_expand(buf *out, const char *line)
{
    while (*line) {
        size_t plain = strcspn(line, "[");
        const kept *k = labelled(line + plain);
        if (!k)
            plain += line[plain] != '\0';
        buf_put(out, line, plain);
        line += plain;
        if (k) {
            buf_put(out, buf_text(&k->text), k->text.len);
            out->failed |= k->text.failed;
            line += strlen(k->label);
        }
    }
}

void paste_forget(void)
{
    for (int64_t i = 0; i < pasted.n; i++)
        buf_release(&pasted.items[i].text);
    mem_free(pasted.items);
    pasted.items = NULL;
    pasted.n = pasted.cap = 0;
}
