/* A load generator for STOMP 1.2, and NATS: one thread, epoll, libc. Usage: bench/README.md or load --help.

   Rule: it must cost far less than what it measures. Frames are copied from a template in which only fixed-width
   hexadecimal fields change; what comes back is cut with memmem and memchr; bodies above STREAM bytes are neither
   built nor kept. The first STAMP bytes of a body say run, producer, sequence and (planned) time of sending. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "stats.h"

#define STAMP 38 /* 8 run, 4 producer, 10 sequence, 16 time */
#define STREAM 65536
#define INBUF (512 * 1024)
#define OUTBUF (128 * 1024)
#define LINE 8192 /* longest control frame */

enum kind { PRODUCER, CONSUMER, IDLE };
enum state { UNBORN, CONNECTING, LOGIN, SUBSCRIBING, READY, LEAVING, DEAD };
enum ack { AUTO, CUMULATIVE, INDIVIDUAL };
enum websocket { NONE, ASKED, OPEN };
enum traffic { SAME, UNIFORM, JMS, SPARSE, WILD };
enum protocol { STOMP, NATS, JETSTREAM };

struct bits {
    uint8_t *map;
    uint64_t size;
};
struct conn {
    int fd, index, destination;
    enum kind kind;
    enum state state;
    char *out;
    size_t out_len, out_off;
    char *carry;
    size_t carry_len;
    uint64_t skip; /* bytes of a streamed body, NUL included, still to come */
    int want_out;
    /* transport */
    struct ssl_st *tls;
    enum websocket ws;
    unsigned char ws_head[14], ws_start[10];
    size_t ws_head_left, ws_out_left, ws_in_left, ws_start_len;
    int ws_control;
    /* producer */
    char *frame;
    struct frames *frames;
    size_t frame_len, stamp_at, receipt_at, vary_at, turn_at;
    uint64_t seq, quota, body_left, open_receipts, *receipt_times;
    /* consumer */
    uint64_t unacked, received, *last_seq;
    char last_ack[256];
};

static struct {
    const char *host, *login, *passcode, *vhost, *destination, *label;
    char port[8], headers[4096], sub_headers[2048];
    int producers, consumers, destinations, in_turn, topic, vary, verify, produce_only, consume_only, idle_connections, parallel, tls, websocket;
    enum ack ack;
    enum traffic traffic;
    enum protocol protocol;
    uint64_t body, count, window, receipt_every, ack_every, max_lag, expect;
    double seconds, rate, idle_timeout, hold;
    uint32_t run;
} o = {.host = "127.0.0.1", .port = "61613", .destination = "/queue/bench%d", .label = "", .producers = 1, .consumers = 1,
       .destinations = 1, .parallel = 64, .body = 100, .window = 1000, .ack_every = 1, .idle_timeout = 10, .seconds = 0};

static struct conn *conns;
static int n_conns, ep, timer = -1, born, in_progress, ready, dead_early, running, stopping, more;
static char in[INBUF];
static char filler[STREAM];
static uint64_t t_begin, t_last_sent, t_last_received, t_last_receipt, t_progress, planned;
static uint64_t sent, received, receipts, receipts_wanted, foreign, lost, duplicated, reordered, errors, acks;
static struct hist latency, receipt_latency;
static struct bits *seen;
static char first_error[300];

