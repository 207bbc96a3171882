/*
 * Sends one HTTP request again and again over many connections to a unix socket, each with one request in flight, and
 * tells how long the answers took.
 *
 *   load-client SOCKET REQUEST COUNT CONNECTIONS SEED
 *
 * REQUEST is a file with a whole HTTP/1.1 request; 64 times `@` in it is the place of the container ID, random as a
 * runtime makes them: in sequence they would be kinder to the database than it will ever have it. Another SEED makes
 * others. Prints one line: seconds of all, then the microseconds p50, p99 and max of one. An answer that is not 200
 * ends it with 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const char PLACE[] = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";
enum { CONNECTIONS_MAX = 1024, REQUEST_BYTES_MAX = 16 * 1024, ANSWER_BYTES_MAX = 16 * 1024 };

struct connection {
    int fd;
    int64_t sent_ns;
    size_t length;
    char answer[ANSWER_BYTES_MAX + 1];
};

static char request[REQUEST_BYTES_MAX];
static size_t request_length;
static char *place;
static uint64_t random_state;

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "load-client: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void read_request(const char *path)
{
    int fd = open(path, O_RDONLY);
    ssize_t length = fd < 0 ? -1 : read(fd, request, sizeof request);
    if (length < 0 || length == (ssize_t)sizeof request)
        give_up(path);
    close(fd);
    request_length = (size_t)length;
    place = memmem(request, request_length, PLACE, sizeof PLACE - 1);
    if (place == NULL)
        give_up("the request has no place for a container ID");
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof address.sun_path)
        give_up(path);
    memcpy(address.sun_path, path, strlen(path));
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        give_up(path);
    return fd;
}

/* SplitMix64, by Sebastiano Vigna; its outputs are all different. */
static uint64_t next_random(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static void send_request(struct connection *connection)
{
    char digits[sizeof PLACE];
    for (int i = 0; i < 4; i++)
        (void)snprintf(digits + i * 16, sizeof digits - (size_t)i * 16, "%016" PRIx64, next_random());
    memcpy(place, digits, sizeof PLACE - 1);
    connection->length = 0;
    connection->sent_ns = now_ns();
    if (send(connection->fd, request, request_length, MSG_NOSIGNAL) != (ssize_t)request_length)
        give_up("send");
}

/* True when the whole answer is there. */
static bool receive_answer(struct connection *connection)
{
    char *end = connection->answer + connection->length;
    ssize_t got = recv(connection->fd, end, ANSWER_BYTES_MAX - connection->length, 0);
    if (got <= 0)
        give_up("recv");
    connection->length += (size_t)got;
    connection->answer[connection->length] = '\0';
    const char *body = strstr(connection->answer, "\r\n\r\n");
    const char *length = strcasestr(connection->answer, "content-length:");
    if (body == NULL || length == NULL)
        return false;
    if (connection->length < (size_t)(body + 4 - connection->answer) + strtoul(length + 15, NULL, 10))
        return false;
    if (strncmp(connection->answer, "HTTP/1.1 200", 12) != 0) {
        fprintf(stderr, "load-client: %s\n", connection->answer);
        exit(EXIT_FAILURE);
    }
    return true;
}

static int ascending(const void *a, const void *b)
{
    const int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

int main(int argument_count, char **arguments)
{
    static struct connection connections[CONNECTIONS_MAX];
    const long count = argument_count == 6 ? atol(arguments[3]) : 0, width = count > 0 ? atol(arguments[4]) : 0;
    if (count < 1 || width < 1 || width > CONNECTIONS_MAX) {
        fprintf(stderr, "load-client SOCKET REQUEST COUNT CONNECTIONS SEED\n");
        return 2;
    }
    read_request(arguments[2]);
    random_state = strtoull(arguments[5], NULL, 10) << 32;
    int64_t *latencies_ns = calloc((size_t)count, sizeof *latencies_ns);
    int poller = epoll_create1(EPOLL_CLOEXEC);
    if (latencies_ns == NULL || poller < 0)
        give_up("start");
    for (long i = 0; i < width; i++) {
        connections[i].fd = connect_to(arguments[1]);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[i]};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, connections[i].fd, &event) != 0)
            give_up("epoll_ctl");
    }

    long sent = 0, answered = 0;
    const int64_t start_ns = now_ns();
    while (sent < count && sent < width) {
        send_request(&connections[sent]);
        sent++;
    }
    while (answered < count) {
        struct epoll_event events[CONNECTIONS_MAX];
        int ready = epoll_wait(poller, events, CONNECTIONS_MAX, -1);
        for (int i = 0; i < ready; i++) {
            struct connection *connection = events[i].data.ptr;
            if (!receive_answer(connection))
                continue;
            latencies_ns[answered++] = now_ns() - connection->sent_ns;
            if (sent < count) {
                send_request(connection);
                sent++;
            }
        }
    }
    const int64_t took_ns = now_ns() - start_ns;
    qsort(latencies_ns, (size_t)count, sizeof *latencies_ns, ascending);
    printf("%.6f %.1f %.1f %.1f\n", (double)took_ns / 1e9, (double)latencies_ns[count / 2] / 1e3,
           (double)latencies_ns[count * 99 / 100] / 1e3, (double)latencies_ns[count - 1] / 1e3);
    return 0;
}
