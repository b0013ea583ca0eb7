from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from leasehold_client.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LockEventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOCK_EVENT_KIND_UNSPECIFIED: _ClassVar[LockEventKind]
    LOCK_EVENT_KIND_GRANTED: _ClassVar[LockEventKind]
    LOCK_EVENT_KIND_QUEUED: _ClassVar[LockEventKind]
    LOCK_EVENT_KIND_WITHDRAWN: _ClassVar[LockEventKind]
    LOCK_EVENT_KIND_RELEASED: _ClassVar[LockEventKind]
    LOCK_EVENT_KIND_EXPIRED: _ClassVar[LockEventKind]
    LOCK_EVENT_KIND_LOST: _ClassVar[LockEventKind]
    LOCK_EVENT_KIND_FORCED: _ClassVar[LockEventKind]
    LOCK_EVENT_KIND_VALUE_CHANGED: _ClassVar[LockEventKind]
    LOCK_EVENT_KIND_DOWNGRADED: _ClassVar[LockEventKind]
    LOCK_EVENT_KIND_LIMIT_CHANGED: _ClassVar[LockEventKind]
    LOCK_EVENT_KIND_PERMITS_REDUCED: _ClassVar[LockEventKind]
    LOCK_EVENT_KIND_RELEASE_REQUESTED: _ClassVar[LockEventKind]

class StoreState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STORE_STATE_UNSPECIFIED: _ClassVar[StoreState]
    STORE_STATE_UP: _ClassVar[StoreState]
    STORE_STATE_DOWN: _ClassVar[StoreState]
LOCK_EVENT_KIND_UNSPECIFIED: LockEventKind
LOCK_EVENT_KIND_GRANTED: LockEventKind
LOCK_EVENT_KIND_QUEUED: LockEventKind
LOCK_EVENT_KIND_WITHDRAWN: LockEventKind
LOCK_EVENT_KIND_RELEASED: LockEventKind
LOCK_EVENT_KIND_EXPIRED: LockEventKind
LOCK_EVENT_KIND_LOST: LockEventKind
LOCK_EVENT_KIND_FORCED: LockEventKind
LOCK_EVENT_KIND_VALUE_CHANGED: LockEventKind
LOCK_EVENT_KIND_DOWNGRADED: LockEventKind
LOCK_EVENT_KIND_LIMIT_CHANGED: LockEventKind
LOCK_EVENT_KIND_PERMITS_REDUCED: LockEventKind
LOCK_EVENT_KIND_RELEASE_REQUESTED: LockEventKind
STORE_STATE_UNSPECIFIED: StoreState
STORE_STATE_UP: StoreState
STORE_STATE_DOWN: StoreState

