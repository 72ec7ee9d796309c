"""Names of Artemis' broker.xml and ours.

Rule: tables only. Each name of an address-setting, a queue or the broker stands in exactly one table: what it is here,
or why it is nothing here. docs/compatibility.md is held against them.
"""

from __future__ import annotations

ADDRESS: dict[str, str] = {
    "address-full-policy": "full_policy",
    "max-size-bytes": "max_size_bytes",
    "max-size-messages": "max_size_messages",
    "max-size-bytes-reject-threshold": "reject_threshold_bytes",
    "page-limit-bytes": "page_limit_bytes",
    "page-limit-messages": "page_limit_messages",
    "page-full-policy": "page_full_policy",
    "dead-letter-address": "dead_letter_address",
    "auto-create-dead-letter-resources": "auto_create_dead_letter_resources",
    "dead-letter-queue-prefix": "dead_letter_queue_prefix",
    "dead-letter-queue-suffix": "dead_letter_queue_suffix",
    "max-delivery-attempts": "max_delivery_attempts",
    "redelivery-delay": "redelivery_delay_ms",
    "redelivery-delay-multiplier": "redelivery_multiplier",
    "redelivery-collision-avoidance-factor": "redelivery_jitter",
    "max-redelivery-delay": "max_redelivery_delay_ms",
    "send-to-dla-on-no-route": "send_to_dla_on_no_route",
    "expiry-address": "expiry_address",
    "auto-create-expiry-resources": "auto_create_expiry_resources",
    "expiry-queue-prefix": "expiry_queue_prefix",
    "expiry-queue-suffix": "expiry_queue_suffix",
    "no-expiry": "no_expiry",
    "expiry-delay": "expiry_delay_ms",
    "min-expiry-delay": "min_expiry_delay_ms",
    "max-expiry-delay": "max_expiry_delay_ms",
    "default-last-value-queue": "last_value",
    "default-last-value-key": "last_value_key",
    "default-non-destructive": "non_destructive",
    "default-exclusive-queue": "exclusive",
    "default-ring-size": "ring_size",
    "default-group-buckets": "group_buckets",
    "default-group-rebalance": "group_rebalance",
    "default-group-rebalance-pause-dispatch": "group_rebalance_pause",
    "default-group-first-key": "group_first_key",
    "default-max-consumers": "max_consumers",
    "default-purge-on-no-consumers": "purge_on_no_consumers",
    "default-consumers-before-dispatch": "consumers_before_dispatch",
    "default-delay-before-dispatch": "delay_before_dispatch_ms",
    "default-address-routing-type": "default_routing",
    "auto-create-addresses": "auto_create",
    "auto-create-queues": "auto_create_queues",
    "auto-delete-queues": "auto_delete",
    "auto-delete-queues-delay": "auto_delete_delay_ms",
    "auto-delete-queues-message-count": "auto_delete_message_count",
    "retroactive-message-count": "retroactive_messages",
    "slow-consumer-threshold": "slow_consumer_threshold",
    "slow-consumer-threshold-measurement-unit": "slow_consumer_unit",
    "slow-consumer-policy": "slow_consumer_policy",
    "slow-consumer-check-period": "slow_consumer_check_period_s",
    "id-cache-size": "id_cache_size",
    "enable-ingress-timestamp": "ingress_timestamp",
}
"""Element of an address-setting → field of AddressSettings. What a value may need is in importing.py."""

_PAGES = "what does not fit into memory is read back from the journal; engine.queue_memory_bytes and engine.page_bytes"
_MANAGEMENT = "requests go to activemq.management and notifications to activemq.notifications, whatever this says"
_JMS = "deprecated in Artemis; use auto-create-queues, auto-delete-queues and their like"
_RELOAD = "a setting that is taken away ends, and queues made by hand are deleted by hand"

ADDRESS_WITHOUT: dict[str, str] = {
    "disk-full-policy": "below journal.min_free_bytes SEND is refused and acknowledging goes on, for all addresses",
    "page-size-bytes": _PAGES,
    "max-read-page-messages": _PAGES,
    "max-read-page-bytes": _PAGES,
    "prefetch-page-messages": _PAGES,
    "prefetch-page-bytes": _PAGES,
    "page-max-cache-size": _PAGES,
    "default-queue-routing-type": "default_routing is one setting, taken from default-address-routing-type",
    "default-consumer-window-size": "of Core clients only; for STOMP subscriptions set consumer_window_bytes",
    "auto-delete-addresses": "an address goes with its last queue; see auto_delete",
    "auto-delete-addresses-delay": "an address goes with its last queue; see auto_delete_delay_ms",
    "auto-delete-created-queues": "queues that exist from the start are never deleted on demand",
    "auto-delete-queues-skip-usage-check": "a queue that was made is taken to be used",
    "auto-delete-addresses-skip-usage-check": "an address that was made is taken to be used",
    "config-delete-queues": _RELOAD,
    "config-delete-addresses": _RELOAD,
    "config-delete-diverts": _RELOAD,
    "redistribution-delay": "every edge reaches every queue, so no message waits where no consumer is",
    "enable-metrics": "the 399 fullest queues have metrics of their own, the rest is summed up",
    "message-counter-history-day-limit": "/metrics is scraped; history is kept by who scrapes",
    "management-browse-page-size": _MANAGEMENT,
    "management-message-attribute-size-limit": _MANAGEMENT,
    "initial-queue-buffer-size": "a queue takes what its messages take",
    "queue-prefetch": "of OpenWire clients",
    "auto-create-jms-queues": _JMS,
    "auto-create-jms-topics": _JMS,
    "auto-delete-jms-queues": _JMS,
    "auto-delete-jms-topics": _JMS,
}
"""Element of an address-setting → why it has no counterpart."""

