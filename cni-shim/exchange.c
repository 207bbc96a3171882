/*
 * One request to the daemon over its unix socket, and its answer, all of it before a deadline. Between two daemons, at
 * an upgrade or after a crash, nobody listens, and one that ends may cut its answer. What can be asked again is, until
 * somebody answers: the next daemon goes on where this one stopped.
 */
#include "shim.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    CONNECT_RETRY_MS = 5, /* a full backlog empties within one turn of the daemon's event loop */
    ABSENT_RETRY_MS = 50, /* a daemon takes the better part of a second to start */
};

static const char HINT_ABSENT[] = "start the daemon, or see in its log why it ended; its --socket must be the plugin's socket";
static const char HINT_BUSY[] = "the daemon hangs, or has more to do than it can; see its log";
static const char HINT_FOREIGN[] =
    "the user that executes the plugin has no right to the daemon's socket, which is its own user's and root's: execute the runtime as one of "
    "them; rootless runtimes cannot use the plugin";
static const char HINT_ENDED[] =
    "the kubelet repeats what failed, with another runtime start the container again; the daemon's log says why it ended";
static const char HINT_ODD[] = "something that is not a holdfast daemon of this version may listen on the socket";

static const char *connect_hint(int error)
{
    switch (error) {
    case ENOENT:
    case ECONNREFUSED:
        return HINT_ABSENT;
    case EAGAIN:
        return HINT_BUSY;
    case EACCES:
    case EPERM:
        return HINT_FOREIGN;
    default:
        return HINT_ODD;
    }
}

/* How long to rest before connect is tried again; -1: this error stays. */
static int retry_after_ms(int error, int64_t absent_until_ms, int64_t deadline_ms)
{
    int64_t now = now_ms();
    if (now >= deadline_ms)
        return -1;
    if (error == EAGAIN || error == EINTR)
        return CONNECT_RETRY_MS;
    return (error == ENOENT || error == ECONNREFUSED) && now < absent_until_ms ? ABSENT_RETRY_MS : -1;
}

/*
 * A unix socket with a full backlog does not become ready, as a TCP one would: connect says EAGAIN, and one asks again.
 * A daemon that is not there may be about to start, at boot or a restart, and not every runtime tries again itself.
 */
static int connect_daemon(const char *path, int64_t absent_until_ms, int64_t deadline_ms, struct trouble *trouble)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        fail(trouble, CNI_BAD_CONFIGURATION, "shorten HOLDFAST_SOCKET, or socket= in shim.conf",
             "socket path is longer than the %zu bytes that a unix socket can have: %s", sizeof address.sun_path - 1, path);
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path));

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    while (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        int error = errno;
        int rest_ms = fd < 0 ? -1 : retry_after_ms(error, absent_until_ms, deadline_ms);
        if (rest_ms >= 0) {
            (void)poll(NULL, 0, rest_ms);
            continue;
        }
        errno = error;
        bool is_forbidden = error == EACCES || error == EPERM; /* and stays so, however often one tries */
        fail(trouble, is_forbidden ? CNI_IO_FAILURE : CNI_TRY_AGAIN_LATER, connect_hint(error), "holdfast daemon not reachable at %s: %s", path,
             strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

/* Drops the first `sent` bytes of the two parts. */
static void advance(struct iovec parts[2], size_t sent)
{
    for (size_t i = 0; i < 2; i++) {
        size_t taken = sent < parts[i].iov_len ? sent : parts[i].iov_len;
        parts[i].iov_base = (char *)parts[i].iov_base + taken;
        parts[i].iov_len -= taken;
        sent -= taken;
    }
}

enum outcome {
    ANSWERED,
    LEFT,  /* answered by a daemon that ends: the next one may do it */
    ENDED, /* without an answer; the next daemon may do it */
    FAILED
};

/*
 * Sends and receives at once: a daemon may answer, and close, before it has read all of the request (413, shutting
 * down), and that answer counts. So trouble with sending only ends the sending.
 */
static enum outcome converse(int fd, const char *path, struct iovec parts[2], int64_t deadline_ms,
                             struct answer *answer, struct trouble *trouble)
{
    /* One byte more than both bounds: a full buffer is always either complete or broken. */
    static char received[ANSWER_HEAD_BYTES_MAX + ANSWER_BODY_BYTES_MAX + 1];
    size_t received_length = 0;
    const char *fault = NULL;
    enum progress progress = INCOMPLETE;

    while (progress == INCOMPLETE) {
        bool unsent = parts[0].iov_len + parts[1].iov_len > 0;
        short ready = wait_ready(fd, (short)(unsent ? POLLIN | POLLOUT : POLLIN), deadline_ms);
        if (ready == 0) {
            fail(trouble, CNI_TRY_AGAIN_LATER, HINT_BUSY, "holdfast daemon at %s did not answer in time", path);
            return FAILED;
        }
        if (unsent && (ready & POLLOUT)) {
            ssize_t sent = sendmsg(fd, &(struct msghdr){.msg_iov = parts, .msg_iovlen = 2}, MSG_NOSIGNAL);
            bool only_later = sent < 0 && (errno == EAGAIN || errno == EINTR);
            advance(parts, sent >= 0 ? (size_t)sent : only_later ? 0 : SIZE_MAX);
        }
        if (ready & (POLLIN | POLLHUP | POLLERR)) {
            ssize_t got = recv(fd, received + received_length, sizeof received - received_length, 0);
            if (got < 0 && (errno == EAGAIN || errno == EINTR))
                continue;
            received_length += got > 0 ? (size_t)got : 0;
            progress = got < 0 ? CUT : read_answer(received, received_length, got == 0, answer, &fault);
        }
    }
    switch (progress) {
    case BROKEN:
        fail(trouble, CNI_TRY_AGAIN_LATER, HINT_ODD, "answer of the holdfast daemon at %s is not understood: %s", path, fault);
        return FAILED;
    case CUT:
        fail(trouble, CNI_TRY_AGAIN_LATER, HINT_ENDED, "holdfast daemon at %s ended while it answered", path);
        return ENDED;
    default:
        return answer->from_ending ? LEFT : ANSWERED;
    }
}

/* The answer's body points into memory that the next exchange would use. */
bool exchange(const char *socket_path, const struct text *body, int absent_ms, int64_t deadline_ms,
              struct answer *answer, struct trouble *trouble)
{
    char head[256];
    int head_length = snprintf(head, sizeof head,
                               "POST /cni HTTP/1.1\r\nHost: holdfast\r\nContent-Type: application/json\r\n"
                               "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                               body->length);
    for (;;) {
        struct iovec parts[2] = {{head, (size_t)head_length}, {body->bytes, body->length}};
        int fd = connect_daemon(socket_path, now_ms() + absent_ms, deadline_ms, trouble);
        if (fd < 0)
            return false;
        enum outcome outcome = converse(fd, socket_path, parts, deadline_ms, answer, trouble);
        close(fd);
        bool next_may = absent_ms > 0 && now_ms() + ABSENT_RETRY_MS < deadline_ms;
        if (outcome == ANSWERED || outcome == FAILED || !next_may)
            return outcome == ANSWERED || outcome == LEFT;
        (void)poll(NULL, 0, ABSENT_RETRY_MS);
    }
}
