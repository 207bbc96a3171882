/* One HTTP request to the daemon over its unix socket, and its answer, all of it before a deadline. */
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

static const char HINT_AWAY[] = "start the daemon or see its log; its --socket must be the shim's socket";
static const char HINT_ODD[] = "something that is not a holdfast daemon of this version may listen on the socket";

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
 * A daemon that is not there may be about to start, at boot or at a restart, and not every runtime tries again by itself.
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
        fail(trouble, CNI_TRY_AGAIN_LATER, HINT_AWAY, "holdfast daemon not reachable at %s: %s", path, strerror(errno));
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

/*
 * Sends and receives at once: a daemon may answer, and close, before it has read all of the request (413, shutting
 * down), and that answer counts. So trouble with sending only ends the sending.
 */
static bool converse(int fd, const char *path, struct iovec parts[2], int64_t deadline_ms, struct answer *answer,
                     struct trouble *trouble)
{
    /* One byte more than both bounds: a full buffer is always either complete or broken. */
    static char received[ANSWER_HEAD_BYTES_MAX + ANSWER_BODY_BYTES_MAX + 1];
    size_t received_length = 0;
    const char *fault = NULL;
    enum progress progress = INCOMPLETE;

    while (progress == INCOMPLETE) {
        bool unsent = parts[0].iov_len + parts[1].iov_len > 0;
        short ready = wait_ready(fd, (short)(unsent ? POLLIN | POLLOUT : POLLIN), deadline_ms);
        if (ready == 0)
            return fail(trouble, CNI_TRY_AGAIN_LATER, HINT_AWAY, "holdfast daemon at %s did not answer in time", path);
        if (unsent && (ready & POLLOUT)) {
            ssize_t sent = sendmsg(fd, &(struct msghdr){.msg_iov = parts, .msg_iovlen = 2}, MSG_NOSIGNAL);
            bool only_later = sent < 0 && (errno == EAGAIN || errno == EINTR);
            advance(parts, sent >= 0 ? (size_t)sent : only_later ? 0 : SIZE_MAX);
        }
        if (ready & (POLLIN | POLLHUP | POLLERR)) {
            ssize_t got = recv(fd, received + received_length, sizeof received - received_length, 0);
            if (got < 0 && (errno == EAGAIN || errno == EINTR))
                continue;
            if (got < 0)
                return fail(trouble, CNI_TRY_AGAIN_LATER, HINT_AWAY, "holdfast daemon at %s broke the connection: %s", path,
                            strerror(errno));
            received_length += (size_t)got;
            progress = read_answer(received, received_length, got == 0, answer, &fault);
        }
    }
    if (progress == BROKEN)
        return fail(trouble, CNI_TRY_AGAIN_LATER, HINT_ODD, "answer of the holdfast daemon at %s is not understood: %s", path,
                    fault);
    return true;
}

/* The answer's body points into memory that the next exchange would use. */
bool exchange(const char *socket_path, const struct text *body, int64_t absent_until_ms, int64_t deadline_ms,
              struct answer *answer, struct trouble *trouble)
{
    char head[256];
    int head_length = snprintf(head, sizeof head,
                               "POST /cni HTTP/1.1\r\nHost: holdfast\r\nContent-Type: application/json\r\n"
                               "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                               body->length);
    struct iovec parts[2] = {{head, (size_t)head_length}, {body->bytes, body->length}};

    int fd = connect_daemon(socket_path, absent_until_ms, deadline_ms, trouble);
    if (fd < 0)
        return false;
    bool answered = converse(fd, socket_path, parts, deadline_ms, answer, trouble);
    close(fd);
    return answered;
}
