#include "server_alone.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "unit/test.h"

#define HOLDS(condition, why) CHECK((condition) && (why))

net_taker alone_taker;
void (*alone_sees)(int rank, const link_rec *r);
int32_t alone_priority;
int alone_posted;
int alone_cannot_serve;
bool alone_full;
void (*alone_naps)(void);
void *(*alone_answers)(const net_call *c, int64_t *bytes);

static int own_rank, ranks;
static net_item *first, **end = &first;
static int64_t now_us;
static link_rec *open_record; /* reserved, of `room` bytes of payload */
static int64_t room;
static bool may_overtake; /* the open record was reserved as all of its chunk */

void alone_ranks(int rank, int size)
{
    own_rank = rank;
    ranks = size;
}

/* ---- Sending ---- */

static void see(int rank, const link_rec *r)
{
    HOLDS(rank >= 0 && rank < ranks && r->kind < LINK_KINDS, "a record to a rank");
    if (r->kind == LINK_FAILED) {
        kv_err e;
        HOLDS(r->bytes == sizeof e, "an error");
        memcpy(&e, r + 1, sizeof e);
        HOLDS(e.code > KV_OK && e.code < KV_NCODES && e.text[0], e.text);
    }
    if (alone_sees)
        alone_sees(rank, r);
}

link_rec *link_reserve(int rank, int64_t bytes)
{
    if (alone_full)
        return NULL;
    HOLDS(!open_record && rank >= 0 && rank < ranks, "one record at a time");
    HOLDS(bytes >= 0 && bytes <= LINK_PAYLOAD, "a payload that the link has room for");
    open_record = malloc(sizeof *open_record + (size_t)bytes);
    HOLDS(open_record != NULL, "memory");
    room = bytes;
    may_overtake = false;
    return open_record;
}

link_rec *link_reserve_by(int rank, int64_t bytes, int32_t priority, bool whole)
{
    link_rec *r = link_reserve(rank, bytes);
    (void)priority;
    may_overtake = r && whole;
    return r;
}

/* A chunk may be cut into the records of a push or of values. */
static bool is_whole(const link_rec *r)
{
    if (r->kind != LINK_PUSH && r->kind != LINK_VALUE)
        return true;
    return r->flags & LINK_LAST && (r->kind == LINK_PUSH ? r->from : r->from) == 0;
}

void link_commit(int rank)
{
    HOLDS(open_record && open_record->bytes <= room, "no more than was reserved");
    HOLDS(!may_overtake || is_whole(open_record), "a chunk of one record");
    see(rank, open_record);
    free(open_record);
    open_record = NULL;
}

link_rec *net_reserve_own(int64_t bytes)
{
    return link_reserve(own_rank, bytes);
}

void net_commit_own(void)
{
    link_commit(own_rank);
}

void net_answer(int rank, link_rec head, const void *payload)
{
    link_rec *r = malloc(sizeof *r + head.bytes);
    HOLDS(r != NULL, "memory");
    *r = head;
    if (head.bytes)
        memcpy(r + 1, payload, head.bytes);
    see(rank, r);
    free(r);
}

void net_answer_buf(int rank, link_rec head, buf *b)
{
    int64_t at = 0, all = (int64_t)b->len;
    uint8_t flags = head.flags;
    do {
        int64_t n = all - at < LINK_PAYLOAD ? all - at : LINK_PAYLOAD;
        head.bytes = (uint32_t)n;
        head.flags = at + n == all ? flags : flags & (uint8_t)~LINK_LAST;
        net_answer(rank, head, n ? b->data + at : NULL);
        at += n;
    } while (at < all);
    buf_release(b);
}

void net_count_sent(int rank)
{
    (void)rank;
}

net_traffic net_count_traffic(void)
{
    return (net_traffic){0};
}

void net_post(net_item *i)
{
    i->next = NULL;
    alone_priority = i->priority;
    *end = i;
    end = &i->next;
    __atomic_add_fetch(&alone_posted, 1, __ATOMIC_RELEASE);
}

void net_post_list(net_item *list)
{
    for (net_item *next; list; list = next) {
        next = list->next;
        net_post(list);
    }
}

/* Those that wait for something stay. */
static void send(bool all)
{
    net_item *left = NULL, **left_end = &left;
    while (first) {
        net_item *i = first;
        first = i->next;
        end = first ? end : &first;
        net_step step;
        while ((step = i->step(i)) == NET_MORE)
            ;
        HOLDS(step == NET_ENDED || !all, "the link is never full");
        if (step != NET_ENDED) {
            *left_end = i;
            left_end = &i->next;
            *left_end = NULL;
        } else if (i->release) {
            i->release(i);
        }
    }
    first = left;
    end = left ? left_end : &first;
}

void alone_send_all(void)
{
    send(true);
}

void alone_send_some(void)
{
    send(false);
}

/* ---- The rest of the net --------------------------------------------------------------------- */

void net_add_taker(const net_taker *t)
{
    for (int i = 0; i < LINK_KINDS; i++)
        alone_taker.take[i] = t->take[i] ? t->take[i] : alone_taker.take[i];
    alone_taker.settle = t->settle ? t->settle : alone_taker.settle;
    alone_taker.left = t->left ? t->left : alone_taker.left;
    alone_taker.gone = t->gone ? t->gone : alone_taker.gone;
    alone_taker.look = t->look ? t->look : alone_taker.look;
    alone_taker.lost = t->lost ? t->lost : alone_taker.lost;
}

int net_open(int (*ready)(kv_err *e), kv_err *e)
{
    int code = alive_open(net_now_us(), e);
    return code ? code : ready(e);
}

void net_close(void)
{
}

int net_new_store(kv_err *e)
{
    (void)e;
    return 0;
}

int net_calls_wait(const net_call *calls, int n, void **replies, int64_t *bytes, kv_err *e)
{
    if (!alone_answers)
        return kv_err_set(e, KV_E_PEER, "there is no other rank");
    for (int i = 0; i < n; i++) {
        int64_t some = 0;
        void *reply = alone_answers(&calls[i], &some);
        if (!replies) {
            mem_free(reply);
            continue;
        }
        replies[i] = reply;
        bytes[i] = some;
    }
    return KV_OK;
}

int net_call_wait(const net_call *c, void **reply, int64_t *reply_bytes, kv_err *e)
{
    return net_calls_wait(c, 1, reply, reply_bytes, e);
}

void net_cannot_serve(const kv_err *why)
{
    HOLDS(why->code > KV_OK && why->text[0], "the reason"); /* the job ends with it */
    alone_cannot_serve++;
}

void net_wake(void)
{
}

int64_t net_now_us(void)
{
    return now_us += 1000;
}

double net_timeout(void)
{
    return 1;
}

int usleep(useconds_t us)
{
    HOLDS(us > 0, "a time");
    if (alone_naps)
        alone_naps();
    return 0;
}

/* ---- The link -------------------------------------------------------------------------------- */

int link_open(kv_err *e)
{
    (void)e;
    return KV_OK;
}

int link_rank(void)
{
    return own_rank;
}

int link_size(void)
{
    return ranks;
}

bool link_shares_memory(int rank)
{
    (void)rank;
    return true;
}

bool link_poll(void (*take)(int rank, const link_rec *r), int64_t bytes)
{
    (void)take, (void)bytes;
    return false;
}

void link_release(void)
{
}

bool link_prepare_sleep(bool listening)
{
    (void)listening;
    return false;
}

void link_sleep(int64_t us)
{
    (void)us;
}

void link_wake(void)
{
}