QUEUE: dict[str, str] = {
    "max-consumers": "max_consumers",
    "purge-on-no-consumers": "purge_on_no_consumers",
    "exclusive": "exclusive",
    "last-value": "last_value",
    "last-value-key": "last_value_key",
    "non-destructive": "non_destructive",
    "ring-size": "ring_size",
    "group-buckets": "group_buckets",
    "group-rebalance": "group_rebalance",
    "group-rebalance-pause-dispatch": "group_rebalance_pause",
    "group-first-key": "group_first_key",
    "consumers-before-dispatch": "consumers_before_dispatch",
    "delay-before-dispatch": "delay_before_dispatch_ms",
    "filter": "selector",
}
"""Attribute or element of a queue → field of QueueSettings. `name`, `enabled`, `durable` and its routing type are
looked at one by one."""

_ALWAYS_THERE = "a queue that exists from the start is never deleted on demand"
QUEUE_WITHOUT: dict[str, str] = {
    "user": "queues have no owners; see edge.permissions",
    "auto-delete": _ALWAYS_THERE,
    "auto-delete-delay": _ALWAYS_THERE,
    "auto-delete-message-count": _ALWAYS_THERE,
}

DIVERT: dict[str, str] = {"address": "address", "forwarding-address": "forward", "exclusive": "exclusive",
                          "filter": "selector", "routing-type": "routing"}  # fmt: skip
DIVERT_WITHOUT: dict[str, str] = {
    "routing-name": "diverts are known by their name",
    "transformer-class-name": "there are no transformers: headers and body go as they are",
    "transformer": "there are no transformers: headers and body go as they are",
}

_JOURNAL = "the journal's files are its own affair; see [journal]"
_ONE_LOOP = "there is one event loop, and one thread that writes to the disk"
_ETCD = "a cluster is edges, owners and etcd: docs/cluster.md"
_NO_BRIDGE = "write it as a bridge over STOMP: [bridges.NAME] (docs/bridges.md)"
_FOLDER = "everything is in one folder: the setting `data`"
_NO_SCAN = "what is due is done when it is due, without scans"
_PAGE_IO = "there are no page files"
_NO_JMX = "there is no JMX; see the admin port"
_CLASSES = "there are no classes to load into the broker"
_WATCHDOG = "a broker that stands still is seen from outside: /healthz"

PERMISSION: dict[str, str] = {
    "send": "send",
    "consume": "consume",
    "browse": "browse",
    "createAddress": "create_address",
    "createDurableQueue": "create_durable_queue",
    "createNonDurableQueue": "create_non_durable_queue",
    "deleteDurableQueue": "delete_durable_queue",
    "manage": "manage",
}
"""Type of a permission → field of PermissionSettings; its roles are groups of users."""

PERMISSION_WITHOUT: dict[str, str] = {
    "deleteAddress": "no client deletes addresses: they go when they are empty and unused (auto_delete)",
    "deleteNonDurableQueue": "such a queue ends with its subscription, whoever it is",
    "view": _MANAGEMENT,
    "edit": _MANAGEMENT,
}
"""Type of a permission → why it has no counterpart."""

