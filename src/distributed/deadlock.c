/* The reports of this rank, and on the first server those of all ranks, and the proof. */
#include "distributed/deadlock.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "core/slot.h"
#include "distributed/alive.h"
#include "distributed/coordinator.h"
#include "distributed/environment.h"
#include "distributed/link.h"
#include "distributed/server_ranks.h"
#include "distributed/spares.h"
#include "distributed/waits.h"
#include "engine/pool.h"
#include "runtime.h"

enum {
    REPORT_US = 1000000,  /* between two reports of a rank that waits */
    QUESTION_US = 1000000, /* between two questions */
    WAIT_US = 1000000      /* all wait for so long before they are in a deadlock */
};

/* On the first server: what a rank has reported. */
typedef struct reported {
    ask_report last;
    int64_t before; /* the number of the next question when such a report came first */
    bool come;
} reported;

/* The worker that a worker waits for, as one of the servers that wait for it has reported. */
typedef struct lacking {
    ask_lack lack; /* lacks < 0: no server waits for the worker */
    int32_t server;
} lacking;

/* All of it belongs to the thread that drives the net. */
static struct {
    int64_t asked, answered; /* the last question that came, and that was answered */
    int64_t reported_us;
    char *report;    /* ask_report, and behind it as many ask_lack as there are workers */

    reported *ranks;  /* on the first server: by rank */
    lacking *lacks;   /* on the first server: by worker */
    int64_t question; /* the last one that was sent */
    int64_t asked_us, wait_us; /* when; since when all wait, 0: they do not */
    bool told;
} here;

static bool is_first_server(void)
{
    return link_rank() == server_rank(0);
}

/* ---- The report of this rank ---- */

static bool has_script(void)
{
    return link_rank() < server_workers() && !spares_waits(link_rank());
}

/* Returns the number of ask_lack behind the report. */
static int make_report(bool idle, bool leaves)
{
    ask_report *r = (ask_report *)(void *)here.report;
    ask_lack *lacks = (ask_lack *)(void *)(r + 1);
    int n = 0, unused;
    net_traffic t = net_count_traffic();
    *r = (ask_report){.sent = t.sent, .taken = t.taken, .gone = t.gone, .asked = here.asked,
                      .ended = leaves || !has_script()};
    /* The script is asked twice, since the end of a task may end its wait. */
    uint64_t wait = r->ended || !idle ? 0 : script_waits(r->place, sizeof r->place);
    r->idle = idle && pool_is_idle() && (r->ended || (wait && script_waits(NULL, 0) == wait));
    r->waits = r->idle && !r->ended;
    if (!r->idle || !server_here(&unused))
        return 0;
    waits_lacked(lacks);
    for (int w = 0; w < server_workers(); w++)
        if (lacks[w].lacks >= 0)
            lacks[n++] = lacks[w];
    return n;
}

static void send_report(int64_t now_us, bool idle, bool leaves)
{
    const ask_report *r = (const ask_report *)(void *)here.report;
    bool answers = here.asked != here.answered;
    if (!answers && (leaves || alive_has_left(server_rank(0)) ||
                     now_us - here.reported_us < REPORT_US))
        return;
    int n = make_report(idle, leaves);
    if (!answers && !r->waits)
        return;
    here.reported_us = now_us;
    size_t bytes = sizeof *r + (size_t)n * sizeof(ask_lack);
    net_answer(server_rank(0), (link_rec){.kind = LINK_BEAT, .bytes = (uint32_t)bytes}, r);
    here.answered = here.asked;
}

/* ---- The first server ---- */

static bool is_same(const ask_report *a, const ask_report *b)
{
    return a->sent == b->sent && a->taken == b->taken && a->gone == b->gone && a->idle && b->idle &&
           a->ended == b->ended;
}

static void keep_report(int rank, const void *payload, int n)
{
    reported *x = &here.ranks[rank];
    const ask_report *r = payload;
    const ask_lack *lacks = (const ask_lack *)(const void *)(r + 1);
    if (!x->come || !is_same(&x->last, r))
        x->before = here.question + 1;
    x->come = true;
    x->last = *r;
    x->last.place[sizeof x->last.place - 1] = '\0';
    for (int w = 0; w < server_workers(); w++)
        if (here.lacks[w].server == rank)
            here.lacks[w].lack.lacks = -1;
    for (int i = 0; i < n; i++)
        if (lacks[i].rank >= 0 && lacks[i].rank < server_workers() &&
            lacks[i].lacks < server_workers())
            here.lacks[lacks[i].rank] = (lacking){lacks[i], rank};
}

static void take_beat(int rank, const link_rec *r)
{
    int64_t question;
    if (r->bytes == sizeof question && rank == server_rank(0)) {
        memcpy(&question, r + 1, sizeof question);
        here.asked = question;
    } else if (r->bytes >= sizeof(ask_report) && here.ranks) {
        keep_report(rank, r + 1, (int)((r->bytes - sizeof(ask_report)) / sizeof(ask_lack)));
    }
}

/* The worker that a worker waits for; NULL: no server knows one. Of several servers that know one
 * the last report counts: another one that it hid comes back with the next question. */
static const ask_lack *lack_of(int rank)
{
    const lacking *x = &here.lacks[rank];
    return x->lack.lacks >= 0 && !alive_is_gone(x->server) ? &x->lack : NULL;
}

