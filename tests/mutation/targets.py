"""Which modules are mutated, and by which unit tests of their room that must be noticed.

Rule: only unit tests of the module's own room count, and together they take a few seconds: a fault that nothing but a
thousand cluster histories would find costs an afternoon to understand.
"""

from __future__ import annotations

from typing import Final

TARGETS: Final[dict[str, tuple[str, ...]]] = {
    "owner.replication.isr": ("owner/test_isr.py",),
    "owner.commit.release_gate": ("owner/test_release_gate.py",),
    "engine.dispatch.settle": (
        *("engine/test_settle.py", "engine/test_redelivery.py"),
        *("engine/test_hand_outs.py", "engine/test_already_settled.py"),
    ),
    "engine.state.limits": ("engine/test_limits.py", "engine/test_admission.py"),
    "engine.dispatch.selective_dispatch": (
        *("engine/test_selective_dispatch.py", "engine/test_message_groups.py", "engine/test_selective_consumers.py"),
        *("engine/test_eligibility.py", "engine/test_filters.py", "engine/test_prefilter.py"),
    ),
    "journal.recovery.recovery": ("journal/test_recovery.py", "journal/test_journal.py", "journal/test_stretches.py"),
    "wire.block": ("wire/test_block.py", "wire/test_rules.py", "wire/test_escapes.py", "wire/test_limits.py"),
    "wire.connection": ("wire/test_connection.py", "wire/test_rules.py", "wire/test_limits.py"),
    "wire.shortcuts.bulk": ("wire/test_bulk.py",),
    "wire.intake": ("wire/test_intake.py",),
    "owner.commit.group_commit": ("owner/test_group_commit.py",),
    "owner.bodies.bodies": ("owner/test_bodies.py",),
    "journal.log.items": ("journal/test_items.py",),
    "journal.log.walk": ("journal/test_walk.py",),
    "cluster.operate": ("cluster/test_operate.py",),
    "cluster.controller_election": ("cluster/test_controller_election.py",),
    "engine.state.slot": ("engine/test_slot.py", "engine/test_slot_restore.py"),
    "engine.subscribe": ("engine/test_subscribe.py", "engine/test_attach.py", "engine/test_addresses.py"),
    "engine.publishing.numbered": ("engine/test_numbered.py", "engine/test_producer_state.py"),
    "edge.requests.publishing": (
        *("edge/test_publishing.py", "edge/test_large_messages.py"),
        *("edge/test_temporary.py", "edge/test_management.py", "edge/test_activemq.py"),
    ),
    "edge.requests.inbound": ("edge/test_inbound.py",),
    "edge.requests.acks": ("edge/test_acks.py",),
    "admin.log.log_reads": ("admin/test_log_reads.py",),
    "link.edge_side.replayed_consumers": ("link/test_replayed_consumers.py",),
    "link.edge_side.owner_link": ("link/test_owner_link.py", "link/test_owner_link_bounds.py"),
    "link.edge_side.slot_channel": ("link/test_slot_channel.py",),
    "link.edge_side.consumer_replay": ("link/test_consumer_replay.py", "link/test_resume.py"),
}
"""Module → its tests, below tests/unit."""
