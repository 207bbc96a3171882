/*
 * holdfast-ipam: the CNI executable. It carries one CNI call to the holdfast daemon, and the answer back.
 *
 *   runtime ──exec──► environment, stdin ──► one JSON body (wire.ts) ──► POST /cni on the unix socket ──► stdout
 *                                                  └── DEL only, when the daemon is away or could not do it ──► spool
 *
 * It is executed for every interface of every pod, hence C, libc alone, static, and no heap of its own.
 * It checks its environment as CNI's skel does; all other judgement is the daemon's.
 *
 * Built from all .c files of this directory with
 *   cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -Wformat=2 -Wvla
 *     -Werror -DHOLDFAST_VERSION='"1.0.0-rc.1"', the version of package.json,
 * and for release    -O2 -static -o dist/bin/holdfast-ipam
 *     for the tests  -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -o build/holdfast-ipam-asan
 */
#include "shim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXCERPT_BYTES_MAX = 512 }; /* of an answer that is quoted in a message: enough to recognise its author */

/* Equal to CNI_VERSIONS of wire.ts, which a test holds it to. */
static const char VERSION_ANSWER[] =
    "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":"
    "[\"0.1.0\",\"0.2.0\",\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n";

static const char PROGRAM_VERSION[] = "holdfast-ipam " HOLDFAST_VERSION "\n";
static const char ABOUT[] = "CNI IPAM plugin holdfast-ipam: asks the holdfast daemon of this node for addresses.\n"
                            "Container runtimes execute it, with CNI_COMMAND and the rest of the CNI environment set.\n"
                            "CNI protocol versions supported: 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0\n";

struct call {
    const struct verb *verb;
    uint64_t boot_us; /* when the shim started */
    char boot_id[BOOT_ID_BYTES];
    int64_t deadline_ms; /* for everything up to the whole answer */
    struct settings settings;
    struct text body;
    struct answer answer;
};

/* On stderr, which runtimes log at most: for a DEL, whose stdout and exit status say "done" all the same. */
static void say(const char *what, const struct trouble *trouble)
{
    (void)dprintf(STDERR_FILENO, "holdfast-ipam: %s %s %s: %s: %s%s%s\n", variable("CNI_COMMAND"),
                  variable("CNI_CONTAINERID"), variable("CNI_IFNAME"), what, trouble->message,
                  trouble->details[0] != '\0' ? ": " : "", trouble->details);
}

/* Returns the exit status. Where nobody takes the output, all that is left is to say so. */
static int print(const char *bytes, size_t length, int exit_status)
{
    struct trouble trouble;
    if (write_all(STDOUT_FILENO, bytes, length))
        return exit_status;
    fail(&trouble, CNI_IO_FAILURE, "", "%s", strerror(errno));
    say("cannot write to stdout", &trouble);
    return EXIT_FAILURE;
}

static int print_error(const struct trouble *trouble)
{
    char bytes[ERROR_BYTES_MAX];
    struct text text = {.bytes = bytes, .capacity = sizeof bytes};
    put_error(&text, trouble);
    return print(text.bytes, text.length, EXIT_FAILURE);
}

static bool is_object(const struct answer *answer)
{
    return answer->body_length > 0 && answer->body[0] == '{';
}

/* An answer that cannot be passed on as it is becomes an error that quotes it. */
static void fail_with_answer(const struct call *call, struct trouble *trouble)
{
    const struct answer *answer = &call->answer;
    int quoted = answer->body_length < EXCERPT_BYTES_MAX ? (int)answer->body_length : EXCERPT_BYTES_MAX;
    char excerpt[EXCERPT_BYTES_MAX + 1];
    (void)snprintf(excerpt, sizeof excerpt, "%.*s", quoted, answer->body);
    fail(trouble, call->verb->away, excerpt, "holdfast daemon at %s answered with status %d%s", call->settings.socket_path,
         answer->status, answer->status == 200 ? " and no CNI result" : "");
}

static bool ask(struct call *call, struct trouble *trouble)
{
    return exchange(call->settings.socket_path, &call->body, absent_ms(call->verb), call->deadline_ms, &call->answer,
                    trouble);
}

