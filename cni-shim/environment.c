/* The CNI environment, checked as skel, the frame of the Go plugins, checks it: same order, same codes, same texts. */
#include "shim.h"

#include <stdlib.h>
#include <string.h>

enum {
    IFNAME_BYTES_MAX = 15,  /* IFNAMSIZ without its NUL; CNI's own bound */
    PATIENT_MS = 60 * 1000, /* outlasts the daemon's own deadline: its answer says more than ours */
    HASTY_MS = 5 * 1000,    /* nothing waits long for a DEL, which has the spool, or for a STATUS */
    /*
     * A restart of the daemon. An ADD that fails costs a sandbox and the kubelet's back-off, so it waits longer: for
     * the replacement of a daemon's pod, and at boot. With the daemon's 9 s that is far below what runtimes grant an
     * ADD (minutes).
     */
    ABSENT_MS = 8 * 1000,
    ABSENT_ADD_MS = 30 * 1000,
};

static const struct verb verbs[] = {
    {.name = "ADD", .has_container = true, .needs_netns = true, .has_result = true, .time_limit_ms = PATIENT_MS,
     .absent_ms = ABSENT_ADD_MS, .away = CNI_TRY_AGAIN_LATER},
    {.name = "DEL", .has_container = true, .always_succeeds = true, .time_limit_ms = HASTY_MS, .away = CNI_TRY_AGAIN_LATER},
    {.name = "CHECK", .has_container = true, .needs_netns = true, .time_limit_ms = PATIENT_MS, .absent_ms = ABSENT_MS,
     .away = CNI_TRY_AGAIN_LATER},
    {.name = "GC", .time_limit_ms = PATIENT_MS, .absent_ms = ABSENT_MS, .away = CNI_TRY_AGAIN_LATER},
    {.name = "STATUS", .time_limit_ms = HASTY_MS, .away = CNI_NOT_AVAILABLE},
};

/* The value of an environment variable; unset and empty are the same, as in skel. */
const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value == NULL ? "" : value;
}

static bool is_alphanumeric(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool check_container_id(const char *id, struct trouble *trouble)
{
    bool valid = is_alphanumeric(id[0]);
    for (size_t i = 1; valid && id[i] != '\0'; i++)
        valid = is_alphanumeric(id[i]) || id[i] == '_' || id[i] == '.' || id[i] == '-';
    return valid || fail(trouble, CNI_BAD_ENVIRONMENT, id, "invalid characters in containerID");
}

/* Go's unicode.IsSpace. */
static bool is_space(uint32_t point)
{
    return (point >= '\t' && point <= '\r') || point == ' ' || point == 0x85 || point == 0xA0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 || point == 0x202F ||
           point == 0x205F || point == 0x3000;
}

static bool check_ifname(const char *name, struct trouble *trouble)
{
    size_t length = strlen(name);
    if (length > IFNAME_BYTES_MAX)
        return fail(trouble, CNI_BAD_ENVIRONMENT, "interface name should be less than 16 characters",
                    "interface name is too long");
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return fail(trouble, CNI_BAD_ENVIRONMENT, "", "interface name is . or ..");
    for (size_t i = 0; i < length;) {
        uint32_t point = 0;
        size_t size = utf8_character(name + i, length - i, &point);
        if (size > 0 && (point == '/' || point == ':' || is_space(point)))
            return fail(trouble, CNI_BAD_ENVIRONMENT, "", "interface name contains / or : or whitespace characters");
        i += size > 0 ? size : 1;
    }
    return true;
}

static void require(const char *name, bool required, struct text *missing)
{
    if (!required || variable(name)[0] != '\0')
        return;
    put(missing, missing->length > 0 ? "," : "");
    put(missing, name);
}

/* The verb that is asked for; NULL and `trouble` when something is missing or wrong. VERSION is not among the verbs. */
const struct verb *check_environment(struct trouble *trouble)
{
    const char *command = variable("CNI_COMMAND");
    const struct verb *verb = NULL;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(command, verbs[i].name) == 0)
            verb = &verbs[i];
    }
    if (verb == NULL && command[0] == '\0')
        fail(trouble, CNI_BAD_ENVIRONMENT, "", "required env variables [CNI_COMMAND] missing");
    else if (verb == NULL)
        fail(trouble, CNI_BAD_ENVIRONMENT, "", "unknown CNI_COMMAND: %s", command);
    if (verb == NULL)
        return NULL;

    char names[128] = "";
    struct text missing = {.bytes = names, .capacity = sizeof names - 1};
    require("CNI_CONTAINERID", verb->has_container, &missing);
    require("CNI_NETNS", verb->needs_netns, &missing);
    require("CNI_IFNAME", verb->has_container, &missing);
    require("CNI_PATH", true, &missing);
    if (missing.length > 0) {
        fail(trouble, CNI_BAD_ENVIRONMENT, "", "required env variables [%s] missing", names);
        return NULL;
    }
    bool valid = !verb->has_container || (check_container_id(variable("CNI_CONTAINERID"), trouble) &&
                                          check_ifname(variable("CNI_IFNAME"), trouble));
    return valid ? verb : NULL;
}
