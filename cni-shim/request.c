/* The request: the CNI environment and stdin as the JSON object CniWireRequest of wire.ts. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    STDIN_BYTES_MAX = 512 * 1024,     /* 50 × a large configuration: a GC lists every attachment of its node */
    BODY_BYTES_MAX = 4 * 1024 * 1024, /* CNI_BODY_BYTES_MAX of wire.ts; only stdin full of control bytes comes near it */
};

static char config[STDIN_BYTES_MAX + 1]; /* one more, to see that there is more */
static size_t config_length;
static char body_bytes[BODY_BYTES_MAX];

/* Reads stdin to its end. Whatever it holds is kept as it is: what it means is the daemon's to judge. */
bool read_config(int64_t deadline_ms, struct trouble *trouble)
{
    config_length = 0;
    for (size_t length = 0; length <= STDIN_BYTES_MAX;) {
        if (wait_ready(STDIN_FILENO, POLLIN, deadline_ms) == 0)
            return fail(trouble, CNI_IO_FAILURE, "the runtime must close the plugin's stdin after the configuration",
                        "error reading from stdin: no end of file in time");
        ssize_t got = read(STDIN_FILENO, config + length, sizeof config - length);
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return fail(trouble, CNI_IO_FAILURE, "", "error reading from stdin: %s", strerror(errno));
        if (got == 0) {
            config_length = length;
            return true;
        }
        length += got > 0 ? (size_t)got : 0;
    }
    return fail(trouble, CNI_UNDECODABLE, "", "network configuration on stdin is larger than %d bytes", STDIN_BYTES_MAX);
}

void forget_config(void)
{
    config_length = 0;
}

/* "device:inode" of a network namespace; "" when there is nothing, or nothing is asked for. */
static void read_netns_id(const char *path, char *id, size_t size)
{
    struct stat status;
    id[0] = '\0';
    if (path[0] != '\0' && stat(path, &status) == 0)
        (void)snprintf(id, size, "%llu:%llu", (unsigned long long)status.st_dev, (unsigned long long)status.st_ino);
}

/* The first line of a file. False, and "", when there is none. */
static bool read_first_line(const char *path, char id[BOOT_ID_BYTES])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t length = fd < 0 ? -1 : read(fd, id, BOOT_ID_BYTES - 1);
    id[length > 0 ? length : 0] = '\0';
    id[strcspn(id, "\n")] = '\0';
    if (fd >= 0)
        close(fd);
    return id[0] != '\0';
}

/* The boot that the daemon serves, as it says beside its socket. Before it has, the kernel's, which it will say. */
void read_boot_id(const char *socket_path, char id[BOOT_ID_BYTES])
{
    static const char KERNEL_BOOT_ID_PATH[] = "/proc/sys/kernel/random/boot_id";
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s.boot", socket_path);
    if (length >= (int)sizeof path || !read_first_line(path, id))
        (void)read_first_line(KERNEL_BOOT_ID_PATH, id);
}

static void put_field(struct text *text, const char *name, const char *value, size_t length)
{
    put(text, "\"");
    put(text, name);
    put(text, "\":");
    put_json_string(text, value, length);
    put(text, ",");
}

/* Fills `body` with memory of this file: one body at a time. */
bool write_body(struct text *body, const struct verb *verb, const char *boot_id, uint64_t boot_us,
                struct trouble *trouble)
{
    const char *container_id = verb->has_container ? variable("CNI_CONTAINERID") : "";
    const char *netns = verb->has_container ? variable("CNI_NETNS") : "";
    const char *ifname = verb->has_container ? variable("CNI_IFNAME") : "";
    char netns_id[48], boot_us_field[48];
    read_netns_id(netns, netns_id, sizeof netns_id);
    (void)snprintf(boot_us_field, sizeof boot_us_field, "\"bootUs\":%" PRIu64 "}", boot_us);

    *body = (struct text){.bytes = body_bytes, .capacity = sizeof body_bytes};
    put(body, "{");
    put_field(body, "command", verb->name, strlen(verb->name));
    put_field(body, "containerId", container_id, strlen(container_id));
    put_field(body, "netns", netns, strlen(netns));
    put_field(body, "netnsId", netns_id, strlen(netns_id));
    put_field(body, "ifname", ifname, strlen(ifname));
    put_field(body, "args", variable("CNI_ARGS"), strlen(variable("CNI_ARGS")));
    put_field(body, "bootId", boot_id, strlen(boot_id));
    put_field(body, "config", config, config_length);
    put(body, boot_us_field);
    return !body->overflowed || fail(trouble, CNI_UNDECODABLE, "", "request is larger than %d bytes", BODY_BYTES_MAX);
}
