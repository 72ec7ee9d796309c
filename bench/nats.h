/* NATS instead of STOMP (--protocol nats, jetstream). Included by load.c behind its receiving half.

   Rule: the same traffic. Each frame is made as a SEND and put into NATS' words before the clock starts: its destination
   becomes a subject, its receipt the inbox that a stream answers to, its length the one that PUB tells; all other lines
   are headers, byte by byte. What NATS has no word for is refused by name, with exit status 3. */

static void refuse(const char *what) {
    fprintf(stderr, "load: not with NATS: %s\n", what);
    exit(3);
}

static void nats_check(void) {
    if (o.traffic == WILD) refuse("--traffic wild: headers have no escapes, and nothing stands between messages");
    if (o.ack != AUTO) refuse("--ack: a subscription acknowledges nothing");
    if (*o.sub_headers) refuse("--sub-header: a subscription has neither selector nor window");
    if (o.body > STREAM) refuse("--body above 65536: a server takes no message above max_payload");
    if (o.tls || o.websocket) refuse("--tls, --websocket: plain TCP only");
    if (o.vhost) refuse("--vhost: there are accounts instead");
    if (o.consume_only) refuse("--consume-only: who subscribes gets what is published from now on");
    if (o.receipt_every > 1) refuse("--receipt-every above 1: a stream answers all of them");
    if (o.protocol == JETSTREAM) {
        if (!o.produce_only && !o.idle_connections) refuse("jetstream without --produce-only: its consumers ask for each batch");
        return;
    }
    if (o.receipt_every) refuse("--receipt-every: nobody acknowledges a message but a stream (--protocol jetstream)");
    if (strstr(o.headers, "persistent:true")) refuse("persistent:true: nobody keeps a message but a stream");
}

