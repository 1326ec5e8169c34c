/* Fails the n-th system call that touches a folder: loaded before libc, armed through a file that all processes share.
 *
 * Counted are open, write, fsync, rename, link, unlink, truncate and mkdir on paths (or on handles of files) below
 * `prefix`. Kind 1: EIO, once. 2: ENOSPC, and the disk stays full. 3: EINTR, once. 4: the process ends just before the
 * call. 5: the same, but half of a write is done. 0: only count.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct state {
    uint32_t armed, kind, fail_at, count, hit;
    char prefix[492];
    char what[512];
};
static struct state *state;

__attribute__((constructor)) static void load(void) {
    const char *path = getenv("FAULT_STATE");
    int (*real_open)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    if (!path) return;
    int fd = real_open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *mapped = mmap(0, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED) state = mapped;
}

static __thread char whole[8192];

static int below(int dir, const char *path) {
    char name[64];
    ssize_t n = 0;
    size_t length = strlen(state->prefix);
    if (path && path[0] == '/')
        snprintf(whole, sizeof whole, "%s", path);
    else {
        if (path && dir == AT_FDCWD) {
            if (!getcwd(whole, 4096)) return 0;
            n = strlen(whole);
        } else {
            snprintf(name, sizeof name, "/proc/self/fd/%d", dir);
            n = readlink(name, whole, 4095);
            if (n < 0) return 0;
        }
        whole[n] = 0;
        if (path) snprintf(whole + n, sizeof whole - n, "/%s", path);
    }
    return !strncmp(whole, state->prefix, length) && (whole[length] == '/' || !whole[length]);
}

/* 0: go on. -1: fail with errno as set. -2: do half of the write, then end. Does not return when the process ends. */
static int due(const char *call, int dir, const char *path, int fills) {
    int saved = errno;
    if (!state || !state->armed || !below(dir, path)) { errno = saved; return 0; }
    errno = saved;
    uint32_t number = __sync_add_and_fetch(&state->count, 1);
    if (number == state->fail_at)
        snprintf(state->what, sizeof state->what, "%s %.480s", call, whole + strlen(state->prefix));
    int now = state->kind == 2 ? number >= state->fail_at && fills : number == state->fail_at;
    if (!now || !state->kind) return 0;
    state->hit = 1;
    switch (state->kind) {
    case 1: errno = EIO; return -1;
    case 2: errno = ENOSPC; return -1;
    case 3: errno = EINTR; return -1;
    case 5: if (!strcmp(call, "write")) return -2; /* fall through */
    default: _exit(137);
    }
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define GUARD(call, dir, path, fills) if (due(call, dir, path, fills)) return -1

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        GUARD("open", AT_FDCWD, path, flags & O_CREAT); \
        return REAL(name)(path, flags, mode); }
OPEN(open)
OPEN(open64)
#define OPENAT(name) \
    int name(int dir, const char *path, int flags, ...) { \
        va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
        GUARD("open", dir, path, flags & O_CREAT); \
        return REAL(name)(dir, path, flags, mode); }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *data, size_t size) {
    int found = due("write", fd, 0, 1);
    if (found == -2) { REAL(write)(fd, data, size / 2); _exit(137); }
    return found ? -1 : REAL(write)(fd, data, size);
}
#define PWRITE(name, offset_type) \
    ssize_t name(int fd, const void *data, size_t size, offset_type at) { \
        int found = due("write", fd, 0, 1); \
        if (found == -2) { REAL(name)(fd, data, size / 2, at); _exit(137); } \
        return found ? -1 : REAL(name)(fd, data, size, at); }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)
int fsync(int fd) { GUARD("fsync", fd, 0, 0); return REAL(fsync)(fd); }
int fdatasync(int fd) { GUARD("fsync", fd, 0, 0); return REAL(fdatasync)(fd); }
int ftruncate(int fd, off_t size) { GUARD("truncate", fd, 0, 1); return REAL(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) { GUARD("truncate", fd, 0, 1); return REAL(ftruncate64)(fd, size); }
int rename(const char *from, const char *to) { GUARD("rename", AT_FDCWD, to, 0); return REAL(rename)(from, to); }
int renameat(int a, const char *from, int b, const char *to) { GUARD("rename", b, to, 0); return REAL(renameat)(a, from, b, to); }
int link(const char *from, const char *to) { GUARD("link", AT_FDCWD, to, 1); return REAL(link)(from, to); }
int linkat(int a, const char *from, int b, const char *to, int flags) { GUARD("link", b, to, 1); return REAL(linkat)(a, from, b, to, flags); }
int unlink(const char *path) { GUARD("unlink", AT_FDCWD, path, 0); return REAL(unlink)(path); }
int unlinkat(int dir, const char *path, int flags) { GUARD("unlink", dir, path, 0); return REAL(unlinkat)(dir, path, flags); }
int mkdir(const char *path, mode_t mode) { GUARD("mkdir", AT_FDCWD, path, 1); return REAL(mkdir)(path, mode); }
int mkdirat(int dir, const char *path, mode_t mode) { GUARD("mkdir", dir, path, 1); return REAL(mkdirat)(dir, path, mode); }