static void die(const char *what) {
    fprintf(stderr, "load: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(2);
}

static void put_hex(char *at, uint64_t v, int width) {
    while (width--) at[width] = "0123456789abcdef"[v & 15], v >>= 4;
}
static uint64_t get_hex(const char *at, int width) {
    uint64_t v = 0;
    for (; width--; at++) v = v << 4 | (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
    return v;
}

/* ---------------------------------------------------------------- sockets */

#include "transport.h"

static void watch(struct conn *c, int out) {
    if (c->want_out == out) return;
    struct epoll_event e = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.u32 = (uint32_t)c->index};
    epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
    c->want_out = out;
}

static void drop(struct conn *c, int early) {
    if (c->state == DEAD) return;
    if (c->state == CONNECTING || c->state == LOGIN || c->state == SUBSCRIBING) in_progress--;
    if (c->state == READY || c->state == LEAVING) ready--;
    dead_early += early;
    c->state = DEAD;
    close(c->fd);
}

static void flush(struct conn *c) {
    while (c->out_off < c->out_len) {
        ssize_t n = put(c, c->out + c->out_off, c->out_len - c->out_off);
        if (n < 0) {
            if (errno == EAGAIN) break;
            if (errno != EPIPE && errno != ECONNRESET) drop(c, 1);
            return; /* a reset still leaves an ERROR frame to be read */
        }
        c->out_off += (size_t)n;
    }
    if (c->out_off == c->out_len) c->out_off = c->out_len = 0;
    watch(c, c->out_len > 0 || c->body_left > 0);
}

static void append(struct conn *c, const char *data, size_t n) {
    if (c->out_len + n > OUTBUF && c->out_off) {
        memmove(c->out, c->out + c->out_off, c->out_len - c->out_off);
        c->out_len -= c->out_off;
        c->out_off = 0;
    }
    if (c->out_len + n > OUTBUF) die("an output buffer is full: the broker does not read acknowledgements");
    memcpy(c->out + c->out_len, data, n);
    c->out_len += n;
}

static void say(struct conn *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct conn *c, const char *format, ...) {
    char text[LINE];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    append(c, text, (size_t)n + 1); /* the NUL ends the frame */
    flush(c);
}

static struct addrinfo *address;
static void begin_connect(struct conn *c) {
    int one = 1;
    c->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) die("socket (raise ulimit -n)");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->state = CONNECTING;
    c->want_out = 1;
    in_progress++;
    if (connect(c->fd, address->ai_addr, address->ai_addrlen) && errno != EINPROGRESS) die("connect");
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.u32 = (uint32_t)c->index};
    if (epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e)) die("epoll_ctl");
}

static void name_of(const struct conn *c, char *to, size_t size) {
    const char *number = strstr(o.destination, "%d");
    if (number)
        snprintf(to, size, o.in_turn ? "%.*s%06d%s" : "%.*s%d%s", (int)(number - o.destination), o.destination,
                 c->destination, number + 2);
    else
        snprintf(to, size, "%s", o.destination);
}

static void greet(struct conn *c);
static void nats_greet(struct conn *c);
static void connected(struct conn *c) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) {
        errno = error;
        die("connect");
    }
    if (!c->out) c->out = malloc(c->kind == IDLE ? LINE + 64 : OUTBUF);
    c->state = LOGIN;
    if (o.tls) tls_begin(c);
    if (!o.websocket) {
        greet(c);
        return;
    }
    append(c, UPGRADE, sizeof UPGRADE - 1);
    c->ws = ASKED;
    flush(c);
}

static void greet(struct conn *c) {
    if (o.protocol != STOMP) {
        nats_greet(c);
        return;
    }
    say(c, "CONNECT\naccept-version:1.2\nhost:%s\nheart-beat:0,0\n%s%s%s%s%s%s\n", o.vhost ? o.vhost : o.host,
        o.login ? "login:" : "", o.login ? o.login : "", o.login ? "\n" : "", o.passcode ? "passcode:" : "",
        o.passcode ? o.passcode : "", o.passcode ? "\n" : "");
}

static void is_ready(struct conn *c) {
    c->state = READY;
    in_progress--;
    ready++;
}

/* The text with each %d replaced; returns its length. */
static int numbered(char *to, const char *text, int n) {
    char *p = to;
    for (const char *at; (at = strstr(text, "%d")); text = at + 2)
        p += sprintf(p, "%.*s%d", (int)(at - text), text, n);
    return (int)(p - to) + sprintf(p, "%s", text);
}

/* ---------------------------------------------------------------- producing */

static void put_decimal(char *to, uint64_t value, int digits) {
    while (digits--) to[digits] = (char)('0' + value % 10), value /= 10;
}

struct made;
static char *nats_made(char *frame, struct made *made, int index);
static void nats_template(struct conn *c);
#include "traffic.h"

