/* Numbers of the load generator: clock, histogram, CPU and memory of processes from /proc.
   Header-only; every function is static. Times are nanoseconds of CLOCK_MONOTONIC. */
#ifndef STATS_H
#define STATS_H
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Log-linear histogram: 128 buckets per power of two, so a percentile is off by less than 1 %. */
#define SUB 128
struct hist {
    uint64_t bucket[58 * SUB], n, max;
};
static void hist_add(struct hist *h, uint64_t ns) {
    unsigned shift = 0;
    if (ns >= SUB) shift = 63 - (unsigned)__builtin_clzll(ns) - 6;
    h->bucket[shift * (SUB / 2) + (ns >> shift)]++;
    h->n++;
    if (ns > h->max) h->max = ns;
}
static double hist_us(const struct hist *h, double quantile) {
    uint64_t want = (uint64_t)(quantile * (double)h->n), seen = 0;
    for (unsigned i = 0; i < sizeof h->bucket / sizeof *h->bucket; i++) {
        seen += h->bucket[i];
        if (seen > want) {
            unsigned shift = i < SUB ? 0 : (i - SUB) / (SUB / 2) + 1;
            uint64_t low = (uint64_t)(i - shift * (SUB / 2)) << shift;
            return (double)low / 1000.0;
        }
    }
    return (double)h->max / 1000.0;
}
static void hist_json(const char *name, const struct hist *h) {
    if (!h->n) return;
    printf(",\"%s\":{\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f}", name, hist_us(h, .5),
           hist_us(h, .9), hist_us(h, .99), hist_us(h, .999), (double)h->max / 1000.0);
}

/* Processes that are measured, each with all its descendants. CPU in clock ticks, memory in KiB. */
struct usage {
    uint64_t ticks, rss_kib;
    int processes;
};
static int parent_of(int pid, uint64_t *ticks) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) return -1;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    char *rest = strrchr(text, ')'); /* the name may hold anything */
    int parent = -1;
    unsigned long user = 0, system = 0;
    if (!rest || sscanf(rest + 2, "%*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &parent, &user, &system) != 3)
        return -1;
    *ticks = user + system;
    return parent;
}
static uint64_t rss_of(int pid) {
    char path[64];
    unsigned long size = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (fscanf(f, "%lu %lu", &size, &resident) != 2) resident = 0;
    fclose(f);
    return resident * (uint64_t)(sysconf(_SC_PAGESIZE) / 1024);
}
static int roots[64], root_count;
static void add_roots(const char *list) {
    for (char *end; *list && root_count < 64; list = *end ? end + 1 : end) {
        roots[root_count] = (int)strtol(list, &end, 10);
        if (end == list) return;
        root_count++;
    }
}
static int is_root(int pid) {
    for (int i = 0; i < root_count; i++)
        if (roots[i] == pid) return 1;
    return 0;
}
/* The processes found last, for rss_now(). */
static int family[256], family_count;
static struct usage usage_now(void) {
    struct usage u = {0, 0, 0};
    static int pids[65536], parents[65536];
    static uint64_t ticks[65536];
    int n = 0;
    DIR *d = opendir("/proc");
    if (!d) return u;
    for (struct dirent *e; (e = readdir(d)) && n < 65536;) {
        int pid = atoi(e->d_name);
        if (pid > 0 && (parents[n] = parent_of(pid, &ticks[n])) >= 0) pids[n++] = pid;
    }
    closedir(d);
    family_count = 0;
    for (int i = 0; i < n; i++) {
        int p = pids[i], hops = 0;
        while (!is_root(p) && p > 1 && hops++ < 64) {
            int j = 0;
            while (j < n && pids[j] != p) j++;
            p = j < n ? parents[j] : 0;
        }
        if (is_root(p)) {
            u.ticks += ticks[i];
            u.rss_kib += rss_of(pids[i]);
            u.processes++;
            if (family_count < 256) family[family_count++] = pids[i];
        }
    }
    return u;
}

/* Memory of the processes that usage_now() found. Looking through all of /proc takes milliseconds, in which nothing is sent
 * or received, so that is done before and after the load only. */
static uint64_t rss_now(void) {
    uint64_t kib = 0;
    for (int i = 0; i < family_count; i++) kib += rss_of(family[i]);
    return kib;
}

/* Ticks that all CPUs were busy (idle, iowait and guest left out; steal apart). */
static uint64_t machine_busy(uint64_t *steal) {
    unsigned long long v[8] = {0};
    FILE *f = fopen("/proc/stat", "r");
    *steal = 0;
    if (!f) return 0;
    int n = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7);
    fclose(f);
    if (n < 8) return 0;
    *steal = v[7];
    return v[0] + v[1] + v[2] + v[5] + v[6];
}

/* Everything at one moment. `mine`: CPU seconds of this process. */
struct sample {
    struct usage broker;
    uint64_t busy, steal, at;
    double mine;
};
static struct sample sample_now(void) {
    struct sample s = {.at = now_ns()};
    struct rusage r;
    if (root_count) s.broker = usage_now();
    s.busy = machine_busy(&s.steal);
    getrusage(RUSAGE_SELF, &r);
    s.mine = (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
    return s;
}
static void usage_json(const struct sample *a, const struct sample *b, uint64_t messages, uint64_t rss_peak) {
    double tick = (double)sysconf(_SC_CLK_TCK), wall = (double)(b->at - a->at) / 1e9;
    double broker = (double)(b->broker.ticks - a->broker.ticks) / tick, mine = b->mine - a->mine;
    if (!messages || wall <= 0) return;
    printf(",\"generator_us_per_message\":%.3f", mine * 1e6 / (double)messages);
    if (!root_count) return;
    printf(",\"broker_us_per_message\":%.3f,\"broker_cores\":%.2f", broker * 1e6 / (double)messages, broker / wall);
    printf(",\"rss_begin_kib\":%llu,\"rss_peak_kib\":%llu,\"rss_end_kib\":%llu", (unsigned long long)a->broker.rss_kib,
           (unsigned long long)rss_peak, (unsigned long long)b->broker.rss_kib);
    printf(",\"other_cores\":%.2f,\"steal_cores\":%.2f", ((double)(b->busy - a->busy) / tick - broker - mine) / wall,
           (double)(b->steal - a->steal) / tick / wall);
}
#endif
