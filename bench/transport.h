/* What carries the octets: plain TCP, TLS (--tls) or WebSocket (--websocket), or the latter through the former.
   Included by load.c behind struct conn and `o`.

   Rule: put() and get() behave as write() and read() of a non-blocking socket do. No certificate is verified: loopback
   only. Masking keys are zero, so that masking costs the generator nothing; the broker cannot know. */
#ifdef WITH_TLS
#include <openssl/ssl.h>

static SSL_CTX *tls_context;

static ssize_t tls_result(struct conn *c, int n) {
    if (n > 0) return n;
    int why = SSL_get_error(c->tls, n);
    if (why == SSL_ERROR_ZERO_RETURN) return 0;
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) errno = EAGAIN;
    else if (why != SSL_ERROR_SYSCALL || !errno) errno = EPROTO;
    return -1;
}

static void tls_begin(struct conn *c) {
    if (!tls_context) {
        tls_context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_mode(tls_context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
    c->tls = SSL_new(tls_context);
    if (!c->tls || !SSL_set_fd(c->tls, c->fd)) die("TLS");
    SSL_set_connect_state(c->tls);
}

static ssize_t raw_put(struct conn *c, const char *data, size_t n) {
    return c->tls ? tls_result(c, SSL_write(c->tls, data, (int)n)) : write(c->fd, data, n);
}

/* Everything there is: epoll does not see what OpenSSL has taken off the socket already. */
static ssize_t raw_get(struct conn *c, char *to, size_t room) {
    if (!c->tls) return read(c->fd, to, room);
    size_t have = 0;
    while (have < room) {
        ssize_t n = tls_result(c, SSL_read(c->tls, to + have, (int)(room - have)));
        if (n <= 0) return have ? (ssize_t)have : n;
        have += (size_t)n;
    }
    return (ssize_t)have;
}
#else
static void tls_begin(struct conn *c) {
    (void)c;
    errno = 0;
    die("built without TLS: apt-get install libssl-dev, and remove bench/build");
}
static ssize_t raw_put(struct conn *c, const char *data, size_t n) { return write(c->fd, data, n); }
static ssize_t raw_get(struct conn *c, char *to, size_t room) { return read(c->fd, to, room); }
#endif

static const char UPGRADE[] = "GET /stomp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                              "Sec-WebSocket-Key: bG9hZC1nZW5lcmF0b3ItMQ==\r\nSec-WebSocket-Version: 13\r\n"
                              "Sec-WebSocket-Protocol: v12.stomp\r\n\r\n";

/* One binary message per call, as a client would send what it has. */
static ssize_t put(struct conn *c, const char *data, size_t n) {
    if (c->ws != OPEN) return raw_put(c, data, n);
    if (!c->ws_head_left && !c->ws_out_left) {
        unsigned char *h = c->ws_head + sizeof c->ws_head;
        c->ws_out_left = n;
        h -= 4, memset(h, 0, 4);
        uint64_t v = n;
        int width = n < 126 ? 0 : n < 65536 ? 2 : 8;
        for (int i = 0; i < width; i++) *--h = (unsigned char)v, v >>= 8;
        *--h = (unsigned char)(0x80 | (width == 0 ? n : width == 2 ? 126 : 127));
        *--h = 0x82;
        c->ws_head_left = (size_t)(c->ws_head + sizeof c->ws_head - h);
    }
    while (c->ws_head_left) {
        const char *h = (const char *)c->ws_head + sizeof c->ws_head - c->ws_head_left;
        ssize_t done = c->tls ? raw_put(c, h, c->ws_head_left) : send(c->fd, h, c->ws_head_left, MSG_MORE);
        if (done < 0) return done;
        c->ws_head_left -= (size_t)done;
    }
    ssize_t done = raw_put(c, data, n < c->ws_out_left ? n : c->ws_out_left);
    if (done > 0) c->ws_out_left -= (size_t)done;
    return done;
}

/* Takes WebSocket framing out of data[0..n]; returns what is left of it, or -1 when the other side has closed. */
static ssize_t unframe(struct conn *c, char *data, size_t n) {
    size_t at = 0, kept = 0;
    while (at < n) {
        if (c->ws_in_left) {
            size_t piece = c->ws_in_left < n - at ? c->ws_in_left : n - at;
            if (!c->ws_control) memmove(data + kept, data + at, piece), kept += piece;
            at += piece;
            c->ws_in_left -= piece;
            continue;
        }
        c->ws_start[c->ws_start_len++] = (unsigned char)data[at++];
        if (c->ws_start_len < 2) continue;
        size_t code = c->ws_start[1] & 127, width = code < 126 ? 0 : code == 126 ? 2 : 8;
        if (c->ws_start_len < 2 + width) continue;
        uint64_t size = width ? 0 : code;
        for (size_t i = 0; i < width; i++) size = size << 8 | c->ws_start[2 + i];
        c->ws_control = c->ws_start[0] & 8;
        c->ws_in_left = size;
        c->ws_start_len = 0;
        if ((c->ws_start[0] & 15) == 8) return kept ? (ssize_t)kept : -1;
    }
    return (ssize_t)kept;
}

/* The answer to UPGRADE is in data[0..n]; returns what comes behind it. */
static ssize_t upgraded(struct conn *c, char *data, size_t n) {
    char *end = memmem(data, n, "\r\n\r\n", 4);
    if (n < 12 || memcmp(data + 9, "101", 3) || !end) {
        errno = 0;
        die("no WebSocket there");
    }
    c->ws = OPEN;
    size_t left = n - (size_t)(end + 4 - data);
    memmove(data, end + 4, left);
    return (ssize_t)left;
}

static ssize_t get(struct conn *c, char *to, size_t room) {
    ssize_t n = raw_get(c, to, room);
    if (n <= 0 || c->ws == NONE) return n;
    if (c->ws == ASKED) n = upgraded(c, to, (size_t)n);
    n = unframe(c, to, (size_t)n);
    if (n == 0) errno = EAGAIN;
    return n > 0 ? n : n < 0 ? 0 : -1;
}
