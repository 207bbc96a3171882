/*
 * Executes a CNI plugin for many pods, on several nodes at once, and tells how long each took.
 *
 *   pod-driver IN_FLIGHT STDIN COMMAND [ARGUMENT…]
 *
 * Each line of the standard input is one execution: the number of a lane, and variables for its environment, separated
 * by tabs (`0<tab>CNI_CONTAINERID=a<tab>CNI_ARGS=…`). A lane is a node: it executes its own lines in their order,
 * IN_FLIGHT of them at a time, and all lanes run at once. STDIN is the file that every execution gets as standard
 * input. First the microseconds of everything are printed, then those of each execution, in the order of the lines. An
 * exit status other than 0 ends the driver with 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LANES_MAX = 16, IN_FLIGHT_MAX = 256, JOBS_MAX = 1 << 16, VARIABLES_MAX = 12, ENVIRONMENT_MAX = 256 };

extern char **environ;

struct job {
    long lane;
    char *variables[VARIABLES_MAX + 1];
    int64_t start_ns;
    int64_t end_ns;
};

struct child {
    struct job *job;
    pid_t pid;
    int output;
    char text[4096];
    size_t text_length;
};

static struct job jobs[JOBS_MAX];
static long job_count;
static long next_of_lane[LANES_MAX]; /* index of the job from which to look for the lane's next one */
static char input_text[16 * 1024];   /* fits into a pipe, so that it can be written before anybody reads */
static size_t input_length;

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "pod-driver: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void read_input(const char *path)
{
    int fd = open(path, O_RDONLY);
    ssize_t length = fd < 0 ? -1 : read(fd, input_text, sizeof input_text);
    if (length < 0 || length == (ssize_t)sizeof input_text)
        give_up(path);
    close(fd);
    input_length = (size_t)length;
}

static void read_jobs(void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, stdin)) > 0) {
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        struct job *job = &jobs[job_count++];
        char *rest = line;
        job->lane = strtol(strsep(&rest, "\t"), NULL, 10);
        int count = 0;
        while (rest != NULL && count < VARIABLES_MAX)
            job->variables[count++] = strsep(&rest, "\t");
        if (rest != NULL || job->lane < 0 || job->lane >= LANES_MAX || job_count == JOBS_MAX) {
            fprintf(stderr, "pod-driver: line %ld is too much\n", job_count);
            exit(2);
        }
        line = NULL; /* the variables point into it */
        room = 0;
    }
}

static struct job *next_job(long lane)
{
    while (next_of_lane[lane] < job_count) {
        struct job *job = &jobs[next_of_lane[lane]++];
        if (job->lane == lane)
            return job;
    }
    return NULL;
}

/* posix_spawn is vfork and exec in glibc: the driver's own size costs nothing. */
static void start(struct child *child, struct job *job, char **command)
{
    char *environment[ENVIRONMENT_MAX + VARIABLES_MAX + 1];
    size_t count = 0;
    int input[2], output[2];
    posix_spawn_file_actions_t actions;
    for (char **one = environ; *one != NULL && count < ENVIRONMENT_MAX; one++)
        environment[count++] = *one;
    for (char **one = job->variables; *one != NULL; one++)
        environment[count++] = *one;
    environment[count] = NULL;
    job->start_ns = now_ns();
    if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0)
        give_up("pipe");
    if (write(input[1], input_text, input_length) != (ssize_t)input_length)
        give_up("write");
    close(input[1]);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    errno = posix_spawnp(&child->pid, command[0], &actions, NULL, command, environment);
    if (errno != 0)
        give_up(command[0]);
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    child->job = job;
    child->output = output[0];
    child->text_length = 0;
}

/* Reads what there is; true at the end of the output. */
static bool read_output(struct child *child)
{
    char excess[4096];
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
    child->job->end_ns = now_ns();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "pod-driver: exit status %d: %.*s\n", status, (int)child->text_length, child->text);
        exit(EXIT_FAILURE);
    }
}

static void run(long in_flight, char **command)
{
    static struct child children[IN_FLIGHT_MAX];
    static struct pollfd waiting[IN_FLIGHT_MAX];
    nfds_t width = 0;
    for (long turn = 0; turn < in_flight; turn++) {
        for (long lane = 0; lane < LANES_MAX; lane++) {
            struct job *job = next_job(lane);
            if (job == NULL)
                continue;
            if (width == IN_FLIGHT_MAX) {
                fprintf(stderr, "pod-driver: at most %d at once\n", IN_FLIGHT_MAX);
                exit(2);
            }
            start(&children[width], job, command);
            waiting[width] = (struct pollfd){.fd = children[width].output, .events = POLLIN};
            width++;
        }
    }
    for (nfds_t running = width; running > 0;) {
        if (poll(waiting, width, -1) < 0)
            give_up("poll");
        for (nfds_t i = 0; i < width; i++) {
            if (waiting[i].fd < 0 || waiting[i].revents == 0 || !read_output(&children[i]))
                continue;
            finish(&children[i]);
            struct job *job = next_job(children[i].job->lane);
            if (job == NULL) {
                waiting[i].fd = -1;
                running--;
                continue;
            }
            start(&children[i], job, command);
            waiting[i].fd = children[i].output;
        }
    }
}

int main(int count, char **arguments)
{
    const long in_flight = count < 4 ? 0 : atol(arguments[1]);
    if (in_flight < 1) {
        fprintf(stderr, "pod-driver IN_FLIGHT STDIN COMMAND [ARGUMENT…]\n");
        return 2;
    }
    read_input(arguments[2]);
    read_jobs();
    const int64_t start_ns = now_ns();
    run(in_flight, arguments + 3);
    printf("%.1f\n", (double)(now_ns() - start_ns) / 1000);
    for (long i = 0; i < job_count; i++)
        printf("%.1f\n", (double)(jobs[i].end_ns - jobs[i].start_ns) / 1000);
    return 0;
}