/* ADD, CHECK, GC and STATUS: every fault is the runtime's to know. */
static int carry(struct call *call)
{
    struct trouble trouble;
    if (!read_config(call->deadline_ms, &trouble) || !read_settings(&call->settings, &trouble))
        return print_error(&trouble);
    read_boot_id(call->settings.socket_path, call->boot_id);
    if (!write_body(&call->body, call->verb, call->boot_id, call->boot_us, &trouble))
        return print_error(&trouble);
    if (!ask(call, &trouble)) {
        if (trouble.code == CNI_TRY_AGAIN_LATER)
            trouble.code = call->verb->away;
        return print_error(&trouble);
    }

    bool done = call->answer.status == 200;
    if (is_object(&call->answer) || (done && !call->verb->has_result))
        return print(call->answer.body, call->answer.body_length, done ? EXIT_SUCCESS : EXIT_FAILURE);
    fail_with_answer(call, &trouble);
    return print_error(&trouble);
}

/* The daemon will never accept it, so it must not wait in the spool. 408 and 429 are about now, not about it. */
static bool is_refused(int status)
{
    return status >= 400 && status < 500 && status != 408 && status != 429;
}

static void write_body_without_config(struct call *call)
{
    struct trouble ignored; /* the environment alone always fits: the kernel bounds it */
    forget_config();
    (void)write_body(&call->body, call->verb, call->boot_id, call->boot_us, &ignored);
}

/*
 * DEL: a pod must not stay in "Terminating" for a fault that is not its own (cilium#22067). The daemon needs no more
 * than container ID and interface name, so whatever else fails is said and left out.
 */
static int carry_del(struct call *call)
{
    struct trouble trouble;
    if (!read_config(call->deadline_ms, &trouble))
        say("goes on without its configuration", &trouble);
    if (!read_settings(&call->settings, &trouble))
        say("goes on with defaults", &trouble);
    read_boot_id(call->settings.socket_path, call->boot_id);
    if (!write_body(&call->body, call->verb, call->boot_id, call->boot_us, &trouble)) {
        say("goes on without its configuration", &trouble);
        write_body_without_config(call);
    }

    if (ask(call, &trouble)) {
        if (call->answer.status == 200) {
            (void)print(call->answer.body, call->answer.body_length, EXIT_SUCCESS);
            return EXIT_SUCCESS;
        }
        fail_with_answer(call, &trouble);
        if (is_refused(call->answer.status)) {
            say("refused, not tried again", &trouble);
            return EXIT_SUCCESS;
        }
    }

    say("goes to the spool", &trouble);
    if (call->body.length > SPOOL_FILE_BYTES_MAX)
        write_body_without_config(call);
    if (!spool(call->settings.spool_path, &call->body, call->boot_us, &trouble))
        say("lost", &trouble);
    return EXIT_SUCCESS;
}

/* As the reference plugins answer somebody who wants to know what is installed. */
static bool asks_version(int count, char **words)
{
    return count == 2 && (strcmp(words[1], "--version") == 0 || strcmp(words[1], "-v") == 0 || strcmp(words[1], "version") == 0);
}

int main(int count, char **words)
{
    struct call call = {.boot_us = boot_us_now()};
    const int64_t started_ms = now_ms();
    struct trouble trouble;

    hold_standard_descriptors();
    (void)signal(SIGPIPE, SIG_IGN); /* a runtime that went away is an error of write, not our death before the spool */

    if (asks_version(count, words))
        return print(PROGRAM_VERSION, sizeof PROGRAM_VERSION - 1, EXIT_SUCCESS);
    if (strcmp(variable("CNI_COMMAND"), "VERSION") == 0)
        return print(VERSION_ANSWER, sizeof VERSION_ANSWER - 1, EXIT_SUCCESS);
    if (variable("CNI_COMMAND")[0] == '\0' && isatty(STDIN_FILENO)) {
        (void)write_all(STDERR_FILENO, ABOUT, sizeof ABOUT - 1);
        return EXIT_SUCCESS;
    }
    call.verb = check_environment(&trouble);
    if (call.verb == NULL)
        return print_error(&trouble);
    call.deadline_ms = started_ms + time_limit_ms(call.verb);
    return call.verb->always_succeeds ? carry_del(&call) : carry(&call);
}
