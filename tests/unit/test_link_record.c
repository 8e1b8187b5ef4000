/* link_record: each kind of record between ranks in words, with the fields that it has. */
#include "test.h"

#include "distributed/asks.h"
#include "distributed/link_record.h"

static void prints(link_rec r, const char *expected)
{
    own_buf text = {0};
    link_print(&text, &r);
    CHECK_TEXT(buf_text(&text), expected);
}

TEST(link_print_parts)
{
    prints((link_rec){.kind = LINK_PUSH, .bytes = 4096, .flags = LINK_HOST, .store = 1, .part = 3,
                      .request = 7, .round = 2, .pulls = 1, .from = 4096, .n = 16384},
           "push part 3, round 2, offset 4096 of 16384, pulls 1; store 1, request 7; 4096 "
           "bytes, host");
    prints((link_rec){.kind = LINK_PUSH, .bytes = 40, .flags = LINK_LAST | LINK_CODES, .part = 3,
                      .request = 7, .round = 2, .pulls = 1, .from = 512, .n = 128},
           "push part 3, round 2, elements 512 to 639, pulls 1; store 0, request 7; 40 bytes, "
           "last, codes");
    prints((link_rec){.kind = LINK_PUSH, .bytes = 16, .flags = LINK_SPARSE, .request = 7, .n = 64},
           "push part 0, round 0, offset 0 of 64, pulls 0; store 0, request 7; 16 bytes, sparse");
    prints((link_rec){.kind = LINK_PULL, .part = 4, .request = 9, .round = 5, .chunk = 2,
                      .priority = -1},
           "pull part 4, round 5, chunk 2, priority -1; store 0, request 9; 0 bytes");
    prints((link_rec){.kind = LINK_PULL, .flags = LINK_CHANGES, .part = 4, .request = 9, .round = 5,
                      .chunk = 2, .from = 3},
           "pull part 4, round 5, chunk 2, priority 0, since 3; store 0, request 9; 0 bytes, "
           "changes");
    prints((link_rec){.kind = LINK_VALUE, .bytes = 6, .flags = LINK_CHANGES, .part = 4,
                      .request = 9, .chunk = 2, .from = 8, .n = 5, .round = 6},
           "value part 4, round 6, chunk 2, elements 8 to 12; store 0, request 9; 6 bytes, "
           "changes");
    prints((link_rec){.kind = LINK_ADD, .bytes = 8, .flags = LINK_LAST | LINK_BROADCAST, .part = 4,
                      .request = 9, .round = 5, .chunk = 2, .priority = 3, .dtype = KV_FLOAT64},
           "add part 4, round 5, chunk 2, priority 3, float64; store 0, request 9; 8 bytes, "
           "last, broadcast");
    prints((link_rec){.kind = LINK_VALUE, .bytes = 8, .part = 4, .request = 9, .chunk = 2,
                      .from = 64, .n = 256},
           "value part 4, round 0, chunk 2, offset 64 of 256; store 0, request 9; 8 bytes");
    prints((link_rec){.kind = LINK_VALUE, .bytes = 10, .flags = LINK_CODES, .part = 4, .request = 9,
                      .chunk = 2, .from = 64, .n = 8},
           "value part 4, round 0, chunk 2, elements 64 to 71; store 0, request 9; 10 bytes, "
           "codes");
    prints((link_rec){.kind = LINK_DONE, .store = 2, .request = 9, .n = 3},
           "done, pushes 3; store 2, request 9; 0 bytes");
}

/* A call whose arguments are args. */
static void prints_call(dist_ask what, link_args args, const char *expected)
{
    own_buf text = {0};
    link_rec r = {.kind = LINK_CALL, .flags = LINK_LAST, .request = link_call_number(12),
                  .args = args, .what = what};
    buf_printf(&text, "call %s, offset 0; store 0, call 12; 0 bytes, last", expected);
    prints(r, buf_text(&text));
}