/* SEND with its changing fields; remembers where they are. */
static void make_frame(struct conn *c) {
    char name[1024];
    int streamed = o.body > STREAM;
    name_of(c, name, sizeof name);
    c->receipt_times = calloc(o.window, sizeof *c->receipt_times);
    if (o.traffic != SAME) {
        c->frames = malloc(sizeof *c->frames);
        make_frames(c->frames, name, c->index);
        c->frame_len = LARGEST;
        return;
    }
    c->frame = malloc(16384 + (streamed ? STAMP : o.body));
    char *p = c->frame;
    p += sprintf(p, "SEND\ndestination:%s\n", name);
    if (o.in_turn) c->turn_at = (size_t)(strstr(o.destination, "%d") - o.destination) + 17;
    if (o.vary) {
        c->vary_at = (size_t)(p - c->frame) + 10;
        p += sprintf(p, "x-counter:0000000000\nx-producer:p%d\n", c->index);
    }
    p += numbered(p, o.headers, c->index);
    p += sprintf(p, "content-length:%llu\n", (unsigned long long)o.body);
    if (o.receipt_every == 1) {
        c->receipt_at = (size_t)(p - c->frame) + 8;
        p += sprintf(p, "receipt:0000000000\n");
    }
    *p++ = '\n';
    c->stamp_at = (size_t)(p - c->frame);
    size_t body = streamed ? STAMP : o.body;
    memset(p, 'x', body);
    if (o.body >= STAMP) put_hex(p, o.run, 8), put_hex(p + 8, (uint64_t)c->index, 4);
    p += body;
    if (!streamed) *p++ = 0;
    c->frame_len = (size_t)(p - c->frame);
    if (o.protocol != STOMP) nats_template(c);
}

static void put_made(struct conn *c, uint64_t when) {
    const struct made *made = c->frames->made + c->seq % c->frames->count;
    char *at = c->out + c->out_len;
    memcpy(at, c->frames->bytes + made->at, made->len);
    if (made->receipt_at) {
        put_hex(at + made->receipt_at, c->seq, 10);
        c->receipt_times[c->seq % o.window] = when;
        c->open_receipts++;
        receipts_wanted++;
    }
    put_hex(at + made->stamp_at + 12, c->seq, 10), put_hex(at + made->stamp_at + 22, when, 16);
    c->out_len += made->len;
    c->seq++;
    sent++;
}

static void put_message(struct conn *c, uint64_t when) {
    if (c->frames) {
        put_made(c, when);
        return;
    }
    char *at = c->out + c->out_len;
    int asks = o.receipt_every && (c->seq + 1) % o.receipt_every == 0;
    size_t before = 0, shift = 0;
    if (asks && o.receipt_every > 1) {
        /* An occasional receipt: its line goes right behind SEND. */
        memcpy(at, "SEND\nreceipt:0000000000\n", 24);
        put_hex(at + 13, c->seq, 10);
        before = 5, shift = 19;
    }
    memcpy(at + before + shift, c->frame + before, c->frame_len - before);
    char *frame = at + shift;
    if (c->vary_at) put_hex(frame + c->vary_at, c->seq, 10);
    if (c->turn_at) put_decimal(frame + c->turn_at, c->seq % (uint64_t)o.destinations, 6);
    if (c->receipt_at) put_hex(frame + c->receipt_at, c->seq, 10);
    if (o.body >= STAMP) put_hex(frame + c->stamp_at + 12, c->seq, 10), put_hex(frame + c->stamp_at + 22, when, 16);
    c->out_len += shift + c->frame_len;
    if (asks) {
        c->receipt_times[(c->seq / o.receipt_every) % o.window] = when;
        c->open_receipts++;
        receipts_wanted++;
    }
    if (o.body > STREAM) c->body_left = o.body - STAMP + 1;
    c->seq++;
    sent++;
}

static void stream_body(struct conn *c) {
    while (c->body_left && !c->out_len) {
        uint64_t n = c->body_left > STREAM ? STREAM : c->body_left;
        ssize_t done;
        if (c->body_left == 1)
            done = put(c, "", 1);
        else
            done = put(c, filler, n == c->body_left ? n - 1 : n);
        if (done < 0) {
            if (errno != EAGAIN) drop(c, 1);
            return;
        }
        c->body_left -= (uint64_t)done;
        t_progress = t_last_sent = now_ns();
    }
}

static uint64_t fanout(void) {
    return o.topic ? (uint64_t)(o.consumers / o.destinations ? o.consumers / o.destinations : 1) : 1;
}

