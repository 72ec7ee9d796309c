/* What a machine can do to one process: its wall clock steps, its disk is slow, its disk fails. Loaded by LD_PRELOAD;
 * shim.py writes what shall be into a file of three numbers, which the process maps and looks at in every call.
 *
 * Rule: only what a kernel does. The monotonic clock never steps; what is written under a failing disk is not there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct wishes {
    int64_t clock_ms; /* the wall clock is ahead by so much */
    int64_t sync_us;  /* a sync takes so much longer */
    int64_t error;    /* errno of every sync and every positioned write; 0: they succeed */
};

static struct wishes none;
static volatile struct wishes *wishes = &none;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CHAOS_SHIM");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *found = mmap(NULL, sizeof(struct wishes), PROT_READ, MAP_SHARED, fd, 0);
    if (found != MAP_FAILED)
        wishes = found;
    close(fd);
}

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) \
    next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static void ahead(struct timespec *at) {
    int64_t ms = wishes->clock_ms;
    at->tv_sec += ms / 1000;
    at->tv_nsec += ms % 1000 * 1000000;
    if (at->tv_nsec < 0) {
        at->tv_nsec += 1000000000;
        at->tv_sec -= 1;
    } else if (at->tv_nsec >= 1000000000) {
        at->tv_nsec -= 1000000000;
        at->tv_sec += 1;
    }
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    NEXT(clock_gettime);
    int result = next(clock, at);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        ahead(at);
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

static int failing(void) {
    int64_t error = wishes->error;
    if (error)
        errno = (int)error;
    return error != 0;
}

static void wait_for_disk(void) {
    int64_t us = wishes->sync_us;
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    if (us > 0)
        nanosleep(&pause, NULL);
}

int fdatasync(int fd) {
    NEXT(fdatasync);
    wait_for_disk();
    return failing() ? -1 : next(fd);
}

int fsync(int fd) {
    NEXT(fsync);
    wait_for_disk();
    return failing() ? -1 : next(fd);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at) {
    NEXT(pwrite);
    return failing() ? -1 : next(fd, data, n, at);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) {
    NEXT(pwrite64);
    return failing() ? -1 : next(fd, data, n, at);
}