TEST(link_print_calls)
{
    prints_call(ASK_CREATE, (link_args){0}, "create");
    prints_call(ASK_FREE, (link_args){0}, "free");
    prints_call(ASK_DONE, (link_args){0}, "done");
    prints_call(ASK_DONE, (link_args){.closes = 1}, "done, closes");
    prints_call(ASK_INIT, (link_args){.inits = 1}, "init, of the first worker's init");
    prints_call(ASK_DROP, (link_args){.drop = {5, 2}}, "drop 2 parts from 5 on");
    prints_call(ASK_OPTIMIZER, (link_args){0}, "optimizer");
    prints_call(ASK_COMMAND, (link_args){.head = 8}, "command head 8");
    prints_call(ASK_ROWS, (link_args){.rows = {5, 2}}, "rows part 5, round 2");
    prints_call(ASK_STATES, (link_args){0}, "states");
    prints_call(ASK_SET_STATES, (link_args){0}, "set states");
    prints_call(ASK_COUNTS, (link_args){0}, "counts");
    prints_call(ASK_MISSED, (link_args){0}, "missed");
    prints_call(ASK_ROUNDS, (link_args){0}, "rounds");
    prints_call(ASK_LOOK, (link_args){.look = 5}, "look part 5");
    prints_call(ASK_GROW, (link_args){.grow = {3, 120}}, "grow rank 3, round 120");
    prints_call(ASK_KEYS, (link_args){0}, "keys");
    prints_call(ASK_PLACE, (link_args){0}, "place");
    prints_call(ASK_READY, (link_args){0}, "ready");
    prints_call(ASK_FIND, (link_args){.any = 1}, "find, any key");
    prints_call(ASK_BARRIER, (link_args){.barrier = ASK_MEET}, "barrier");
    prints_call(ASK_BARRIER, (link_args){.barrier = ASK_HOLD}, "barrier, holds the others");
    prints_call(ASK_BARRIER, (link_args){.barrier = ASK_HOLD_ENDS}, "barrier, holds no longer");
    prints_call(ASK_EPOCH, (link_args){.optimizer.number = 3}, "epoch 3 optimizers");
    prints_call(ASK_SEND, (link_args){.mail = {1, 2}}, "send peer 1, tag 2");
    prints_call(ASK_RECEIVE, (link_args){.mail = {1, 2}}, "receive peer 1, tag 2");
    prints_call((dist_ask)99, (link_args){0}, "unknown");
    prints((link_rec){.kind = LINK_REPLY, .bytes = 24, .flags = LINK_LAST,
                      .request = link_call_number(12)},
           "reply; store 0, call 12; 24 bytes, last");
}

TEST(link_print_failed)
{
    struct {
        link_rec head;
        kv_err why;
    } r = {.head = {.kind = LINK_FAILED, .bytes = sizeof(kv_err), .part = 4, .request = 9}};
    own_buf text = {0}, expected = {0};
    kv_err_set(&r.why, KV_E_MEMORY, "no memory for a push");
    link_print(&text, &r.head);
    buf_printf(&expected, "failed part 4 (no memory for a push); store 0, request 9; %zu bytes",
               sizeof(kv_err));
    CHECK_TEXT(buf_text(&text), buf_text(&expected));
}

TEST(link_print_of_the_link)
{
    prints((link_rec){.kind = LINK_SKIP}, "skip; 0 bytes");
    prints((link_rec){.kind = LINK_BEAT}, "beat; 0 bytes");
    prints((link_rec){.kind = LINK_LEFT}, "left; 0 bytes");
    prints((link_rec){.kind = LINK_LOST, .bytes = 8}, "lost; 8 bytes");
    prints((link_rec){.kind = LINK_GROWN, .args.grow = {3, 120}},
           "grown: rank 3, round 120; 0 bytes");
    prints((link_rec){.kind = LINK_KINDS}, "a record of the unknown kind 13");
}
