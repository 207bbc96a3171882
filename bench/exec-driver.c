/*
 * Executes CNI plugins, or any commands, side by side, and tells how long they took.
 *
 *   exec-driver ROUNDS COUNT IN_FLIGHT PREFIX {undo|keep} -- STDIN COMMAND [ARGUMENT…] [-- STDIN COMMAND …]
 *
 * A round executes each command COUNT times, IN_FLIGHT of them at a time, and one command after the other, with
 * CNI_COMMAND=ADD and a new container ID (PREFIX, of 16 characters, and a number); STDIN is the file they get as
 * standard input. One line for each: the number of the command, and the microseconds from before the first start until
 * the last has ended. "undo" lets an unmeasured DEL follow, so that networks stay as full as they were.
 * An exit status other than 0 ends the driver with 1.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

enum { SIDES_MAX = 4, IN_FLIGHT_MAX = 256, ENVIRONMENT_MAX = 256, OUTPUT_BYTES_MAX = 4096 };

extern char **environ;

struct side {
    char **command;
    char input[16 * 1024]; /* fits into a pipe, so that it can be written before anybody reads */
    size_t input_length;
};

struct child {
    pid_t pid;
    int output;
    char text[OUTPUT_BYTES_MAX];
    size_t text_length;
};

static char *environment[ENVIRONMENT_MAX];
static char command_variable[64], container_variable[128];

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "exec-driver: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void read_side(struct side *side, char **arguments)
{
    int fd = open(arguments[0], O_RDONLY);
    ssize_t length = fd < 0 ? -1 : read(fd, side->input, sizeof side->input);
    if (length < 0 || length == (ssize_t)sizeof side->input)
        give_up(arguments[0]);
    close(fd);
    side->input_length = (size_t)length;
    side->command = arguments + 1;
}

static void prepare_environment(void)
{
    size_t count = 0;
    for (char **one = environ; *one != NULL && count < ENVIRONMENT_MAX - 3; one++)
        environment[count++] = *one;
    environment[count++] = command_variable;
    environment[count++] = container_variable;
}

/* posix_spawn is vfork and exec in glibc: the driver's own size costs nothing. */
static void start(struct child *child, const struct side *side, const char *verb, const char *container)
{
    int input[2], output[2];
    posix_spawn_file_actions_t actions;
    (void)snprintf(command_variable, sizeof command_variable, "CNI_COMMAND=%s", verb);
    (void)snprintf(container_variable, sizeof container_variable, "CNI_CONTAINERID=%s", container);
    if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0)
        give_up("pipe");
    if (write(input[1], side->input, side->input_length) != (ssize_t)side->input_length)
        give_up("write");
    close(input[1]);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    errno = posix_spawnp(&child->pid, side->command[0], &actions, NULL, side->command, environment);
    if (errno != 0)
        give_up(side->command[0]);
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    child->output = output[0];
    child->text_length = 0;
}

/* Reads what there is; true at the end of the output. */
static bool read_output(struct child *child)
{
    char excess[OUTPUT_BYTES_MAX];
    size_t room = sizeof child->text - child->text_length;
    char *to = room > 0 ? child->text + child->text_length : excess;
    ssize_t got = read(child->output, to, room > 0 ? room : sizeof excess);
    if (got < 0 && errno != EINTR)
        give_up("read");
    if (got > 0 && room > 0)
        child->text_length += (size_t)got;
    return got == 0;
}

static void finish(struct child *child)
{
    int status;
    close(child->output);
    if (waitpid(child->pid, &status, 0) != child->pid)
        give_up("waitpid");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "exec-driver: exit status %d: %.*s\n", status, (int)child->text_length, child->text);
        exit(EXIT_FAILURE);
    }
}

static void start_next(struct child *child, struct pollfd *waiting, const struct side *side, const char *verb,
                       const char *prefix, long number)
{
    char container[80];
    (void)snprintf(container, sizeof container, "%.16s%048ld", prefix, number);
    start(child, side, verb, container);
    *waiting = (struct pollfd){.fd = child->output, .events = POLLIN};
}

/* Executes a side once for each container from `first` to before `end`, and waits for all. */
static void run(const struct side *side, const char *verb, const char *prefix, long first, long end, long in_flight)
{
    static struct child children[IN_FLIGHT_MAX];
    static struct pollfd waiting[IN_FLIGHT_MAX];
    long next = first, running = 0;
    for (; running < in_flight && next < end; running++)
        start_next(&children[running], &waiting[running], side, verb, prefix, next++);
    const nfds_t width = (nfds_t)running;
    while (running > 0) {
        if (poll(waiting, width, -1) < 0)
            give_up("poll");
        for (nfds_t i = 0; i < width; i++) {
            if (waiting[i].fd < 0 || waiting[i].revents == 0 || !read_output(&children[i]))
                continue;
            finish(&children[i]);
            if (next < end) {
                start_next(&children[i], &waiting[i], side, verb, prefix, next++);
            } else {
                waiting[i].fd = -1;
                running--;
            }
        }
    }
}

int main(int count, char **arguments)
{
    static struct side sides[SIDES_MAX];
    int side_count = 0;
    const long rounds = count < 9 ? 0 : atol(arguments[1]), executions = count < 9 ? 0 : atol(arguments[2]);
    const long in_flight = count < 9 ? 0 : atol(arguments[3]);
    if (rounds < 1 || executions < 1 || in_flight < 1 || in_flight > IN_FLIGHT_MAX) {
        fprintf(stderr, "exec-driver ROUNDS COUNT IN_FLIGHT PREFIX {undo|keep} -- STDIN COMMAND [ARGUMENT…] [-- …]\n");
        return 2;
    }
    const char *prefix = arguments[4];
    const bool undo = strcmp(arguments[5], "undo") == 0;
    for (int i = 6; i + 2 < count; i++) {
        if (strcmp(arguments[i], "--") != 0 || side_count == SIDES_MAX)
            continue;
        arguments[i] = NULL; /* ends the command before */
        read_side(&sides[side_count++], arguments + i + 1);
    }
    prepare_environment();
    for (long round = 0; round < rounds; round++) {
        const long first = round * executions, end = first + executions;
        for (int i = 0; i < side_count; i++) {
            const int64_t start_ns = now_ns();
            run(&sides[i], "ADD", prefix, first, end, in_flight);
            printf("%d %.1f\n", i, (double)(now_ns() - start_ns) / 1000);
            if (undo)
                run(&sides[i], "DEL", prefix, first, end, in_flight);
        }
    }
    return 0;
}
