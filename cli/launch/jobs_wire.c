/* Sending and receiving whole messages; the head is read first, so that a length is judged before
 * anything of that size is made. */
#include "launch/jobs_wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool send_all(int fd, const char *at, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

bool jobs_send(int fd, jobs_kind kind, const void *text, size_t n, int pass)
{
    jobs_head head = {.bytes = (uint32_t)n, .kind = kind};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof pass)];
    } control = {{0}};
    struct iovec both[] = {{&head, sizeof head}, {(void *)text, n}}; /* in one piece if they fit */
    struct msghdr m = {.msg_iov = both, .msg_iovlen = 2};
    if (n > JOBS_LARGE)
        return false;
    if (pass >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof pass), .cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), &pass, sizeof pass);
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &m, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    size_t rest = sent < (ssize_t)sizeof head ? 0 : (size_t)sent - sizeof head;
    return sent >= (ssize_t)sizeof head && send_all(fd, text + rest, n - rest);
}

bool jobs_say(int fd, jobs_kind kind, const char *text)
{
    return jobs_send(fd, kind, text, strlen(text), -1);
}

/* Keeps one descriptor that came, and closes any others. */
static void take_passed(struct msghdr *m, int *passed)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        int n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (int i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + (size_t)i * sizeof fd, sizeof fd);
            if (passed && *passed < 0)
                *passed = fd;
            else
                close(fd);
        }
    }
}

/* Returns 1, or 0 at an end before the first byte, or -1. */
static int receive_all(int fd, char *to, size_t n, int *passed)
{
    for (size_t at = 0; at < n;) {
        union {
            struct cmsghdr align;
            char bytes[CMSG_SPACE(4 * sizeof(int))];
        } control;
        struct iovec io = {to + at, n - at};
        struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
        ssize_t got = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        take_passed(&m, passed);
        if (got == 0 && at == 0)
            return 0;
        if (got == 0) {
            errno = EPROTO;
            return -1;
        }
        at += (size_t)got;
    }
    return 1;
}

int jobs_receive(int fd, jobs_kind *kind, buf *text, size_t most, int *passed)
{
    jobs_head head;
    if (passed)
        *passed = -1;
    buf_clear(text);
    int rc = receive_all(fd, (char *)&head, sizeof head, passed);
    if (rc <= 0)
        return rc;
    char *room = head.bytes <= most ? buf_room(text, head.bytes) : NULL;
    if (!room && head.bytes > 0) {
        errno = head.bytes <= most ? ENOMEM : EPROTO;
        rc = -1;
    } else if (head.bytes > 0 && (rc = receive_all(fd, room, head.bytes, NULL)) == 0) {
        errno = EPROTO;
        rc = -1;
    }
    if (rc < 0 && passed && *passed >= 0) {
        close(*passed);
        *passed = -1;
    }
    if (rc < 0)
        return rc;
    buf_grew(text, head.bytes);
    *kind = (jobs_kind)head.kind;
    return 1;
}
