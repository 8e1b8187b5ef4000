/* The messages of kvctl attach: whole ones, and what no reader believes. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attach/attach.h"
#include "launch/jobs_socket.h"
#include "test.h"

typedef struct ends {
    int a, b;
} ends;

static ends make_ends(void)
{
    int fd[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0);
    return (ends){fd[0], fd[1]};
}

static void close_ends(ends x)
{
    close(x.a);
    close(x.b);
}

TEST(jobs_wire_brings_messages)
{
    ends x = make_ends();
    jobs_kind kind = JOBS_DONE;
    buf text = {0};
    CHECK(jobs_say(x.a, JOBS_ENTRY, "pull 3"));
    CHECK(jobs_send(x.a, JOBS_OUT, "a\0b", 3));
    CHECK(jobs_say(x.a, JOBS_STOP, ""));
    CHECK_INT(jobs_receive(x.b, &kind, &text, JOBS_SMALL), 1);
    CHECK_INT(kind, JOBS_ENTRY);
    CHECK_TEXT(buf_text(&text), "pull 3");
    CHECK_INT(jobs_receive(x.b, &kind, &text, 3), 1);
    CHECK_INT(text.len, 3);
    CHECK(memcmp(text.data, "a\0b", 3) == 0);
    CHECK_INT(jobs_receive(x.b, &kind, &text, 0), 1);
    CHECK_INT(kind, JOBS_STOP);
    CHECK_INT(text.len, 0);
    buf_release(&text);
    close_ends(x);
}

/* The reader says this to n bytes of a head that is sent and ends, and sets this errno. */
static void check_received(jobs_head head, size_t n, int want, int why)
{
    ends x = make_ends();
    jobs_kind kind;
    own_buf text = {0};
    CHECK(write(x.a, &head, n) == (ssize_t)n);
    shutdown(x.a, SHUT_WR);
    errno = 0;
    CHECK_INT(jobs_receive(x.b, &kind, &text, JOBS_SMALL), want);
    CHECK_INT(errno, why);
    CHECK(text.cap <= JOBS_SMALL + 64);
    close_ends(x);
}

TEST(jobs_wire_refuses_lengths)
{
    static const uint32_t lengths[] = {JOBS_SMALL + 1, UINT32_MAX, 4};
    jobs_head cut = {.bytes = 4, .kind = JOBS_ENTRY};
    for (int i = 0; i < 3; i++)
        check_received((jobs_head){.bytes = lengths[i], .kind = JOBS_ENTRY}, sizeof cut, -1,
                       EPROTO);
    check_received(cut, 3, -1, EPROTO);
    check_received(cut, 0, 0, 0);
}

TEST(jobs_wire_notices_that_nobody_reads)
{
    ends x = make_ends();
    close(x.b);
    CHECK(!jobs_say(x.a, JOBS_OUT, "text"));
    close(x.a);
}

TEST(jobs_names)
{
    CHECK(jobs_is_name("night-1_b.c") && jobs_is_name("123"));
    CHECK(!jobs_is_name("") && !jobs_is_name(".") && !jobs_is_name("..") && !jobs_is_name("a/b"));
    CHECK(!jobs_is_name("a b") && !jobs_is_name("a\n") && !jobs_is_name("\xc3\xa4"));
    CHECK(!jobs_is_name("0123456789012345678901234567890123456789012345678901234567890123x"));
}

static void check_plot_refused(const buf *b, size_t n)
{
    plot q;
    CHECK_CODE(attach_plot_take(&q, b->data, n, &e), KV_E_FORMAT);
}

TEST(attach_plot_goes_and_comes)
{
    double y[] = {1, 2.5, -3};
    plot p = {.style = PLOT_LINES, .n = 2}, q;
    own_buf b = {0};
    p.series[0] = (plot_series){.name = "loss", .y = y, .n = 3, .step = 1};
    p.series[1] = (plot_series){.name = "", .y = y, .n = 0, .step = 2};
    attach_plot_put(&b, &p);
    CHECK_OK(attach_plot_take(&q, b.data, b.len, &e));
    CHECK_INT(q.n, 2);
    CHECK_TEXT(q.series[0].name, "loss");
    CHECK(memcmp(q.series[0].y, y, sizeof y) == 0);
    plot_release(&q);
    for (size_t n = 0; n < b.len; n++) /* every cut is refused */
        check_plot_refused(&b, n);
}

TEST(attach_plot_believes_no_length)
{
    static const int64_t lengths[] = {-1, 4, INT64_MAX, INT64_MAX / 8 + 1};
    double y[] = {1, 2, 3};
    plot p = {.style = PLOT_HEAT, .n = 1};
    own_buf b = {0};
    p.series[0] = (plot_series){.name = "a", .y = y, .n = 3, .columns = 3, .step = 1};
    attach_plot_put(&b, &p);
    size_t one = offsetof(plot, series);
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        int64_t right = 3;
        size_t at = one + (i % 2 ? offsetof(plot_series, n) : offsetof(plot_series, columns));
        memcpy(b.data + at, &lengths[i / 2], sizeof right);
        check_plot_refused(&b, b.len);
        memcpy(b.data + at, &right, sizeof right);
    }
    memset(b.data + one, 'x', PLOT_NAME); /* a name without an end */
    check_plot_refused(&b, b.len);
    buf_clear(&b);
    snprintf(p.file, sizeof p.file, "made.sh"); /* a picture goes into pictures only */
    attach_plot_put(&b, &p);
    check_plot_refused(&b, b.len);
    buf_clear(&b);
    p = (plot){.style = PLOT_LINES, .n = PLOT_MAX_LINES + 1};
    buf_put(&b, (const char *)&p, sizeof p);
    check_plot_refused(&b, b.len);
}
