/* --verify: one bit per message of a producer, kept per group of consumers that must see it once (all consumers of a
   queue, each consumer of a topic). Included by load.c behind its globals. */

static void verify(struct conn *c, uint64_t producer, uint64_t seq) {
    struct bits *b = &seen[(o.topic ? (uint64_t)(c->index - o.producers) : 0) * (uint64_t)o.producers + producer];
    if (seq / 8 >= b->size) {
        uint64_t size = b->size ? b->size : 4096;
        while (seq / 8 >= size) size *= 2;
        b->map = realloc(b->map, size);
        memset(b->map + b->size, 0, size - b->size);
        b->size = size;
    }
    if (b->map[seq / 8] & 1 << seq % 8)
        duplicated++;
    else if (seq + 1 <= c->last_seq[producer])
        reordered++;
    b->map[seq / 8] |= (uint8_t)(1 << seq % 8);
    if (seq + 1 > c->last_seq[producer]) c->last_seq[producer] = seq + 1;
}

static void count_lost(void) {
    uint64_t groups = o.topic ? (uint64_t)o.consumers : 1;
    for (uint64_t g = 0; g < groups; g++)
        for (int p = 0; p < o.producers; p++) {
            struct conn *c = conns + o.producers + g;
            if (o.topic && conns[p].destination != c->destination) continue;
            struct bits *b = &seen[g * (uint64_t)o.producers + (uint64_t)p];
            uint64_t total = o.consume_only ? o.count / (uint64_t)o.producers : conns[p].seq;
            for (uint64_t s = 0; s < total; s++)
                if (s / 8 >= b->size || !(b->map[s / 8] & 1 << s % 8)) lost++;
        }
}