/* Fills and sends what the window, the lag and the plan allow. */
static void produce(struct conn *c, uint64_t now) {
    if (c->state != READY || !running) return;
    for (;;) {
        if (c->body_left) stream_body(c);
        uint64_t begun = sent;
        while (!stopping && !c->body_left && c->out_len + c->frame_len + 64 < OUTBUF && c->seq < c->quota) {
            if (o.receipt_every && c->open_receipts >= o.window) break;
            if (o.max_lag && sent - received / fanout() >= o.max_lag) break;
            uint64_t when = now;
            if (o.rate > 0) {
                when = t_begin + (uint64_t)((double)(c->seq * (uint64_t)o.producers + (uint64_t)c->index) * 1e9 / o.rate);
                if (when > now) {
                    if (!planned || when < planned) planned = when;
                    break;
                }
            }
            put_message(c, when);
        }
        if (!c->out_len && !c->body_left) return;
        flush(c);
        if (sent != begun) t_progress = t_last_sent = now_ns();
        if (c->state == DEAD || c->out_len || sent == begun) return;
        if (o.body <= STREAM) { /* one batch per turn: others want theirs */
            more = 1;
            return;
        }
        now = now_ns();
    }
}

/* ---------------------------------------------------------------- receiving */

#include "verify.h"

static const char *header(const char *head, const char *end, const char *name, size_t n, size_t *len) {
    for (const char *p = memchr(head, '\n', (size_t)(end - head)); p && p + 1 < end;
         p = memchr(p + 1, '\n', (size_t)(end - p - 1))) {
        if ((size_t)(end - p - 1) > n && !memcmp(p + 1, name, n)) {
            const char *value = p + 1 + n, *stop = memchr(value, '\n', (size_t)(end - value));
            *len = (size_t)((stop ? stop : end) - value);
            if (*len && value[*len - 1] == '\r') --*len;
            return value;
        }
    }
    return NULL;
}

static void send_ack(struct conn *c) {
    char text[300];
    int n = snprintf(text, sizeof text, "ACK\nid:%s\n\n", c->last_ack);
    append(c, text, (size_t)n + 1);
    c->unacked = 0;
    acks++;
}

static void on_message(struct conn *c, const char *head, const char *end, const char *body, uint64_t now) {
    size_t n;
    if (o.body >= STAMP) {
        uint64_t producer = get_hex(body + 8, 4);
        if (get_hex(body, 8) != o.run || producer >= (uint64_t)o.producers) {
            foreign++;
        } else {
            uint64_t when = get_hex(body + 22, 16);
            hist_add(&latency, now > when ? now - when : 0);
            if (o.verify) verify(c, producer, get_hex(body + 12, 10));
        }
    }
    received++;
    c->received++;
    if (o.ack != AUTO) {
        const char *id = header(head, end, "ack:", 4, &n);
        if (!id || n >= sizeof c->last_ack) die("MESSAGE without an ack header");
        memcpy(c->last_ack, id, n);
        c->last_ack[n] = 0;
        if (++c->unacked >= o.ack_every || o.ack == INDIVIDUAL) send_ack(c);
    }
}

static void on_frame(struct conn *c, const char *head, const char *end, const char *body, uint64_t now) {
    size_t n;
    if (!memcmp(head, "MESSAGE", 7)) {
        on_message(c, head, end, body, now);
        t_last_received = now;
    } else if (!memcmp(head, "RECEIPT", 7)) {
        const char *id = header(head, end, "receipt-id:", 11, &n);
        if (c->state == SUBSCRIBING) {
            is_ready(c);
        } else if (c->state == LEAVING && id && *id == 'b') {
            drop(c, 0);
        } else if (id && n == 10) {
            hist_add(&receipt_latency, now - c->receipt_times[(get_hex(id, 10) / o.receipt_every) % o.window]);
            c->open_receipts--;
            receipts++;
            t_last_receipt = now;
        }
    } else if (!memcmp(head, "CONNECTED", 9)) {
        char name[1024], more[sizeof o.sub_headers + 1024];
        const char *modes[] = {"auto", "client", "client-individual"};
        if (c->kind != CONSUMER) {
            if (c->kind == PRODUCER) make_frame(c);
            is_ready(c);
            return;
        }
        name_of(c, name, sizeof name);
        c->state = SUBSCRIBING;
        c->last_seq = calloc((size_t)o.producers, sizeof *c->last_seq);
        numbered(more, o.sub_headers, c->index - o.producers);
        say(c, "SUBSCRIBE\nid:0\ndestination:%s\nack:%s\nreceipt:subscribed\n%s\n", name, modes[o.ack], more);
    } else if (!memcmp(head, "ERROR", 5)) {
        errors++;
        if (!*first_error) snprintf(first_error, sizeof first_error, "%.*s", (int)(end - head), head);
    }
}

