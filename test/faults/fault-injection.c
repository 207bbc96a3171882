/*
 * A disk that fails on demand, for the daemon's tests: preloaded into it, this makes writes and syncs below one
 * directory fail as long as a control file says so.
 *
 *   HOLDFAST_TEST_FAULT_DIRECTORY   only files below it are touched
 *   HOLDFAST_TEST_FAULT_CONTROL  absent: no faults. Else one line "<what> <errno name> <every> <file name ending>":
 *                                what    write | tear | sync | unlink | tear writes half of the bytes before it fails;
 *                                        kill ends, and stop suspends, the process before any of them, whatever the
 *                                        errno name
 *                                every   1 for each such call, n for each n-th one
 *                                ending  "*" for every file, else e.g. "-wal"
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum call { WRITE, SYNC, UNLINK };
enum verdict { PASS, FAIL, TEAR };

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), wanted = strlen(ending);
    return wanted <= length && strcmp(text + length - wanted, ending) == 0;
}

static bool is_below_directory(const char *path)
{
    const char *directory = getenv("HOLDFAST_TEST_FAULT_DIRECTORY");
    return directory != NULL && strncmp(path, directory, strlen(directory)) == 0;
}

/* The name of an open file; "" for one without. */
static void name_of(int fd, char path[PATH_MAX])
{
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = '\0';
}

static enum call call_of(const char *what)
{
    return strcmp(what, "sync") == 0 ? SYNC : strcmp(what, "unlink") == 0 ? UNLINK : WRITE;
}

static int errno_of(const char *name)
{
    return strcmp(name, "ENOSPC") == 0 ? ENOSPC : strcmp(name, "EROFS") == 0 ? EROFS : EIO;
}

/* Sets errno unless the verdict is PASS. */
static enum verdict judge_name(const char *path, enum call call)
{
    static unsigned passed;
    char what[16] = "", name[16], ending[64];
    unsigned every = 1;
    const char *control = getenv("HOLDFAST_TEST_FAULT_CONTROL");
    FILE *file = control == NULL ? NULL : fopen(control, "re");
    if (file == NULL)
        return PASS;
    int fields = fscanf(file, "%15s %15s %u %63s", what, name, &every, ending);
    (void)fclose(file);
    bool kills = strcmp(what, "kill") == 0, stops = strcmp(what, "stop") == 0;
    if (fields != 4 || (!kills && !stops && call != call_of(what)) || !is_below_directory(path) ||
        (strcmp(ending, "*") != 0 && !ends_with(path, ending)) || __atomic_add_fetch(&passed, 1, __ATOMIC_RELAXED) % every != 0)
        return PASS;
    if (kills || stops) {
        (void)raise(kills ? SIGKILL : SIGSTOP);
        return PASS;
    }
    errno = errno_of(name);
    return strcmp(what, "tear") == 0 ? TEAR : FAIL;
}

static enum verdict judge(int fd, enum call call)
{
    char path[PATH_MAX];
    name_of(fd, path);
    return judge_name(path, call);
}

/* ISO C has no conversion from dlsym's object pointer to a function pointer; POSIX promises that the bits are the same.
 */
#define REAL(function)                                                                                                 \
    static __typeof__(&function) real;                                                                                 \
    if (real == NULL) {                                                                                                \
        void *symbol = dlsym(RTLD_NEXT, #function);                                                                    \
        memcpy(&real, &symbol, sizeof real);                                                                           \
    }

ssize_t write(int fd, const void *bytes, size_t length)
{
    REAL(write)
    enum verdict verdict = judge(fd, WRITE);
    if (verdict == TEAR) {
        int cause = errno;
        (void)!real(fd, bytes, length / 2);
        errno = cause;
    }
    return verdict == PASS ? real(fd, bytes, length) : -1;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset)
{
    REAL(pwrite64)
    enum verdict verdict = judge(fd, WRITE);
    if (verdict == TEAR) {
        int cause = errno;
        (void)!real(fd, bytes, length / 2, offset);
        errno = cause;
    }
    return verdict == PASS ? real(fd, bytes, length, offset) : -1;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    return pwrite64(fd, bytes, length, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    REAL(writev)
    return judge(fd, WRITE) == PASS ? real(fd, parts, count) : -1;
}

int ftruncate64(int fd, off64_t length)
{
    REAL(ftruncate64)
    return judge(fd, WRITE) == PASS ? real(fd, length) : -1;
}

int ftruncate(int fd, off_t length)
{
    return ftruncate64(fd, length);
}

int fsync(int fd)
{
    REAL(fsync)
    return judge(fd, SYNC) == PASS ? real(fd) : -1;
}

int fdatasync(int fd)
{
    REAL(fdatasync)
    return judge(fd, SYNC) == PASS ? real(fd) : -1;
}

int unlink(const char *path)
{
    REAL(unlink)
    return judge_name(path, UNLINK) == PASS ? real(path) : -1;
}

int remove(const char *path)
{
    REAL(remove)
    return judge_name(path, UNLINK) == PASS ? real(path) : -1;
}

int unlinkat(int directory, const char *name, int flags)
{
    REAL(unlinkat)
    char path[PATH_MAX] = "";
    if (name[0] != '/' && directory != AT_FDCWD)
        name_of(directory, path);
    size_t length = strlen(path);
    (void)snprintf(path + length, sizeof path - length, "%s%s", length > 0 ? "/" : "", name);
    return judge_name(path, UNLINK) == PASS ? real(directory, name, flags) : -1;
}