static void tell(struct conn *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(struct conn *c, const char *format, ...) {
    char text[LINE];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    append(c, text, (size_t)n);
    flush(c);
}

/* ---------------------------------------------------------------- producing */

/* /queue/bench0 is queue.bench0. */
static void subject_of(const char *name, size_t n, char *to) {
    if (n && *name == '/') name++, n--;
    for (; n--; name++) *to++ = *name == '/' ? '.' : *name;
    *to = 0;
}

static int starts(const char *line, const char *name) { return !strncmp(line, name, strlen(name)); }

/* Puts the SEND at `frame` into NATS' words; it has room for that. stamp_at, receipt_at: where these are, before and
   behind; body: how long it is. Returns the new length. */
static size_t nats_frame(char *frame, size_t *stamp_at, size_t body, size_t *receipt_at, int index) {
    char subject[1024] = "", reply[64] = "", *head = malloc(2 * *stamp_at + 16), *h = head;
    h += sprintf(h, "NATS/1.0\r\n");
    for (char *line = frame + 5, *end; *line != '\n'; line = end + 1) {
        end = strchr(line, '\n');
        if (starts(line, "destination:"))
            subject_of(line + 12, (size_t)(end - line) - 12, subject);
        else if (starts(line, "receipt:"))
            sprintf(reply, "_INBOX.%08x.%d.0000000000 ", o.run, index);
        else if (!starts(line, "content-length:") && !starts(line, "persistent:"))
            h += sprintf(h, "%.*s\r\n", (int)(end - line), line);
    }
    h += sprintf(h, "\r\n");
    size_t n = h - head > 12 ? (size_t)(h - head) : 0;
    char line[1200], *p = line;
    p += sprintf(p, n ? "HPUB %s %s" : "PUB %s %s", subject, reply);
    *receipt_at = *reply ? (size_t)(p - line) - 11 : 0;
    p += n ? sprintf(p, "%zu %zu\r\n", n, n + body) : sprintf(p, "%zu\r\n", body);
    size_t before = (size_t)(p - line);
    memmove(frame + before + n, frame + *stamp_at, body);
    memcpy(frame, line, before);
    memcpy(frame + before, head, n);
    memcpy(frame + before + n + body, "\r\n", 2);
    free(head);
    *stamp_at = before + n;
    return before + n + body + 2;
}

/* One of those that are made before the clock starts; returns its end. */
static char *nats_made(char *frame, struct made *made, int index) {
    size_t stamp_at = made->stamp_at, receipt_at;
    size_t len = nats_frame(frame, &stamp_at, made->len - made->stamp_at - 1, &receipt_at, index);
    *made = (struct made){made->at, (uint32_t)len, (uint32_t)stamp_at, (uint32_t)receipt_at};
    return frame + len;
}

/* The one that is sent again and again. */
static void nats_template(struct conn *c) {
    c->frame_len = nats_frame(c->frame, &c->stamp_at, o.body, &c->receipt_at, c->index);
    if (o.vary) c->vary_at = (size_t)((char *)memmem(c->frame, c->frame_len, "\r\nx-counter:", 12) + 12 - c->frame);
    if (!o.in_turn) return;
    size_t skipped = *o.destination == '/', verb = (size_t)(strchr(c->frame, ' ') + 1 - c->frame);
    c->turn_at = verb + (size_t)(strstr(o.destination, "%d") - o.destination) - skipped;
}

/* ---------------------------------------------------------------- receiving */

static void nats_greet(struct conn *c) {
    tell(c, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\"protocol\":1,"
            "\"lang\":\"c\",\"version\":\"0\",\"name\":\"load\"%s%s%s%s%s}\r\nPING\r\n",
         o.login ? ",\"user\":\"" : "", o.login ? o.login : "", o.login ? "\",\"pass\":\"" : "",
         o.login && o.passcode ? o.passcode : "", o.login ? "\"" : "");
}

static void nats_subscribe(struct conn *c) {
    char name[1024], subject[1024];
    name_of(c, name, sizeof name);
    subject_of(name, strlen(name), subject);
    c->state = SUBSCRIBING;
    if (c->kind == PRODUCER) {
        make_frame(c);
        tell(c, o.receipt_every ? "SUB _INBOX.%08x.%d.* 0\r\nPING\r\n" : "PING\r\n", o.run, c->index);
        return;
    }
    c->last_seq = calloc((size_t)o.producers, sizeof *c->last_seq);
    tell(c, "SUB %s%s 0\r\nPING\r\n", subject, !o.topic && o.consumers > o.destinations ? " shared" : "");
}

static void nats_error(const char *what, size_t n) {
    errors++;
    if (!*first_error) snprintf(first_error, sizeof first_error, "%.*s", (int)n, what);
}

/* What a stream, or nobody, says to a message. */
static void on_reply(struct conn *c, const char *line, const char *said, size_t head, size_t total, uint64_t now) {
    const char *end = strchr(strchr(line, ' ') + 1, ' ');
    if (head || memmem(said, total, "\"error\"", 7)) {
        nats_error(said, total);
        return;
    }
    hist_add(&receipt_latency, now - c->receipt_times[get_hex(end - 10, 10) % o.window]);
    c->open_receipts--;
    receipts++;
    t_last_receipt = now;
}

/* A line that has no message behind it. */
static void on_line(struct conn *c, const char *line, const char *end) {
    if (starts(line, "PING")) {
        append(c, "PONG\r\n", 6);
    } else if (starts(line, "-ERR")) {
        nats_error(line, (size_t)(end - line));
    } else if (starts(line, "PONG")) {
        if (c->state == LOGIN && c->kind != IDLE)
            nats_subscribe(c);
        else if (c->state == LEAVING)
            drop(c, 0);
        else if (c->state != READY)
            is_ready(c);
    }
}

/* The number in front of *end, which goes in front of it. */
static size_t number_before(const char **end) {
    size_t value = 0, unit = 1;
    for (; (unsigned char)((*end)[-1] - '0') < 10; --*end, unit *= 10) value += (size_t)((*end)[-1] - '0') * unit;
    return value;
}

/* Cuts lines and messages out of `in`; returns how many bytes were used. */
static size_t nats_cut(struct conn *c, size_t len, uint64_t now) {
    size_t at = 0;
    while (at < len && c->state != DEAD) {
        const char *line = in + at, *end = memchr(line, '\n', len - at);
        if (!end) break;
        size_t used = (size_t)(end + 1 - line), total, head = 0;
        if (*line != 'M' && *line != 'H') {
            on_line(c, line, end);
            at += used;
            continue;
        }
        const char *numbers = end - 1;
        total = number_before(&numbers);
        if (*line == 'H') numbers--, head = number_before(&numbers);
        if (used + total + 2 > len - at) break;
        if (c->kind == PRODUCER) {
            on_reply(c, line, end + 1, head, total, now);
        } else {
            on_message(c, line, end, end + 1 + head, now);
            t_last_received = now;
        }
        at += used + total + 2;
    }
    return at;
}
