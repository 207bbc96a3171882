/*
 * Guests that ask a metadata server: one thread in each network namespace, all beginning at once, each with one request
 * in flight.
 *
 *   guest-client new|keep COUNT PORTS PATHS NETNS...
 *
 * COUNT requests from each namespace to 169.254.169.254, on a new connection each (`new`) or all on one for each port
 * (`keep`). PORTS and PATHS are lists with commas that are gone through in turn: with two ports two servers are asked
 * alternately, in one run. Prints a line for each request: port, microseconds, status (0: no answer).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORTS_MAX = 8, PATHS_MAX = 64, ANSWER_BYTES_MAX = 64 * 1024, GIVE_UP_SECONDS = 20 };

struct request {
    int port;
    int status;
    int64_t us;
};

struct guest {
    const char *netns;
    struct request *requests;
    int sockets[PORTS_MAX];
};

static bool keeps;
static long count;
static int ports[PORTS_MAX];
static size_t port_count;
static char *paths[PATHS_MAX];
static size_t path_count;
static pthread_barrier_t ready;

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "guest-client: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int dial(int port)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    (void)inet_pton(AF_INET, "169.254.169.254", &there.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    struct timeval limit = {.tv_sec = GIVE_UP_SECONDS, .tv_usec = 0};
    if (fd < 0)
        give_up("socket");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&there, sizeof there) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Length of a whole answer in the buffer; 0: more is needed. Ours all have a Content-Length. */
static size_t whole(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");
    if (end == NULL)
        return 0;
    size_t head = (size_t)(end - answer) + 4;
    for (const char *line = answer; line < end; line = strstr(line, "\r\n") + 2)
        if (strncasecmp(line, "content-length:", 15) == 0)
            return head + strtoul(line + 15, NULL, 10);
    return head;
}

/* Status of the answer; 0: none came. */
static int ask(int fd, const char *path)
{
    char text[1024];
    char answer[ANSWER_BYTES_MAX + 1];
    int length = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: 169.254.169.254\r\nConnection: %s\r\n\r\n", path,
                          keeps ? "keep-alive" : "close");
    if (length <= 0 || send(fd, text, (size_t)length, MSG_NOSIGNAL) != length)
        return 0;
    size_t have = 0;
    for (;;) {
        ssize_t got = recv(fd, answer + have, ANSWER_BYTES_MAX - have, 0);
        if (got <= 0)
            return 0;
        have += (size_t)got;
        answer[have] = '\0';
        size_t all = whole(answer);
        if ((all != 0 && have >= all) || have == ANSWER_BYTES_MAX)
            break;
    }
    return have > 12 ? (int)strtol(answer + 9, NULL, 10) : 0;
}

static void *run_guest(void *argument)
{
    struct guest *guest = argument;
    int netns = open(guest->netns, O_RDONLY | O_CLOEXEC);
    if (netns < 0 || setns(netns, CLONE_NEWNET) != 0)
        give_up(guest->netns);
    (void)close(netns);
    for (size_t i = 0; i < port_count; i++)
        guest->sockets[i] = keeps ? dial(ports[i]) : -1;
    (void)pthread_barrier_wait(&ready);
    for (long i = 0; i < count; i++) {
        size_t at = (size_t)i % port_count;
        struct request *request = &guest->requests[i];
        int64_t start_us = now_us();
        int fd = keeps ? guest->sockets[at] : dial(ports[at]);
        request->port = ports[at];
        request->status = fd < 0 ? 0 : ask(fd, paths[((size_t)i / port_count) % path_count]);
        request->us = now_us() - start_us;
        if (!keeps && fd >= 0)
            (void)close(fd);
    }
    return NULL;
}

static size_t split(char *list, char **into, size_t into_max)
{
    size_t n = 0;
    for (char *part = strtok(list, ","); part != NULL; part = strtok(NULL, ",")) {
        if (n == into_max)
            give_up("too many in a list");
        into[n++] = part;
    }
    return n;
}

int main(int argc, char **argv)
{
    char *port_texts[PORTS_MAX];
    if (argc < 6) {
        fputs("usage: guest-client new|keep COUNT PORTS PATHS NETNS...\n", stderr);
        return EXIT_FAILURE;
    }
    keeps = strcmp(argv[1], "keep") == 0;
    count = strtol(argv[2], NULL, 10);
    port_count = split(argv[3], port_texts, PORTS_MAX);
    path_count = split(argv[4], paths, PATHS_MAX);
    for (size_t i = 0; i < port_count; i++)
        ports[i] = (int)strtol(port_texts[i], NULL, 10);
    size_t guests = (size_t)argc - 5;
    struct guest *all = calloc(guests, sizeof *all);
    pthread_t *threads = calloc(guests, sizeof *threads);
    pthread_attr_t small;
    if (all == NULL || threads == NULL || count <= 0 || port_count == 0 || path_count == 0)
        give_up("arguments");
    (void)pthread_barrier_init(&ready, NULL, (unsigned)guests);
    (void)pthread_attr_init(&small);
    (void)pthread_attr_setstacksize(&small, 512 * 1024);
    for (size_t i = 0; i < guests; i++) {
        all[i].netns = argv[i + 5];
        all[i].requests = calloc((size_t)count, sizeof *all[i].requests);
        if (all[i].requests == NULL || pthread_create(&threads[i], &small, run_guest, &all[i]) != 0)
            give_up("a guest");
    }
    for (size_t i = 0; i < guests; i++)
        (void)pthread_join(threads[i], NULL);
    for (size_t i = 0; i < guests; i++)
        for (long j = 0; j < count; j++)
            printf("%d %" PRId64 " %d\n", all[i].requests[j].port, all[i].requests[j].us, all[i].requests[j].status);
    return EXIT_SUCCESS;
}
