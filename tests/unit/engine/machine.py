"""What all models of the engine do with their World: commit, answer what it fetches, go on until it rests.

Rule: effects go through watch(), whoever caused them.
"""

from __future__ import annotations

from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from .world import World


class Machine(RuleBasedStateMachine):
    world: World

    def watch(self, effects: list) -> None:
        raise NotImplementedError

    @rule()
    def commit(self):
        self.watch(self.world.commit())

    @precondition(lambda self: self.world.fetches)
    @rule()
    def serve(self):
        before = len(self.world.effects)
        self.world.serve()
        self.watch(self.world.effects[before:])

    def settle_down(self) -> None:
        while self.world.engine.pending or self.world.fetches:
            if self.world.engine.pending:
                self.commit()
            if self.world.fetches:
                self.serve()
