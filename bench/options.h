/* Command line of the load generator. Included by load.c, which has the options `o` and die(). */

static const char HELP[] =
    "load: load generator for STOMP 1.2, and NATS; prints one JSON line\n"
    "  --host H --port P --login L --passcode P --vhost V --label TEXT\n"
    "  --protocol stomp|nats|jetstream    jetstream: a stream is there, and its PubAck counts as receipt (nats.h)\n"
    "  --tls --websocket                  instead of plain TCP; path /stomp, nothing is verified\n"
    "  --producers N --consumers N        connections of each kind (1, 1)\n"
    "  --destination D --destinations N   %d in D becomes the number; connection i uses i mod N\n"
    "  --in-turn                          each message of a producer to the next destination; D needs its %d\n"
    "  --topic                            every consumer of a destination gets every message\n"
    "  --body BYTES                       above 65536 the body is streamed (100)\n"
    "  --count N | --seconds S            messages in all | how long to produce, then drain\n"
    "  --rate R                           open loop: latency counts from the planned time\n"
    "  --max-lag L                        closed loop: at most L between send and receive\n"
    "  --receipt-every K --window W       every K-th SEND asks for a receipt, W unanswered per producer\n"
    "  --ack auto|client|client-individual --ack-every K (for client)\n"
    "  --header K:V --sub-header K:V      more SEND and SUBSCRIBE headers; repeatable; %d becomes the number of the\n"
    "                                     producer or consumer\n"
    "  --traffic uniform|jms|sparse|wild  frames that all differ, made before the clock starts (traffic.h)\n"
    "  --vary                             two more headers, one of them different in every message\n"
    "  --verify                           count lost, duplicated and reordered per producer\n"
    "  --produce-only | --consume-only    halves of a backlog test; give both the same --run-id and --producers\n"
    "  --run-id HEX --expect N            messages to wait for, if not what was sent\n"
    "  --connections N --hold S --parallel M   idle connections only\n"
    "  --pid PID[,PID…]                   CPU and memory of these processes and their descendants\n"
    "  --idle-timeout S                   give up after so long without progress (10)\n"
    "Exit status: 0 all well; 1 lost, duplicated, reordered, ERROR, closed or timed out; 2 usage or no connection;\n"
    "3 the protocol has no word for what was asked.\n";

static void add_header(char *to, size_t size, const char *text) {
    size_t used = strlen(to);
    if (!strchr(text, ':') || used + strlen(text) + 2 > size) die("--header wants K:V, and not that many");
    snprintf(to + used, size - used, "%s\n", text);
}

static double number(const char *text, double low) {
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || v < low) {
        fprintf(stderr, "load: '%s' is not a number of at least %g\n", text, low);
        exit(2);
    }
    return v;
}

static enum ack ack_mode(const char *text) {
    if (!strcmp(text, "auto")) return AUTO;
    if (!strcmp(text, "client")) return CUMULATIVE;
    if (!strcmp(text, "client-individual")) return INDIVIDUAL;
    die("--ack is auto, client or client-individual");
    return AUTO;
}

static enum traffic traffic_kind(const char *text) {
    static const char *const names[] = {[UNIFORM] = "uniform", [JMS] = "jms", [SPARSE] = "sparse", [WILD] = "wild"};
    for (enum traffic kind = UNIFORM; kind <= WILD; kind++)
        if (!strcmp(text, names[kind])) return kind;
    die("--traffic is uniform, jms, sparse or wild");
    return SAME;
}

static enum protocol protocol_of(const char *text) {
    static const char *const names[] = {[STOMP] = "stomp", [NATS] = "nats", [JETSTREAM] = "jetstream"};
    for (enum protocol each = STOMP; each <= JETSTREAM; each++)
        if (!strcmp(text, names[each])) return each;
    die("--protocol is stomp, nats or jetstream");
    return STOMP;
}

enum option_key { HOST = 256, PORT, LOGINNAME, PASSCODE, VHOST, LABEL, PRODUCERS, CONSUMERS, DESTINATION, DESTINATIONS,
                  TOPIC, BODY, COUNT, SECONDS, RATE, MAX_LAG, RECEIPT_EVERY, WINDOW, ACK, ACK_EVERY, HEADER, SUB_HEADER,
                  VARY, VERIFY, PRODUCE_ONLY, CONSUME_ONLY, RUN_ID, EXPECT, CONNECTIONS, HOLD, PARALLEL, PID,
                  IDLE_TIMEOUT, USAGE, TLS, WEBSOCKET, IN_TURN, TRAFFIC, PROTOCOL };

