/* Frames as producers write them: headers, values and sizes differ from one to the next. Included by load.c.

   Made before the clock starts, FRAMES of all producers together, and sent again and again; only stamp and receipt
   change. */

#define FRAMES 4096
#define FEWEST 64 /* of one producer */
#define LARGEST 8192 /* bytes of a frame, and more */

struct made {
    uint32_t at, len, stamp_at, receipt_at;
};
struct frames {
    char *bytes;
    uint64_t count;
    struct made *made;
};

static uint64_t dice_state = 88172645463325252ull;
/* A number below n: the same ones in each run. */
static uint32_t dice(uint32_t n) {
    dice_state ^= dice_state << 13, dice_state ^= dice_state >> 7, dice_state ^= dice_state << 17;
    return (uint32_t)(dice_state >> 32) % n;
}
static const char *one_of(const char *const *of, uint32_t n) { return of[dice(n)]; }
#define ONE_OF(...) one_of((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static char *word(char *p, uint32_t n) {
    for (uint32_t length = n / 2 + dice(n); length--;) *p++ = (char)('a' + dice(26));
    return p;
}

/* Nine headers beside content-length, all values of which vary. */
static char *jms_lines(char *p, const char *name) {
    p += sprintf(p, "destination:%s\nJMSCorrelationID:%08x-%04x-4%03x-9%03x-%08x%04x\n", name, dice(~0u), dice(65536),
                 dice(4096), dice(4096), dice(~0u), dice(65536));
    p += sprintf(p, "JMSTimestamp:17640%08u\nJMSType:%s\nJMSXGroupSeq:%u\ntenant:", dice(100000000),
                 ONE_OF("OrderPlaced", "OrderShipped", "PaymentReceived", "Refund"), dice(1000));
    p = word(p, 12);
    return p + sprintf(p, "\nregion:%s\norder-id:%u\ncontent-type:%s\n", ONE_OF("eu-west-1", "us-east-2", "ap-south-1"),
                       dice(10000000), ONE_OF("application/json", "text/plain", "application/xml"));
}

static char *sparse_lines(char *p, const char *name) {
    p += sprintf(p, "destination:%s\nid:%u\n", name, dice(1000000000));
    return dice(2) ? p : p + sprintf(p, "type:%s\n", ONE_OF("created", "changed", "deleted"));
}

/* Names nobody has seen before, in any order, half of the values with an escape. */
static char *wild_lines(char *p, const char *name) {
    uint32_t lines = 3 + dice(8), own = dice(lines);
    for (uint32_t i = 0; i < lines; i++) {
        if (i == own) p += sprintf(p, "destination:%s\n", name);
        *p++ = 'x', *p++ = '-';
        p = word(p, 8);
        p += sprintf(p, "-%u:", i);
        p = word(p, 20);
        if (dice(2)) p = word(p + sprintf(p, "%s", ONE_OF("\\c", "\\n", "\\\\")), 10);
        *p++ = '\n';
    }
    return p;
}

static char *one_frame(char *p, struct made *made, const char *name, int index) {
    static const struct {
        uint32_t least, most;
    } sizes[] = {[UNIFORM] = {100, 100}, [JMS] = {64, 4096}, [SPARSE] = {STAMP, 400}, [WILD] = {STAMP, 400}};
    uint32_t body = sizes[o.traffic].least + dice(sizes[o.traffic].most - sizes[o.traffic].least + 1);
    char *begin = p;
    p += sprintf(p, "SEND\n");
    switch (o.traffic) {
        case JMS: p = jms_lines(p, name); break;
        case SPARSE: p = sparse_lines(p, name); break;
        case WILD: p = wild_lines(p, name); break;
        default: p += sprintf(p, "destination:%s\n", name);
    }
    p += numbered(p, o.headers, index);
    if (o.traffic == UNIFORM || o.traffic == JMS || dice(2)) p += sprintf(p, "content-length:%u\n", body);
    if (o.receipt_every == 1) {
        made->receipt_at = (uint32_t)(p - begin) + 8;
        p += sprintf(p, "receipt:0000000000\n");
    }
    *p++ = '\n';
    made->stamp_at = (uint32_t)(p - begin);
    memset(p, 'x', body);
    put_hex(p, o.run, 8), put_hex(p + 8, (uint64_t)index, 4);
    p += body;
    *p++ = 0;
    for (uint32_t more = o.traffic == WILD ? 1 + dice(3) : 0; more--;) *p++ = '\n';
    made->len = (uint32_t)(p - begin);
    return p;
}

static void make_frames(struct frames *f, const char *name, int index) {
    f->count = FRAMES / o.producers > FEWEST ? FRAMES / o.producers : FEWEST;
    char *p = f->bytes = malloc(f->count * LARGEST);
    f->made = calloc(f->count, sizeof *f->made);
    for (uint64_t i = 0; i < f->count; i++) {
        f->made[i].at = (uint32_t)(p - f->bytes);
        char *begin = p;
        p = one_frame(begin, f->made + i, name, index);
        if (o.protocol != STOMP) p = nats_made(begin, f->made + i, index);
    }
}
