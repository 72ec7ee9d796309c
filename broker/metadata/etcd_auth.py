"""Users and roles of etcd: made what they are to be, as often as one likes.

Rule: what is there and as it should be is left alone; what has more rights than it should loses them. Names of keys
are the callers'.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import Any, Final, NamedTuple

from broker.config.settings import EtcdSettings

from .etcd_calls import EtcdCalls, prefix_end
from .etcdpb import auth_pb2, rpc_pb2
from .port import MetadataRefused

ROOT: Final = "root"
"""The user and the role that etcd itself knows: it may do everything, and only it may change users and roles."""


class Right(IntEnum):
    """As etcd numbers them."""

    READ = 0
    WRITE = 1
    READWRITE = 2


class KeyRight(NamedTuple):
    """What may be done with all keys that begin so."""

    prefix: str
    right: Right


class EtcdAuth:
    """For whom may: root, or anybody while etcd asks nobody for a password."""

    def __init__(self, settings: EtcdSettings) -> None:
        """Raises ConfigError when the settings cannot work."""
        self._calls = EtcdCalls(settings)

    async def role(self, name: str, grants: Collection[KeyRight]) -> None:
        """There is such a role, and it may do just that. Raises MetadataUnavailable, MetadataRefused."""
        await self._change("RoleAdd", rpc_pb2.AuthRoleAddRequest(name=name), "role name already exists")
        answer = await self._ask("RoleGet", rpc_pb2.AuthRoleGetRequest(role=name), rpc_pb2.AuthRoleGetResponse)
        wanted = {(grant.prefix.encode(), prefix_end(grant.prefix.encode())): grant.right for grant in grants}
        there = {(one.key, one.range_end): one.permType for one in answer.perm}
        for key, end in there.keys() - wanted.keys():
            await self._change(
                "RoleRevokePermission", rpc_pb2.AuthRoleRevokePermissionRequest(role=name, key=key, range_end=end)
            )
        for (key, end), right in wanted.items():
            if there.get((key, end)) != right:
                grant = auth_pb2.Permission(permType=right.name, key=key, range_end=end)
                await self._change("RoleGrantPermission", rpc_pb2.AuthRoleGrantPermissionRequest(name=name, perm=grant))

    async def user(self, name: str, password: str, role: str) -> None:
        """There is such a user with this password, who has this role and no other."""
        add = rpc_pb2.AuthUserAddRequest(name=name, password=password)
        if not await self._change("UserAdd", add, "user name already exists") and not await self._is(name, password):
            # Not when it has it: each change ends what its processes have open.
            again = rpc_pb2.AuthUserChangePasswordRequest(name=name, password=password)
            await self._change("UserChangePassword", again)
        answer = await self._ask("UserGet", rpc_pb2.AuthUserGetRequest(name=name), rpc_pb2.AuthUserGetResponse)
        for other in set(answer.roles) - {role}:
            await self._change("UserRevokeRole", rpc_pb2.AuthUserRevokeRoleRequest(name=name, role=other))
        if role not in answer.roles:
            await self._change("UserGrantRole", rpc_pb2.AuthUserGrantRoleRequest(user=name, role=role))

    async def enable(self, root_password: str) -> None:
        """From now on nobody does anything without a password. root has this one, unless it has one already."""
        add = rpc_pb2.AuthUserAddRequest(name=ROOT, password=root_password)
        await self._change("UserAdd", add, "user name already exists")
        await self._change("RoleAdd", rpc_pb2.AuthRoleAddRequest(name=ROOT), "role name already exists")
        await self._change("UserGrantRole", rpc_pb2.AuthUserGrantRoleRequest(user=ROOT, role=ROOT))
        await self._change("AuthEnable", rpc_pb2.AuthEnableRequest())

    async def close(self) -> None:
        await self._calls.close()

    async def _is(self, name: str, password: str) -> bool:
        login = rpc_pb2.AuthenticateRequest(name=name, password=password)
        try:
            await self._ask("Authenticate", login, rpc_pb2.AuthenticateResponse)
        except MetadataRefused:
            return False
        return True

    async def _change(self, call: str, request: Any, already: str = "") -> bool:
        """already: what etcd says where it is so; then the answer is False."""
        try:
            await self._ask(call, request, rpc_pb2.AuthEnableResponse)
        except MetadataRefused as error:
            if already and already in str(error):
                return False
            raise
        return True

    async def _ask(self, call: str, request: Any, answer: Any) -> Any:
        return await self._calls.ask(f"/etcdserverpb.Auth/{call}", request, answer, repeat=True)