static const struct option LONG[] = {
    {"host", 1, 0, HOST}, {"port", 1, 0, PORT}, {"login", 1, 0, LOGINNAME}, {"passcode", 1, 0, PASSCODE},
    {"vhost", 1, 0, VHOST}, {"label", 1, 0, LABEL}, {"producers", 1, 0, PRODUCERS}, {"consumers", 1, 0, CONSUMERS},
    {"destination", 1, 0, DESTINATION}, {"destinations", 1, 0, DESTINATIONS}, {"in-turn", 0, 0, IN_TURN},
    {"traffic", 1, 0, TRAFFIC}, {"protocol", 1, 0, PROTOCOL}, {"topic", 0, 0, TOPIC},
    {"body", 1, 0, BODY}, {"count", 1, 0, COUNT}, {"seconds", 1, 0, SECONDS}, {"rate", 1, 0, RATE},
    {"max-lag", 1, 0, MAX_LAG}, {"receipt-every", 1, 0, RECEIPT_EVERY}, {"window", 1, 0, WINDOW}, {"ack", 1, 0, ACK},
    {"ack-every", 1, 0, ACK_EVERY}, {"header", 1, 0, HEADER}, {"sub-header", 1, 0, SUB_HEADER}, {"vary", 0, 0, VARY},
    {"verify", 0, 0, VERIFY}, {"tls", 0, 0, TLS}, {"websocket", 0, 0, WEBSOCKET},
    {"produce-only", 0, 0, PRODUCE_ONLY}, {"consume-only", 0, 0, CONSUME_ONLY},
    {"run-id", 1, 0, RUN_ID}, {"expect", 1, 0, EXPECT}, {"connections", 1, 0, CONNECTIONS}, {"hold", 1, 0, HOLD},
    {"parallel", 1, 0, PARALLEL}, {"pid", 1, 0, PID}, {"idle-timeout", 1, 0, IDLE_TIMEOUT}, {"help", 0, 0, USAGE},
    {0, 0, 0, 0}};

static void check_options(void) {
    errno = 0;
    if (o.produce_only && o.consume_only) die("--produce-only and --consume-only exclude each other");
    if (!o.idle_connections && !o.count && o.seconds <= 0) die("say --count or --seconds");
    if (o.consume_only && !o.count) die("--consume-only needs --count");
    if (o.verify && o.body < STAMP) die("--verify needs a body of 38 bytes or more");
    if (o.producers > 4096) die("at most 4096 producers");
    if (o.traffic != SAME && (o.receipt_every > 1 || o.in_turn || o.vary)) die("--traffic goes with --receipt-every 1 only");
    if (o.in_turn && !strstr(o.destination, "%d")) die("--in-turn needs a --destination with %d");
    if (o.in_turn && o.destinations > 1000000) die("at most 1000000 destinations in turn");
    if (o.protocol != STOMP) nats_check();
    if (o.consume_only) o.seconds = 0;
}

static void options(int argc, char **argv) {
    for (int key; (key = getopt_long(argc, argv, "", LONG, NULL)) != -1;) switch (key) {
            case HOST: o.host = optarg; break;
            case PORT: snprintf(o.port, sizeof o.port, "%d", (int)number(optarg, 1)); break;
            case LOGINNAME: o.login = optarg; break;
            case PASSCODE: o.passcode = optarg; break;
            case VHOST: o.vhost = optarg; break;
            case LABEL: o.label = optarg; break;
            case PRODUCERS: o.producers = (int)number(optarg, 0); break;
            case CONSUMERS: o.consumers = (int)number(optarg, 0); break;
            case DESTINATION: o.destination = optarg; break;
            case DESTINATIONS: o.destinations = (int)number(optarg, 1); break;
            case IN_TURN: o.in_turn = 1; break;
            case TRAFFIC: o.traffic = traffic_kind(optarg); break;
            case PROTOCOL: o.protocol = protocol_of(optarg); break;
            case TOPIC: o.topic = 1; break;
            case BODY: o.body = (uint64_t)number(optarg, 0); break;
            case COUNT: o.count = (uint64_t)number(optarg, 1); break;
            case SECONDS: o.seconds = number(optarg, 0); break;
            case RATE: o.rate = number(optarg, 0); break;
            case MAX_LAG: o.max_lag = (uint64_t)number(optarg, 0); break;
            case RECEIPT_EVERY: o.receipt_every = (uint64_t)number(optarg, 0); break;
            case WINDOW: o.window = (uint64_t)number(optarg, 1); break;
            case ACK: o.ack = ack_mode(optarg); break;
            case ACK_EVERY: o.ack_every = (uint64_t)number(optarg, 1); break;
            case HEADER: add_header(o.headers, sizeof o.headers, optarg); break;
            case SUB_HEADER: add_header(o.sub_headers, sizeof o.sub_headers, optarg); break;
            case VARY: o.vary = 1; break;
            case VERIFY: o.verify = 1; break;
            case TLS: o.tls = 1; break;
            case WEBSOCKET: o.websocket = 1; break;
            case PRODUCE_ONLY: o.produce_only = 1; break;
            case CONSUME_ONLY: o.consume_only = 1; break;
            case RUN_ID: o.run = (uint32_t)strtoul(optarg, NULL, 16); break;
            case EXPECT: o.expect = (uint64_t)number(optarg, 0); break;
            case CONNECTIONS: o.idle_connections = (int)number(optarg, 1); break;
            case HOLD: o.hold = number(optarg, 0); break;
            case PARALLEL: o.parallel = (int)number(optarg, 1); break;
            case PID: add_roots(optarg); break;
            case IDLE_TIMEOUT: o.idle_timeout = number(optarg, 0.1); break;
            case USAGE: fputs(HELP, stdout); exit(0);
            default: fputs(HELP, stderr); exit(2);
        }
    check_options();
}
