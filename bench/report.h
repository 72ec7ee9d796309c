/* The JSON line of a run. Included by load.c behind its counters. */

static void report_json(int timed_out, const struct sample *a, const struct sample *b, uint64_t rss_peak) {
    double out = (double)((t_last_receipt > t_last_sent ? t_last_receipt : t_last_sent) - t_begin) / 1e9;
    double back = (double)(t_last_received - t_begin) / 1e9;
    uint64_t messages = sent > received ? sent : received;
    printf("{\"label\":\"%s\",\"run\":\"%08x\",\"sent\":%llu,\"received\":%llu,\"receipts\":%llu,\"acks\":%llu", o.label,
           o.run, (unsigned long long)sent, (unsigned long long)received, (unsigned long long)receipts,
           (unsigned long long)acks);
    if (sent && out > 0) printf(",\"sent_per_s\":%.1f", (double)sent / out);
    if (received && back > 0) printf(",\"received_per_s\":%.1f", (double)received / back);
    if (o.body > STREAM && (out > 0 || back > 0))
        printf(",\"mib_per_s\":%.1f", (double)messages * (double)o.body / 1048576 / (out > back ? out : back));
    hist_json("latency_us", &latency);
    hist_json("receipt_us", &receipt_latency);
    if (o.verify)
        printf(",\"lost\":%llu,\"duplicated\":%llu,\"reordered\":%llu,\"foreign\":%llu", (unsigned long long)lost,
               (unsigned long long)duplicated, (unsigned long long)reordered, (unsigned long long)foreign);
    usage_json(a, b, messages, rss_peak);
    for (char *p = first_error; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < 32) *p = ' ';
    printf(",\"errors\":%llu,\"closed_early\":%d,\"timed_out\":%s,\"first_error\":\"%s\"}\n", (unsigned long long)errors,
           dead_early, timed_out ? "true" : "false", first_error);
}