/* Cuts frames out of `in`; returns how many bytes were used. */
static size_t cut(struct conn *c, size_t len, uint64_t now) {
    size_t at = 0;
    while (at < len && c->state != DEAD) {
        if (c->skip) {
            uint64_t n = c->skip < len - at ? c->skip : len - at;
            c->skip -= n;
            at += n;
            continue;
        }
        if (in[at] == '\n' || in[at] == '\r') {
            at++;
            continue;
        }
        char *head = in + at, *end = memmem(head, len - at, "\n\n", 2), *body = end ? end + 2 : NULL;
        char *crlf = memmem(head, end ? (size_t)(end - head) : len - at, "\r\n\r\n", 4);
        if (crlf) end = crlf, body = crlf + 4;
        if (!end) break;
        size_t left = len - (size_t)(body - in), n;
        const char *length = header(head, end, "content-length:", 15, &n);
        if (!length) {
            char *nul = memchr(body, 0, left);
            if (!nul) break;
            on_frame(c, head, end, body, now);
            at = (size_t)(nul + 1 - in);
            continue;
        }
        uint64_t need = strtoull(length, NULL, 10) + 1;
        if (need <= left) {
            on_frame(c, head, end, body, now);
            at = (size_t)(body - in) + need;
        } else if (need > STREAM && left >= STAMP) {
            on_frame(c, head, end, body, now);
            c->skip = need - left;
            at = len;
        } else {
            break;
        }
    }
    return at;
}

#include "nats.h"

static void receive(struct conn *c) {
    memcpy(in, c->carry, c->carry_len);
    size_t len = c->carry_len;
    int asked = c->ws == ASKED;
    ssize_t n = get(c, in + len, INBUF - len);
    if (asked && c->ws == OPEN) greet(c);
    if (n <= 0) {
        if (n < 0 && errno == EAGAIN) return;
        drop(c, c->state != LEAVING);
        return;
    }
    uint64_t now = now_ns();
    t_progress = now;
    len += (size_t)n;
    size_t used = o.protocol == STOMP ? cut(c, len, now) : nats_cut(c, len, now);
    if (used == 0 && len == INBUF) die("a frame is larger than the input buffer");
    c->carry_len = c->state == DEAD ? 0 : len - used;
    if (c->carry_len) {
        c->carry = realloc(c->carry, c->carry_len);
        memcpy(c->carry, in + used, c->carry_len);
    }
    if (c->state != DEAD && c->out_len) flush(c);
}

/* ---------------------------------------------------------------- the run */

