/* Kills the process at the N-th change of a file below a folder.
 *
 * Loaded by LD_PRELOAD into a test's program, so that writes of every library are seen: Python's, Arrow's,
 * SQLite's. `kill_at(root, n)` arms it; the n-th change does not happen, and of a write only the first half
 * does. `kill_changes()` tells how many changes were seen since. Calls are counted across threads.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[PATH_MAX];
static size_t root_length;
static long deadly;
static atomic_long changes;

void kill_at(const char *below, long n) {
    snprintf(root, sizeof root, "%s", below);
    root_length = strlen(root);
    atomic_store(&changes, 0);
    deadly = n;
}

long kill_changes(void) { return atomic_load(&changes); }

static int is_due(void) { return atomic_fetch_add(&changes, 1) + 1 == deadly; }

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static int is_below(const char *path) { return root_length && !strncmp(path, root, root_length); }

static int is_open_below(int fd) {
    char link[64], path[PATH_MAX];
    if (!root_length) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return is_below(path);
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    if (is_open_below(fd) && is_due()) { real(fd, data, size / 2); die(); }
    return real(fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    if (is_open_below(fd) && is_due()) { real(fd, data, size / 2, at); die(); }
    return real(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off64_t);
    if (is_open_below(fd) && is_due()) { real(fd, data, size / 2, at); die(); }
    return real(fd, data, size, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    if (is_open_below(fd) && is_due()) { real(fd, parts, count / 2); die(); }
    return real(fd, parts, count);
}

#define ONE_FILE(name) \
    int name(int fd) { \
        REAL(int, #name, int); \
        if (is_open_below(fd) && is_due()) die(); \
        return real(fd); \
    }
ONE_FILE(fsync)
ONE_FILE(fdatasync)

#define SIZE(name, type) \
    int name(int fd, type size) { \
        REAL(int, #name, int, type); \
        if (is_open_below(fd) && is_due()) die(); \
        return real(fd, size); \
    }
SIZE(ftruncate, off_t)
SIZE(ftruncate64, off64_t)

#define TWO_PATHS(name) \
    int name(const char *from, const char *to) { \
        REAL(int, #name, const char *, const char *); \
        if (is_below(to) && is_due()) die(); \
        return real(from, to); \
    }
TWO_PATHS(rename)
TWO_PATHS(link)

int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    REAL(int, "linkat", int, const char *, int, const char *, int);
    if (is_below(to) && is_due()) die();
    return real(from_at, from, to_at, to, flags);
}

#define ONE_PATH(name) \
    int name(const char *path) { \
        REAL(int, #name, const char *); \
        if (is_below(path) && is_due()) die(); \
        return real(path); \
    }
ONE_PATH(unlink)
ONE_PATH(rmdir)

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    if (is_below(path) && is_due()) die();
    return real(path, mode);
}
