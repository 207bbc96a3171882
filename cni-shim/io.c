/* Clocks, waiting and writing. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

static uint64_t clock_us(clockid_t clock)
{
    struct timespec time = {0};
    (void)clock_gettime(clock, &time); /* cannot fail for the clocks used here */
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

uint64_t boot_us_now(void)
{
    return clock_us(CLOCK_BOOTTIME);
}

int64_t now_ms(void)
{
    return (int64_t)(clock_us(CLOCK_MONOTONIC) / 1000);
}

/* Waits until `fd` is ready, or broken, which the next read or write will tell. 0 when the deadline has passed. */
short wait_ready(int fd, short events, int64_t deadline_ms)
{
    struct pollfd waiting = {.fd = fd, .events = events};
    for (int64_t left_ms; (left_ms = deadline_ms - now_ms()) > 0;) {
        if (poll(&waiting, 1, (int)left_ms) > 0)
            return waiting.revents;
    }
    return 0;
}

bool write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);
        if (written < 0 && errno == EAGAIN) /* somebody's non-blocking pipe as our stdout */
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (written < 0 && errno != EINTR)
            return false;
        size_t done = written > 0 ? (size_t)written : 0;
        bytes += done;
        length -= done;
    }
    return true;
}

/*
 * A file opened in place of a closed stdin, stdout or stderr would get our output, or be taken for our input. So these
 * three are held by something that cannot be used the way they are: still an error, as it should be.
 */
void hold_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}
