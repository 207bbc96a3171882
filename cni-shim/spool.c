/*
 * A DEL that could not be delivered, kept as a file for the daemon: the body of `POST /cni` as it would have been sent.
 * A file appears under its name whole and durable, or not at all: written beside it as `.tmp-<name>`, synced, renamed,
 * and the directory synced. A `.tmp-` file that a killed shim leaves behind is the daemon's to remove.
 */
#include "shim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SPOOL_ENTRIES_MAX = 10000, /* months of a node's DELs; beyond it something is wrong that more files do not mend */
    NAME_ATTEMPTS_MAX = 16,    /* names only collide across PID namespaces, or with a file of an earlier boot */
};

/* Opens a directory, making what is missing of its path. A new name is synced in its parent, else files are lost. */
static int open_directory(const char *path)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    int fd = open(path, flags);
    if (fd >= 0 || errno != ENOENT)
        return fd;

    fd = open(path[0] == '/' ? "/" : ".", flags);
    for (size_t length; fd >= 0 && (path += strspn(path, "/"), length = strcspn(path, "/")) > 0; path += length) {
        char name[NAME_MAX + 1] = "";
        if (length > NAME_MAX)
            return close(fd), errno = ENAMETOOLONG, -1;
        memcpy(name, path, length);

        bool made = mkdirat(fd, name, 0700) == 0;
        bool usable = made ? fsync(fd) == 0 : errno == EEXIST;
        int child = usable ? openat(fd, name, flags) : -1;
        int cause = errno;
        close(fd);
        errno = cause;
        fd = child;
    }
    return fd;
}

/* Counts at most up to the bound. Leaves errno at 0 unless the directory could not be read. */
static bool is_full(DIR *directory)
{
    int count = 0;
    errno = 0;
    for (const struct dirent *entry; count < SPOOL_ENTRIES_MAX && (entry = readdir(directory)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    return count >= SPOOL_ENTRIES_MAX;
}

/* Never replaces a file, perhaps another's DEL. NFS and old kernels cannot promise it, and still spool. */
static int rename_new(int directory, const char *from, const char *to)
{
    if (renameat2(directory, from, directory, to, RENAME_NOREPLACE) == 0)
        return 0;
    return errno == EINVAL || errno == ENOSYS ? renameat(directory, from, directory, to) : -1;
}

/* Writes one file. On false, errno says why (EEXIST: the name is taken) and no file of ours is left. */
static bool write_file(int directory, const char *name, const struct text *body)
{
    char temporary[80];
    (void)snprintf(temporary, sizeof temporary, ".tmp-%s", name);
    int fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool written =
        write_all(fd, body->bytes, body->length) && fsync(fd) == 0 && rename_new(directory, temporary, name) == 0;
    int cause = errno;
    if (!written)
        (void)unlinkat(directory, temporary, 0);
    close(fd);
    errno = cause;
    return written;
}

/* Returns true when the request is durable. The name's lexical order is the order of the requests of one boot. */
bool spool(const char *path, const struct text *body, uint64_t boot_us, struct trouble *trouble)
{
    int fd = open_directory(path);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (directory == NULL)
        return fail(trouble, CNI_IO_FAILURE, "", "spool directory %s: %s", path, strerror(errno));

    bool full = is_full(directory);
    bool written = false;
    for (int attempt = 0; !full && !written && attempt < NAME_ATTEMPTS_MAX && (errno == 0 || errno == EEXIST);
         attempt++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%020" PRIu64 "-%ld-%d.json", boot_us, (long)getpid(), attempt);
        written = write_file(dirfd(directory), name, body);
    }
    bool durable = written && fsync(dirfd(directory)) == 0;
    if (full)
        fail(trouble, CNI_IO_FAILURE, "", "spool directory %s: has %d entries, the most allowed", path, SPOOL_ENTRIES_MAX);
    else if (!durable)
        fail(trouble, CNI_IO_FAILURE, "", "spool directory %s: %s", path, strerror(errno));
    closedir(directory);
    return durable;
}