static void turn(int timeout_ms) {
    struct epoll_event events[256];
    int n = epoll_wait(ep, events, 256, timeout_ms);
    for (int i = 0; i < n; i++) {
        if (events[i].data.u32 == UINT32_MAX) {
            uint64_t ticks;
            if (read(timer, &ticks, sizeof ticks) < 0 && errno != EAGAIN) die("timerfd");
            continue;
        }
        struct conn *c = conns + events[i].data.u32;
        if (c->state == CONNECTING) connected(c);
        if (c->state != DEAD && events[i].events & EPOLLOUT) flush(c);
        if (c->state != DEAD && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
    }
}

static void connect_all(void) {
    while (ready < n_conns && !errors && !dead_early) {
        while (born < n_conns && in_progress < o.parallel) begin_connect(conns + born++);
        turn(100);
        if (now_ns() - t_progress > (uint64_t)(o.idle_timeout * 1e9)) die("connections do not come about");
    }
}

static void arm(uint64_t when) {
    struct itimerspec t = {.it_value = {(time_t)(when / 1000000000ull), (long)(when % 1000000000ull)}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &t, NULL);
}

static uint64_t expected(void) {
    if (o.expect) return o.expect;
    return o.produce_only ? 0 : o.consume_only ? o.count : sent * fanout();
}

static int finished(void) {
    uint64_t quota_left = 0;
    for (int i = 0; i < o.producers && !stopping; i++) quota_left += conns[i].quota - conns[i].seq;
    for (int i = 0; i < o.producers; i++) quota_left += conns[i].body_left + conns[i].out_len;
    for (int i = o.producers; i < n_conns; i++) quota_left += conns[i].skip;
    return !quota_left && receipts >= receipts_wanted && received >= expected();
}

static int run(uint64_t *rss_peak) {
    uint64_t end = t_begin + (uint64_t)(o.seconds * 1e9), next_sample = 0;
    running = 1;
    t_progress = t_begin;
    while (!errors && !dead_early) {
        uint64_t now = now_ns();
        if (o.seconds > 0 && now >= end) stopping = 1;
        planned = 0;
        more = 0;
        for (int i = 0; i < o.producers; i++) produce(conns + i, now);
        if (finished()) return 0;
        if (root_count && now > next_sample) {
            uint64_t rss = rss_now();
            if (rss > *rss_peak) *rss_peak = rss;
            next_sample = now + 100000000;
        }
        if (now_ns() - t_progress > (uint64_t)(o.idle_timeout * 1e9)) return 1;
        if (planned) arm(planned);
        turn(more ? 0 : 50);
    }
    return 0;
}

/* Acknowledges what is left and says DISCONNECT, so that the broker has seen every ACK when we go. */
static void leave(void) {
    for (int i = 0; i < n_conns; i++) {
        struct conn *c = conns + i;
        if (c->state != READY || c->body_left) continue;
        if (c->kind == CONSUMER && c->unacked) send_ack(c);
        c->state = LEAVING;
        if (o.protocol == STOMP)
            say(c, "DISCONNECT\nreceipt:bye\n\n");
        else
            tell(c, "PING\r\n");
    }
    uint64_t until = now_ns() + 2000000000ull;
    while (ready && now_ns() < until) turn(20);
}

#include "options.h"
#include "report.h"

static int idle_run(void) {
    struct usage before = {0}, after = {0};
    if (root_count) before = usage_now();
    t_begin = t_progress = now_ns();
    connect_all();
    double took = (double)(now_ns() - t_begin) / 1e9;
    uint64_t until = now_ns() + (uint64_t)(o.hold * 1e9);
    while (now_ns() < until && !dead_early) turn(20);
    if (root_count) after = usage_now();
    printf("{\"label\":\"%s\",\"connections\":%d,\"connects_per_s\":%.1f,\"rss_per_connection_bytes\":%.0f,"
           "\"rss_begin_kib\":%llu,\"rss_end_kib\":%llu,\"errors\":%llu,\"closed_early\":%d}\n",
           o.label, ready, ready / took, ready ? ((double)after.rss_kib - (double)before.rss_kib) * 1024 / ready : 0,
           (unsigned long long)before.rss_kib, (unsigned long long)after.rss_kib, (unsigned long long)errors, dead_early);
    return errors || dead_early;
}

static void prepare(void) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    if (getaddrinfo(o.host, o.port, &hints, &address)) die("unknown host");
    memset(filler, 'x', sizeof filler);
    if (o.produce_only) o.consumers = 0;
    n_conns = o.idle_connections ? o.idle_connections : o.producers + o.consumers;
    conns = calloc((size_t)n_conns + 1, sizeof *conns);
    seen = calloc((size_t)o.producers * (size_t)o.consumers + (size_t)o.producers + 1, sizeof *seen);
    ep = epoll_create1(EPOLL_CLOEXEC);
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    epoll_ctl(ep, EPOLL_CTL_ADD, timer, &e);
    for (int i = 0; i < n_conns; i++) {
        struct conn *c = conns + i;
        c->index = i;
        c->kind = o.idle_connections ? IDLE : i < o.producers ? PRODUCER : CONSUMER;
        c->destination = (c->kind == CONSUMER ? i - o.producers : i) % o.destinations;
        if (c->kind != PRODUCER || o.consume_only) continue;
        uint64_t share = o.count / (uint64_t)o.producers + ((uint64_t)i < o.count % (uint64_t)o.producers);
        c->quota = o.count ? share : 1ull << 39;
    }
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    t_progress = now_ns();
    o.run = (uint32_t)(t_progress ^ (uint64_t)getpid() << 20);
    options(argc, argv);
    prepare();
    if (o.idle_connections) return idle_run();
    connect_all();
    struct sample a = sample_now();
    uint64_t rss_peak = a.broker.rss_kib;
    t_begin = t_last_sent = t_last_received = now_ns();
    int timed_out = run(&rss_peak);
    struct sample b = sample_now();
    if (b.broker.rss_kib > rss_peak) rss_peak = b.broker.rss_kib;
    if (!errors && !dead_early) leave();
    if (o.verify && !o.produce_only) count_lost();
    report_json(timed_out, &a, &b, rss_peak);
    return errors || dead_early || timed_out || lost || duplicated || reordered;
}