BROKER_WITHOUT: dict[str, str] = {
    "name": "a process of a cluster has cluster.id, one broker alone no name",
    "persistence-enabled": "messages with persistent:true are always kept; clients that need no disk leave it away",
    **dict.fromkeys(
        ("journal-directory", "paging-directory", "bindings-directory", "large-messages-directory",
         "node-manager-lock-directory", "journal-retention-directory"), _FOLDER,
    ),
    **dict.fromkeys(
        ("journal-type", "journal-min-files", "journal-pool-files", "journal-device-block-size",
         "journal-buffer-timeout", "journal-buffer-size", "journal-max-io", "journal-sync-transactional",
         "journal-sync-non-transactional", "journal-compact-min-files", "journal-compact-percentage",
         "journal-file-open-timeout", "journal-lock-acquisition-timeout", "journal-max-atticJournal-files",
         "journal-max-attic-files", "log-journal-write-rate", "log-large-message", "create-bindings-dir",
         "create-journal-dir", "max-redelivery-records", "read-whole-page"), _JOURNAL,
    ),
    "journal-retention": "what is acknowledged is forgotten; copy the journal's folder to keep it",
    "page-sync-timeout": _PAGE_IO,
    "page-max-concurrent-io": _PAGE_IO,
    "large-message-sync": "bodies are always synced before their receipt",
    **dict.fromkeys(
        ("critical-analyzer", "critical-analyzer-timeout", "critical-analyzer-check-period",
         "critical-analyzer-policy"), _WATCHDOG,
    ),
    **dict.fromkeys(
        ("thread-pool-max-size", "scheduled-thread-pool-max-size", "connection-ttl-check-interval",
         "configuration-file-refresh-period"),
        _ONE_LOOP + "; times to live are kept to the second, files are looked at while we run",
    ),
    "global-max-size": "memory.limit_bytes bounds the process; what does not fit rests on disk",
    "global-max-messages": "memory.limit_bytes bounds the process; what does not fit rests on disk",
    "global-max-size-percent-of-jvm-max-memory": "no Java heap; memory.limit_bytes is half of what the container has",
    "max-disk-usage": "bytes instead of per cent: journal.min_free_bytes",
    "disk-scan-period": _NO_SCAN,
    "message-expiry-scan-period": _NO_SCAN,
    "message-expiry-thread-priority": _NO_SCAN,
    "address-queue-scan-period": _NO_SCAN,
    "transaction-timeout-scan-period": _NO_SCAN,
    "memory-measure-interval": _NO_SCAN,
    "memory-warning-threshold": "see /metrics",
    "server-dump-interval": "see /metrics",
    "mqtt-session-scan-interval": "MQTT is not spoken here",
    "mqtt-session-state-persistence-timeout": "MQTT is not spoken here",
    "mqtt-subscription-persistence-enabled": "MQTT is not spoken here",
    "transaction-timeout": "a transaction ends with its connection; edge.max_transactions and its like bound it",
    "persist-id-cache": "duplicate ids are always kept with the messages",
    "persist-delivery-count-before-delivery": "counts are kept when a message comes back",
    "reject-empty-validated-user": "with users, nobody comes in without a login",
    "security-enabled": "with users everybody logs in, without users only this machine can connect",
    **dict.fromkeys(
        ("security-invalidation-interval", "authentication-cache-size", "authorization-cache-size",
         "password-codec", "mask-password"), "right passcodes are remembered, users may change any time",
    ),
    "cluster-user": _ETCD,
    "cluster-password": _ETCD,
    **dict.fromkeys(
        ("cluster-connections", "ha-policy", "broadcast-groups", "discovery-groups", "connectors", "grouping-handler",
         "connector-services", "failback-delay", "check-for-live-server", "failover-on-shutdown",
         "connection-routers", "lock-coordinators"), _ETCD,
    ),
    **dict.fromkeys(("bridges", "federations", "broker-connections", "amqp-use-core-subscription-naming"), _NO_BRIDGE),
    "broker-plugins": _CLASSES,
    "remoting-incoming-interceptors": _CLASSES,
    "remoting-outgoing-interceptors": _CLASSES,
    "management-address": _MANAGEMENT,
    "management-notification-address": _MANAGEMENT,
    "management-message-rbac": _MANAGEMENT,
    "view-permission-method-match-pattern": _MANAGEMENT,
    **dict.fromkeys(("jmx-management-enabled", "jmx-domain", "jmx-use-broker-name"), _NO_JMX),
    **dict.fromkeys(
        ("message-counter-enabled", "message-counter-sample-period", "message-counter-max-day-history", "metrics",
         "metrics-plugin"), "metrics are always on: /metrics of the admin port",
    ),
    "resource-limit-settings": "write it as edge.quotas: max_connections, max_queues of user:NAME",
    "store": "there is no database store",
    "temporary-queue-namespace": "queues of subscribers take the settings of their address",
    "uuid-namespace": "queues of subscribers take the settings of their address",
    "internal-naming-prefix": "there are no internal addresses of that kind",
    "graceful-shutdown-enabled": "always on; see edge.drain_timeout_s",
    "graceful-shutdown-timeout": "see edge.drain_timeout_s",
    "suppress-session-notifications": _MANAGEMENT,
    "network-check-NIC": _ETCD,
    "network-check-period": _ETCD,
    "network-check-timeout": _ETCD,
    "network-check-list": _ETCD,
    "network-check-URL-list": _ETCD,
    "network-check-ping-command": _ETCD,
    "network-check-ping6-command": _ETCD,
    "system-property-prefix": "settings come from the environment as STAMPEDE_…",
    "jms": "deprecated in Artemis",
    "async-connection-execution-enabled": "deprecated in Artemis",
    "wild-card-routing-enabled": "always on",
    "literal-match-markers": "a match with * or # is always a pattern",
    "include": "included files are not read; import them one by one",
}  # fmt: skip
"""Element of <core> → why it has no counterpart. Those with one are in importing.py."""
