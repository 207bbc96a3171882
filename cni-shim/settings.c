/* Where the daemon's socket and the spool are, and how long to wait. */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CONF_BYTES_MAX = 16 * 1024,      /* two paths and some comments */
    TIME_LIMIT_MS_MAX = 3600 * 1000, /* keeps a deadline within poll's int */
};

static const char CONF_PATH[] = "/etc/holdfast/shim.conf";
static const char SOCKET_PATH[] = "/run/holdfast/holdfast.sock";
static const char SPOOL_PATH[] = "/var/lib/holdfast/spool";

static char *trim(char *string)
{
    static const char BLANKS[] = " \t\r";
    string += strspn(string, BLANKS);
    for (size_t length = strlen(string); length > 0 && strchr(BLANKS, string[length - 1]) != NULL; length--)
        string[length - 1] = '\0';
    return string;
}

/* One line of shim.conf. False when it is not understood. */
static bool read_conf_line(struct settings *settings, const char *path, int number, char *line, struct trouble *trouble)
{
    line = trim(line);
    if (line[0] == '\0' || line[0] == '#')
        return true;
    char *equals = strchr(line, '=');
    if (equals == NULL)
        return fail(trouble, CNI_BAD_CONFIGURATION, "write key=value, or # before a comment", "%s line %d: \"%s\" has no =",
                    path, number, line);
    *equals = '\0';
    const char *key = trim(line);
    const char *value = trim(equals + 1);
    const char **setting = strcmp(key, "socket") == 0  ? &settings->socket_path
                           : strcmp(key, "spool") == 0 ? &settings->spool_path
                                                       : NULL;
    if (setting == NULL)
        return fail(trouble, CNI_BAD_CONFIGURATION, "the keys are socket and spool", "%s line %d: unknown key \"%s\"", path,
                    number, key);
    if (value[0] == '\0' || *setting != NULL)
        return fail(trouble, CNI_BAD_CONFIGURATION, "write each key at most once, with a path", "%s line %d: key \"%s\" %s",
                    path, number, key, *setting != NULL ? "is given twice" : "has no value");
    if (value[0] == '"' || value[0] == '\'')
        return fail(trouble, CNI_BAD_CONFIGURATION, "write the path without quotes", "%s line %d: the value of \"%s\" is %s",
                    path, number, key, value);
    if (strstr(value, " #") != NULL || strstr(value, "\t#") != NULL)
        return fail(trouble, CNI_BAD_CONFIGURATION, "write a comment on a line of its own",
                    "%s line %d: the value of \"%s\" is %s", path, number, key, value);
    *setting = value;
    return true;
}

/* Reads to the end also after a fault; `trouble` tells of the first one. */
static bool read_conf(struct settings *settings, const char *path, struct trouble *trouble)
{
    static char content[CONF_BYTES_MAX + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return true;
    ssize_t length = fd < 0 ? -1 : read(fd, content, sizeof content);
    if (length < 0)
        fail(trouble, CNI_BAD_CONFIGURATION, "", "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (length < 0)
        return false;
    if (length > CONF_BYTES_MAX || memchr(content, '\0', (size_t)length) != NULL)
        return fail(trouble, CNI_BAD_CONFIGURATION, "", "%s: longer than %d bytes, or not text", path, CONF_BYTES_MAX);

    bool understood = true;
    char *rest = content;
    for (int number = 1; rest != NULL; number++) {
        struct trouble ignored;
        char *line = strsep(&rest, "\n");
        understood &= read_conf_line(settings, path, number, line, understood ? trouble : &ignored);
    }
    return understood;
}

/*
 * HOLDFAST_SOCKET and HOLDFAST_SPOOL, else shim.conf (HOLDFAST_SHIM_CONF names another, for tests), else the defaults.
 * shim.conf is not read when the environment names both.
 * Also on false the settings are complete and usable: whatever was understood, and defaults for the rest.
 */
bool read_settings(struct settings *settings, struct trouble *trouble)
{
    const char *socket_path = variable("HOLDFAST_SOCKET");
    const char *spool_path = variable("HOLDFAST_SPOOL");
    const char *conf_path = variable("HOLDFAST_SHIM_CONF");
    bool understood = true;

    *settings = (struct settings){0};
    if (socket_path[0] == '\0' || spool_path[0] == '\0')
        understood = read_conf(settings, conf_path[0] != '\0' ? conf_path : CONF_PATH, trouble);
    if (socket_path[0] != '\0' || settings->socket_path == NULL)
        settings->socket_path = socket_path[0] != '\0' ? socket_path : SOCKET_PATH;
    if (spool_path[0] != '\0' || settings->spool_path == NULL)
        settings->spool_path = spool_path[0] != '\0' ? spool_path : SPOOL_PATH;
    return understood;
}

static int milliseconds(const char *name, int otherwise)
{
    const char *wanted = variable(name);
    char *end = NULL;
    long limit_ms = strtol(wanted, &end, 10);
    return *wanted != '\0' && *end == '\0' && limit_ms >= 0 && limit_ms <= TIME_LIMIT_MS_MAX ? (int)limit_ms : otherwise;
}

/* HOLDFAST_SHIM_TIMEOUT_MS and HOLDFAST_SHIM_ABSENT_MS are there for tests, which cannot wait so long. */
int time_limit_ms(const struct verb *verb)
{
    return milliseconds("HOLDFAST_SHIM_TIMEOUT_MS", verb->time_limit_ms);
}

int absent_ms(const struct verb *verb)
{
    return milliseconds("HOLDFAST_SHIM_ABSENT_MS", verb->absent_ms);
}