class ListLocksRequest(_message.Message):
    __slots__ = ("prefix", "page_size", "page_token")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    page_size: int
    page_token: str
    def __init__(self, prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListLocksResponse(_message.Message):
    __slots__ = ("locks", "next_page_token")
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[_types_pb2.LockView]
    next_page_token: str
    def __init__(self, locks: _Optional[_Iterable[_Union[_types_pb2.LockView, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetLockRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetLockResponse(_message.Message):
    __slots__ = ("lock",)
    LOCK_FIELD_NUMBER: _ClassVar[int]
    lock: _types_pb2.LockView
    def __init__(self, lock: _Optional[_Union[_types_pb2.LockView, _Mapping]] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions", "next_page_token")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionView]
    next_page_token: str
    def __init__(self, sessions: _Optional[_Iterable[_Union[SessionView, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class SessionView(_message.Message):
    __slots__ = ("session_id", "client_name", "peer", "coordinator", "ttl", "opened_at", "since_heartbeat", "hold_count", "waiter_count", "metadata", "identity")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_FIELD_NUMBER: _ClassVar[int]
    SINCE_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    client_name: str
    peer: str
    coordinator: str
    ttl: _duration_pb2.Duration
    opened_at: _timestamp_pb2.Timestamp
    since_heartbeat: _duration_pb2.Duration
    hold_count: int
    waiter_count: int
    metadata: _containers.ScalarMap[str, str]
    identity: str
    def __init__(self, session_id: _Optional[str] = ..., client_name: _Optional[str] = ..., peer: _Optional[str] = ..., coordinator: _Optional[str] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., opened_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., since_heartbeat: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., hold_count: _Optional[int] = ..., waiter_count: _Optional[int] = ..., metadata: _Optional[_Mapping[str, str]] = ..., identity: _Optional[str] = ...) -> None: ...

class WatchLocksRequest(_message.Message):
    __slots__ = ("prefix",)
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    def __init__(self, prefix: _Optional[str] = ...) -> None: ...

class WatchLocksResponse(_message.Message):
    __slots__ = ("lock", "ready", "event", "gap")
    LOCK_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    lock: _types_pb2.LockView
    ready: WatchReady
    event: LockEvent
    gap: WatchGap
    def __init__(self, lock: _Optional[_Union[_types_pb2.LockView, _Mapping]] = ..., ready: _Optional[_Union[WatchReady, _Mapping]] = ..., event: _Optional[_Union[LockEvent, _Mapping]] = ..., gap: _Optional[_Union[WatchGap, _Mapping]] = ...) -> None: ...

class WatchReady(_message.Message):
    __slots__ = ("lock_count",)
    LOCK_COUNT_FIELD_NUMBER: _ClassVar[int]
    lock_count: int
    def __init__(self, lock_count: _Optional[int] = ...) -> None: ...

class WatchGap(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: str
    def __init__(self, message: _Optional[str] = ...) -> None: ...

class LockEvent(_message.Message):
    __slots__ = ("kind", "name", "time", "fencing_token", "holder", "waiter", "reason", "mode", "holder_count", "waiter_count", "closed_for", "limit", "limit_revision")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    WAITER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    HOLDER_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_REVISION_FIELD_NUMBER: _ClassVar[int]
    kind: LockEventKind
    name: str
    time: _timestamp_pb2.Timestamp
    fencing_token: int
    holder: _types_pb2.Holder
    waiter: _types_pb2.Waiter
    reason: _types_pb2.LostReason
    mode: _types_pb2.LockMode
    holder_count: int
    waiter_count: int
    closed_for: _duration_pb2.Duration
    limit: int
    limit_revision: int
    def __init__(self, kind: _Optional[_Union[LockEventKind, str]] = ..., name: _Optional[str] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., fencing_token: _Optional[int] = ..., holder: _Optional[_Union[_types_pb2.Holder, _Mapping]] = ..., waiter: _Optional[_Union[_types_pb2.Waiter, _Mapping]] = ..., reason: _Optional[_Union[_types_pb2.LostReason, str]] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., holder_count: _Optional[int] = ..., waiter_count: _Optional[int] = ..., closed_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., limit: _Optional[int] = ..., limit_revision: _Optional[int] = ...) -> None: ...

class ForceReleaseRequest(_message.Message):
    __slots__ = ("name", "fencing_token", "waiter_number")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WAITER_NUMBER_FIELD_NUMBER: _ClassVar[int]
    name: str
    fencing_token: int
    waiter_number: int
    def __init__(self, name: _Optional[str] = ..., fencing_token: _Optional[int] = ..., waiter_number: _Optional[int] = ...) -> None: ...

class ForceReleaseResponse(_message.Message):
    __slots__ = ("released", "fencing_token")
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    released: bool
    fencing_token: int
    def __init__(self, released: bool = ..., fencing_token: _Optional[int] = ...) -> None: ...

class RequestReleaseRequest(_message.Message):
    __slots__ = ("name", "fencing_token", "reason", "within")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    fencing_token: int
    reason: str
    within: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., fencing_token: _Optional[int] = ..., reason: _Optional[str] = ..., within: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RequestReleaseResponse(_message.Message):
    __slots__ = ("asked_count",)
    ASKED_COUNT_FIELD_NUMBER: _ClassVar[int]
    asked_count: int
    def __init__(self, asked_count: _Optional[int] = ...) -> None: ...

class EndSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class EndSessionResponse(_message.Message):
    __slots__ = ("ended", "session_count", "hold_count", "waiter_count")
    ENDED_FIELD_NUMBER: _ClassVar[int]
    SESSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    ended: bool
    session_count: int
    hold_count: int
    waiter_count: int
    def __init__(self, ended: bool = ..., session_count: _Optional[int] = ..., hold_count: _Optional[int] = ..., waiter_count: _Optional[int] = ...) -> None: ...

class CheckTokenRequest(_message.Message):
    __slots__ = ("name", "fencing_token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    fencing_token: int
    def __init__(self, name: _Optional[str] = ..., fencing_token: _Optional[int] = ...) -> None: ...

class CheckTokenResponse(_message.Message):
    __slots__ = ("current", "newest_token")
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    NEWEST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    current: bool
    newest_token: int
    def __init__(self, current: bool = ..., newest_token: _Optional[int] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("coordinator", "version", "uptime", "serving", "reason", "store", "store_state", "session_count", "hold_count", "waiter_count", "time", "draining", "identity", "permissions", "min_ttl", "default_ttl", "max_ttl", "key_prefix", "min_replicas", "limits", "certificates")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    STORE_STATE_FIELD_NUMBER: _ClassVar[int]
    SESSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    MIN_TTL_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_TTL_FIELD_NUMBER: _ClassVar[int]
    MAX_TTL_FIELD_NUMBER: _ClassVar[int]
    KEY_PREFIX_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    version: str
    uptime: _duration_pb2.Duration
    serving: bool
    reason: str
    store: str
    store_state: StoreState
    session_count: int
    hold_count: int
    waiter_count: int
    time: _timestamp_pb2.Timestamp
    draining: bool
    identity: str
    permissions: _containers.RepeatedCompositeFieldContainer[PermissionView]
    min_ttl: _duration_pb2.Duration
    default_ttl: _duration_pb2.Duration
    max_ttl: _duration_pb2.Duration
    key_prefix: str
    min_replicas: int
    limits: _containers.RepeatedCompositeFieldContainer[LimitView]
    certificates: _containers.RepeatedCompositeFieldContainer[CertificateView]
    def __init__(self, coordinator: _Optional[str] = ..., version: _Optional[str] = ..., uptime: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., serving: bool = ..., reason: _Optional[str] = ..., store: _Optional[str] = ..., store_state: _Optional[_Union[StoreState, str]] = ..., session_count: _Optional[int] = ..., hold_count: _Optional[int] = ..., waiter_count: _Optional[int] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., draining: bool = ..., identity: _Optional[str] = ..., permissions: _Optional[_Iterable[_Union[PermissionView, _Mapping]]] = ..., min_ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., default_ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max_ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., key_prefix: _Optional[str] = ..., min_replicas: _Optional[int] = ..., limits: _Optional[_Iterable[_Union[LimitView, _Mapping]]] = ..., certificates: _Optional[_Iterable[_Union[CertificateView, _Mapping]]] = ...) -> None: ...

class PermissionView(_message.Message):
    __slots__ = ("permission", "locks", "elections")
    PERMISSION_FIELD_NUMBER: _ClassVar[int]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    ELECTIONS_FIELD_NUMBER: _ClassVar[int]
    permission: str
    locks: _containers.RepeatedScalarFieldContainer[str]
    elections: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, permission: _Optional[str] = ..., locks: _Optional[_Iterable[str]] = ..., elections: _Optional[_Iterable[str]] = ...) -> None: ...

class LimitView(_message.Message):
    __slots__ = ("name", "used", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    used: int
    limit: int
    def __init__(self, name: _Optional[str] = ..., used: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class CertificateView(_message.Message):
    __slots__ = ("purpose", "expires")
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    purpose: str
    expires: _timestamp_pb2.Timestamp
    def __init__(self, purpose: _Optional[str] = ..., expires: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