/* Returns true if every worker waits or has left, as they have reported, and some wait. Servers and
 * ranks that have left report when they are asked. */
static bool all_wait(void)
{
    bool all = true, waits = false;
    for (int r = 0; r < server_workers() && all; r++) {
        const ask_report *last = &here.ranks[r].last;
        waits |= last->waits;
        all = last->waits || alive_is_gone(r) || spares_waits(r) || alive_has_left(r);
    }
    return all && waits;
}

static bool is_asked(void)
{
    bool answered = true;
    for (int r = 0; r < link_size() && answered; r++)
        answered = alive_is_gone(r) || r == link_rank() ||
                   here.ranks[r].last.asked == here.question;
    return !answered;
}

static bool is_proven(void)
{
    int64_t sent = 0, taken = 0;
    for (int r = 0; r < link_size(); r++) {
        const reported *x = &here.ranks[r];
        if (alive_is_gone(r))
            continue;
        if (!x->come || !x->last.idle || x->last.gone != here.ranks[link_rank()].last.gone)
            return false;
        if (x->before > here.question || x->last.asked != here.question)
            return false;
        sent += x->last.sent;
        taken += x->last.taken;
        const ask_lack *lack = x->last.waits ? lack_of(r) : NULL;
        if (x->last.waits && (!lack || !here.ranks[lack->lacks].last.waits))
            return false;
    }
    return sent == taken;
}

/* "rank 1: pull w, round 1 lacks rank 0, d.kv:7": the round stands in front of the place. */
static void describe_rank(buf *out, int rank)
{
    const char *at = here.ranks[rank].last.place, *file = strrchr(at, ',');
    const ask_lack *lack = lack_of(rank);
    size_t n = file ? (size_t)(file - at) : strlen(at);
    buf_printf(out, "; rank %d: %.*s", rank, (int)n, at);
    if (lack && lack->in_round) {
        char text[SLOT_KEY_TEXT];
        kv_key key;
        const server_state *s = server_store(lack->store);
        bool known = s && s->coordinator && coordinator_key(s, lack->part, &key);
        buf_printf(out, ", round %lld", (long long)lack->round);
        if (known && !memchr(at, ' ', n))
            buf_printf(out, " of key %s", slot_key_text(text, &key));
        buf_printf(out, " lacks rank %d", lack->lacks);
    }
    if (file)
        buf_add(out, file);
}

static void tell(void)
{
    enum { MOST = 440 /* bytes: it travels in a cell of the launcher */ };
    buf text = {0}, one = {0};
    int left = 0;
    buf_add(&text, "deadlock: all ranks wait for each other");
    for (int r = 0; r < server_workers(); r++) {
        if (!here.ranks[r].last.waits || alive_is_gone(r))
            continue;
        buf_clear(&one);
        describe_rank(&one, r);
        if (left > 0 || text.len + one.len > MOST)
            left++;
        else
            buf_add(&text, buf_text(&one));
    }
    if (left > 0)
        buf_printf(&text, "; and %d more", left);
    const char *how = environment(ENV_DEADLOCK);
    if (how && strcmp(how, "0") == 0)
        runtime_log("%s", buf_text(&text));
    else
        alive_told(-1, buf_text(&text));
    buf_release(&one);
    buf_release(&text);
}

static void look_at_all(int64_t now_us, bool idle, bool leaves)
{
    if (leaves) /* the others may have left as well: who asks them would not be heard */
        return;
    here.asked = here.question;
    keep_report(link_rank(), here.report, make_report(idle, leaves));
    if (!all_wait()) {
        here.wait_us = 0;
        here.told = false;
        return;
    }
    here.wait_us = here.wait_us ? here.wait_us : now_us;
    if (here.told || is_asked())
        return;
    if (now_us - here.wait_us >= WAIT_US && is_proven()) {
        here.told = true;
        tell();
    } else if (now_us - here.asked_us >= QUESTION_US) {
        here.asked_us = now_us;
        here.question++;
        const link_rec beat = {.kind = LINK_BEAT, .bytes = sizeof here.question};
        for (int r = 0; r < link_size(); r++)
            if (r != link_rank() && !alive_is_gone(r))
                net_answer(r, beat, &here.question);
    }
}

/* ---- For the net ---- */

static void rest(int64_t now_us, bool idle, bool leaves)
{
    if (here.ranks)
        look_at_all(now_us, idle, leaves);
    else
        send_report(now_us, idle, leaves);
}

/* A question that was sent gets an answer: until it has come the link of neither rank may close. */
static bool is_settled(void)
{
    return here.ranks ? !is_asked() : here.answered == here.asked;
}

int deadlock_open(kv_err *e)
{
    static const net_taker taker = {.take = {[LINK_BEAT] = take_beat}, .rest = rest,
                                    .settled = is_settled};
    here.report =
        mem_zalloc(1, sizeof(ask_report) + (size_t)server_workers() * sizeof(ask_lack), e);
    bool good = here.report != NULL;
    if (good && is_first_server()) {
        here.ranks = mem_zalloc(link_size(), sizeof *here.ranks, e);
        here.lacks = mem_zalloc(server_workers(), sizeof *here.lacks, e);
        good = here.ranks && here.lacks;
        for (int w = 0; w < server_workers() && good; w++)
            here.lacks[w].lack.lacks = -1;
    }
    net_add_taker(&taker);
    return good ? KV_OK : KV_E_MEMORY;
}
