"""Driver of tooz: connection, groups and elections."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

import tooz
from oslo_utils import strutils
from tooz import coordination, utils
from tooz.coordination import Characteristics, CoordAsyncResult, LeaderElected

from .. import sync
from ..client import Tls
from ..errors import AcquireError, LostReason
from ..hold import LockState
from ..views import Holder
from ._errors import translated
from ._lock import LeaseholdLock, release
from ._presence import Presence

if TYPE_CHECKING:
    # Older versions have no such names.
    from tooz.coordination import Capabilities, EventCallback

log = logging.getLogger("leasehold_client.tooz")

T = TypeVar("T")

_CHANGE_WAIT = 30.0
"""Seconds to wait for another coordinator that changes the same group."""
_RESTORE_PAUSE = 0.5
"""Seconds between attempts to be in a group again after the session was lost."""


def _quoted(name: bytes | str) -> str:
    # Ids of tooz are any bytes. Names of locks are UTF-8 without control characters.
    return quote_from_bytes(utils.to_binary(name), safe="/:@!$&'()*+,;= ")


class LeaseholdDriver(coordination.CoordinationDriverCachedRunWatchers):
    """Driver of tooz for `leasehold://HOST[:PORT][,HOST[:PORT]…][?OPTION=VALUE&…]`.

    Options, in the URL or as arguments of `get_coordinator`:

    - `namespace`: prefix of all names of locks. Default: `tooz/`.
    - `ttl`, `disconnect_grace`, `connect_timeout`, `close_timeout`: seconds, as in `leasehold_client.connect`.
    - `tls`: whether to encrypt. Any of `ca`, `cert`, `key` (files) and `server_name` implies it.
    - `token_file`, `allow_plaintext_token`: as in `leasehold_client.connect`.

    No heartbeat has to be called: the client renews everything in the background. A group exists as long as a coordinator that created
    or joined it is started, and at most a hundred coordinators can be in one. A coordinator that lost its connection is a member of its
    groups again as soon as it is connected; locks that it lost stay lost. Elections take place in `run_watchers`.

    Groups and `break_` use the calls of operators. If coordinators check permissions, members need those as well.
    """

    CHARACTERISTICS = (
        Characteristics.NON_TIMEOUT_BASED,
        Characteristics.DISTRIBUTED_ACROSS_THREADS,
        Characteristics.DISTRIBUTED_ACROSS_PROCESSES,
        Characteristics.DISTRIBUTED_ACROSS_HOSTS,
    )

    def __init__(self, member_id: bytes | str, parsed_url: Any, options: dict[str, Any]) -> None:
        """Makes a driver that is not started."""
        super().__init__(utils.to_binary(member_id), parsed_url, options)
        self._netloc: str = parsed_url.netloc
        self._options: dict[str, Any] = utils.collapse(options)
        self._namespace = str(self._options.get("namespace", "tooz/"))
        self._client: sync.Client | None = None
        # One thread, so that changes of groups take effect in the order in which they were requested. Not tooz's own executor, whose end
        # takes a second.
        self._executor: ThreadPoolExecutor | None = None
        self._stopping = threading.Event()
        # Changed by the executor's thread alone while it runs.
        self._presences: dict[bytes, tuple[sync.Hold, Presence]] = {}
        # Locks of tooz stay acquired, whoever drops them, until the driver is stopped.
        self._acquired: set[LeaseholdLock] = set()
        self._leads_mutex = threading.Lock()
        self._leads: dict[bytes, sync.Hold] = {}

    # Connection.

    def _make_client(self) -> sync.Client:
        options = self._options
        files = {one: options[one] for one in ("ca", "cert", "key", "server_name") if one in options}
        is_encrypted = bool(files) or strutils.bool_from_string(options.get("tls", False), strict=True)
        scheme = "https" if is_encrypted else "http"
        return sync.connect(
            [f"{scheme}://{host}" for host in self._netloc.split(",")],
            client_name=self._member_id.decode(errors="replace"),
            ttl=float(options["ttl"]) if "ttl" in options else None,
            disconnect_grace=float(options.get("disconnect_grace", 0)),
            connect_timeout=float(options.get("connect_timeout", 5)),
            close_timeout=float(options.get("close_timeout", 10)),
            tls=Tls(**files) if is_encrypted else None,
            token_file=options.get("token_file"),
            allow_plaintext_token=strutils.bool_from_string(options.get("allow_plaintext_token", False), strict=True),
        )

    def _start(self) -> None:
        super()._start()
        with translated():
            client = self._make_client()
            client.open()
        self._stopping.clear()
        self._client = client
        self._executor = ThreadPoolExecutor(1, "leasehold-tooz")

    def stop(self) -> None:
        """Ends everything that this member has: its locks, its leaderships and its presence in groups.

        `is_still_owner` is false from the call on. Locks of `with` blocks of other threads are held until these have ended, at most for
        the option `close_timeout`.
        """
        # They need not be left one after the other, which would take long while no coordinator can be reached.
        self._joined_groups = set()
        super().stop()

    def _stop(self) -> None:
        super()._stop()
        self._stopping.set()
        client, self._client = self._client, None
        executor, self._executor = self._executor, None
        try:
            if client:
                with translated():
                    client.close()
        finally:
            if executor:
                executor.shutdown()
            self._presences = {}
            self._acquired.clear()
            with self._leads_mutex:
                self._leads = {}

    @property
    def _connected(self) -> sync.Client:
        if self._client is None:
            raise tooz.ToozError("the coordinator is not started")
        return self._client

    def _key(self, kind: str, name: bytes | str) -> str:
        return f"{self._namespace}{kind}/{_quoted(name)}"

    def _submit(self, work: Callable[[], T]) -> CoordAsyncResult[T]:
        if self._executor is None:
            raise tooz.ToozError("the coordinator is not started")
        return coordination.CoordinatorResult(self._executor.submit(work), translated)

    # Locks.

    def get_lock(self, name: bytes) -> LeaseholdLock:
        """Returns a lock that is not acquired."""
        return LeaseholdLock(self, name)

    # Groups.

    @contextlib.contextmanager
    def _changing(self, group_id: bytes) -> Iterator[list[tuple[Holder, Presence]]]:
        """Keeps all others from changing a group, and returns who is in it."""
        with self._connected.lock(self._key("change", group_id), wait=_CHANGE_WAIT):
            yield self._look(group_id)

    def _look(self, group_id: bytes) -> list[tuple[Holder, Presence]]:
        view = self._connected.admin.get_lock(self._key("group", group_id))
        if view.holder_count > len(view.holders):
            raise tooz.ToozError(f"{view.holder_count} coordinators are in the group {view.name!r}: only {len(view.holders)} can be listed")
        return [(holder, Presence.of(holder)) for holder in view.holders]

    def _look_existing(self, group_id: bytes) -> list[tuple[Holder, Presence]]:
        present = self._look(group_id)
        if not present:
            raise coordination.GroupNotCreated(group_id)
        return present

    def _find(self, group_id: bytes, member_id: bytes, present: list[tuple[Holder, Presence]]) -> tuple[Holder, Presence]:
        if not present:
            raise coordination.GroupNotCreated(group_id)
        for holder, presence in present:
            if presence.member_id == member_id:
                return holder, presence
        raise coordination.MemberNotJoined(group_id, member_id)

    def _be_present(self, group_id: bytes, presence: Presence, wait: float = _CHANGE_WAIT) -> None:
        """Has this coordinator be in a group as this."""
        hold, _ = self._presences.get(group_id, (None, None))
        if hold and not hold.lost_reason:
            hold.set_value(presence.value)
        else:
            on_lost = partial(self._on_lost, group_id)
            hold = self._connected.lock(
                self._key("group", group_id), shared=True, wait=wait, value=presence.value, on_lost=on_lost
            ).acquire()
        self._presences[group_id] = (hold, presence)

    def _on_lost(self, group_id: bytes, hold: sync.Hold) -> None:
        """Is in a group again after the session was lost."""
        while not self._stopping.is_set() and hold.lost_reason is not LostReason.SESSION_CLOSED:
            executor = self._executor
            if executor is None:
                return
            try:
                executor.submit(self._restore, group_id, hold).result()
                return
            except AcquireError as error:
                if not error.is_retryable:
                    log.error("failed to be in the group %r again: %s", group_id, error)
                    return
                log.warning("failed to be in the group %r again; trying it until it succeeds: %s", group_id, error)
            except RuntimeError:
                # The executor ended.
                return
            self._stopping.wait(_RESTORE_PAUSE)

    def _restore(self, group_id: bytes, lost: sync.Hold) -> None:
        hold, presence = self._presences.get(group_id, (None, None))
        if hold is not lost or presence is None:
            return
        if lost.lost_reason is LostReason.FORCED:
            # Somebody deleted the group, or had the member leave it.
            del self._presences[group_id]
            return
        self._be_present(group_id, presence, wait=1)

    def create_group(self, group_id: bytes) -> CoordAsyncResult[None]:
        """Creates a group, which exists as long as a coordinator that created or joined it is started."""
        group_id = utils.to_binary(group_id)

        def create() -> None:
            with self._changing(group_id) as present:
                if present:
                    raise coordination.GroupAlreadyExist(group_id)
                self._be_present(group_id, Presence())

        return self._submit(create)

    def delete_group(self, group_id: bytes) -> CoordAsyncResult[None]:
        """Deletes a group that has no members."""
        group_id = utils.to_binary(group_id)

        def delete() -> None:
            with self._changing(group_id) as present:
                if not present:
                    raise coordination.GroupNotCreated(group_id)
                if any(presence.member_id is not None for _, presence in present):
                    raise coordination.GroupNotEmpty(group_id)
                self._presences.pop(group_id, None)
                for holder, _ in present:
                    self._connected.admin.force_release(self._key("group", group_id), token=holder.fencing_token)

        return self._submit(delete)

    def get_groups(self) -> CoordAsyncResult[list[bytes]]:
        """Returns the ids of all groups, by a scan of all locks."""
        prefix = self._key("group", b"")

        def list_all() -> list[bytes]:
            locks = self._connected.admin.list_locks(prefix)
            return [unquote_to_bytes(lock.name.removeprefix(prefix)) for lock in locks]

        return self._submit(list_all)

    def join_group(self, group_id: bytes, capabilities: Capabilities | None = None) -> CoordAsyncResult[None]:
        """Joins a group that exists."""
        group_id = utils.to_binary(group_id)

        def join() -> None:
            with self._changing(group_id) as present:
                if not present:
                    raise coordination.GroupNotCreated(group_id)
                if any(presence.member_id == self._member_id for _, presence in present):
                    raise coordination.MemberAlreadyExist(group_id, self._member_id)
                self._be_present(group_id, Presence(self._member_id, capabilities))
                self._joined_groups.add(group_id)

        return self._submit(join)

    def leave_group(self, group_id: bytes) -> CoordAsyncResult[None]:
        """Leaves a group. If another coordinator has this member's id, that one leaves it."""
        group_id = utils.to_binary(group_id)

        def leave() -> None:
            with self._changing(group_id) as present:
                holder, _ = self._find(group_id, self._member_id, present)
                self._joined_groups.discard(group_id)
                if self._is_mine(group_id, holder):
                    self._be_present(group_id, Presence())
                else:
                    self._connected.admin.force_release(self._key("group", group_id), token=holder.fencing_token)

        return self._submit(leave)

    def _is_mine(self, group_id: bytes, holder: Holder) -> bool:
        hold, _ = self._presences.get(group_id, (None, None))
        return hold is not None and hold.token == holder.fencing_token

    def get_members(self, group_id: bytes) -> CoordAsyncResult[set[bytes]]:
        """Returns the ids of a group's members."""
        group_id = utils.to_binary(group_id)

        def members() -> set[bytes]:
            return {presence.member_id for _, presence in self._look_existing(group_id) if presence.member_id is not None}

        return self._submit(members)

    def get_members_with_capabilities(self, group_id: bytes) -> CoordAsyncResult[dict[bytes, Capabilities | None]]:
        """Returns the ids of a group's members, and their capabilities."""
        group_id = utils.to_binary(group_id)

        def members() -> dict[bytes, Capabilities | None]:
            present = self._look_existing(group_id)
            return {presence.member_id: presence.capabilities for _, presence in present if presence.member_id is not None}

        return self._submit(members)

    def get_member_capabilities(self, group_id: bytes, member_id: bytes) -> CoordAsyncResult[Capabilities | None]:
        """Returns the capabilities of a member."""
        group_id, member_id = utils.to_binary(group_id), utils.to_binary(member_id)
        return self._submit(lambda: self._find(group_id, member_id, self._look(group_id))[1].capabilities)

    def get_member_info(self, group_id: bytes, member_id: bytes) -> CoordAsyncResult[dict[str, Any]]:
        """Returns a member's capabilities, the id of its session, and the coordinator that it is connected to."""
        group_id, member_id = utils.to_binary(group_id), utils.to_binary(member_id)

        def info() -> dict[str, Any]:
            holder, presence = self._find(group_id, member_id, self._look(group_id))
            return {"capabilities": presence.capabilities, "session_id": holder.session_id, "coordinator": holder.coordinator}

        return self._submit(info)

    def update_capabilities(self, group_id: bytes, capabilities: Capabilities) -> CoordAsyncResult[None]:
        """Changes the capabilities of this member."""
        group_id = utils.to_binary(group_id)

        def update() -> None:
            with self._changing(group_id) as present:
                holder, _ = self._find(group_id, self._member_id, present)
                if not self._is_mine(group_id, holder):
                    raise coordination.MemberNotJoined(group_id, self._member_id)
                self._be_present(group_id, Presence(self._member_id, capabilities))

        return self._submit(update)

    # Elections.

    def run_watchers(self, timeout: float | None = None) -> list[Any]:
        """Calls the callbacks of members that joined or left, then campaigns, and returns what the callbacks returned."""
        with translated():
            return super().run_watchers(timeout) + self._campaign()

    def run_elect_coordinator(self) -> None:
        """Campaigns once in each election that is watched, and calls the callbacks of those that were won."""
        with translated():
            self._campaign()

    def _campaign(self) -> list[Any]:
        results: list[Any] = []
        for group_id, hooks in list(self._hooks_elected_leader.items()):
            with self._leads_mutex:
                lead = self._leads.get(group_id)
                # While it is suspended, nobody else can lead, and it may lead again.
                if not hooks or (lead and lead.state is not LockState.LOST):
                    continue
                lead = self._connected.lock(self._key("leader", group_id), value=self._member_id).try_acquire()
                if lead is None:
                    continue
                self._leads[group_id] = lead
            results += hooks.run(LeaderElected(group_id, self._member_id))
        return results

    def is_leader(self, group_id: bytes) -> bool:
        """Returns whether this member leads the group now, by this process's own clock."""
        with self._leads_mutex:
            lead = self._leads.get(group_id)
        return lead is not None and lead.is_held

    def stand_down_group_leader(self, group_id: bytes) -> bool:
        """Ends this member's leadership. Returns false if it did not lead."""
        with self._leads_mutex:
            lead = self._leads.pop(group_id, None)
        return lead is not None and release(lead)

    def unwatch_elected_as_leader(self, group_id: bytes, callback: EventCallback[LeaderElected]) -> None:
        """Stops calling a callback. Without one, this member leads no longer."""
        super().unwatch_elected_as_leader(group_id, callback)
        if group_id not in self._hooks_elected_leader:
            self.stand_down_group_leader(group_id)

    def get_leader(self, group_id: bytes) -> CoordAsyncResult[bytes]:
        """Returns the id of the member that leads the group; none if nobody does."""

        def leader() -> Any:
            found = self._connected.election(self._key("leader", group_id)).leader()
            return found.value if found else None

        return self._submit(leader)
