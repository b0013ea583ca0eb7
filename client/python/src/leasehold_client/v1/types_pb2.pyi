from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LockMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOCK_MODE_UNSPECIFIED: _ClassVar[LockMode]
    LOCK_MODE_EXCLUSIVE: _ClassVar[LockMode]
    LOCK_MODE_SHARED: _ClassVar[LockMode]
    LOCK_MODE_SEMAPHORE: _ClassVar[LockMode]

class AcquireOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACQUIRE_OUTCOME_UNSPECIFIED: _ClassVar[AcquireOutcome]
    ACQUIRE_OUTCOME_GRANTED: _ClassVar[AcquireOutcome]
    ACQUIRE_OUTCOME_BUSY: _ClassVar[AcquireOutcome]
    ACQUIRE_OUTCOME_TIMED_OUT: _ClassVar[AcquireOutcome]
    ACQUIRE_OUTCOME_CANCELLED: _ClassVar[AcquireOutcome]

class LostReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOST_REASON_UNSPECIFIED: _ClassVar[LostReason]
    LOST_REASON_EXPIRED: _ClassVar[LostReason]
    LOST_REASON_DELETED: _ClassVar[LostReason]
    LOST_REASON_TAKEN: _ClassVar[LostReason]
    LOST_REASON_FORCED: _ClassVar[LostReason]
    LOST_REASON_RESUMED: _ClassVar[LostReason]
    LOST_REASON_PERMISSION_REVOKED: _ClassVar[LostReason]
    LOST_REASON_MAX_HOLD: _ClassVar[LostReason]
LOCK_MODE_UNSPECIFIED: LockMode
LOCK_MODE_EXCLUSIVE: LockMode
LOCK_MODE_SHARED: LockMode
LOCK_MODE_SEMAPHORE: LockMode
ACQUIRE_OUTCOME_UNSPECIFIED: AcquireOutcome
ACQUIRE_OUTCOME_GRANTED: AcquireOutcome
ACQUIRE_OUTCOME_BUSY: AcquireOutcome
ACQUIRE_OUTCOME_TIMED_OUT: AcquireOutcome
ACQUIRE_OUTCOME_CANCELLED: AcquireOutcome
LOST_REASON_UNSPECIFIED: LostReason
LOST_REASON_EXPIRED: LostReason
LOST_REASON_DELETED: LostReason
LOST_REASON_TAKEN: LostReason
LOST_REASON_FORCED: LostReason
LOST_REASON_RESUMED: LostReason
LOST_REASON_PERMISSION_REVOKED: LostReason
LOST_REASON_MAX_HOLD: LostReason

class Holder(_message.Message):
    __slots__ = ("session_id", "client_name", "coordinator", "fencing_token", "acquired_at", "ttl", "value", "hold_count", "foreign", "permits", "actor", "max_hold", "peer")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ACQUIRED_AT_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    FOREIGN_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    MAX_HOLD_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    client_name: str
    coordinator: str
    fencing_token: int
    acquired_at: _timestamp_pb2.Timestamp
    ttl: _duration_pb2.Duration
    value: bytes
    hold_count: int
    foreign: bool
    permits: int
    actor: int
    max_hold: _duration_pb2.Duration
    peer: str
    def __init__(self, session_id: _Optional[str] = ..., client_name: _Optional[str] = ..., coordinator: _Optional[str] = ..., fencing_token: _Optional[int] = ..., acquired_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., value: _Optional[bytes] = ..., hold_count: _Optional[int] = ..., foreign: bool = ..., permits: _Optional[int] = ..., actor: _Optional[int] = ..., max_hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., peer: _Optional[str] = ...) -> None: ...

class Waiter(_message.Message):
    __slots__ = ("session_id", "client_name", "coordinator", "waiting_since", "position", "mode", "permits", "actor", "number", "permits_at_least", "peer")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    WAITING_SINCE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PERMITS_AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    client_name: str
    coordinator: str
    waiting_since: _timestamp_pb2.Timestamp
    position: int
    mode: LockMode
    permits: int
    actor: int
    number: int
    permits_at_least: int
    peer: str
    def __init__(self, session_id: _Optional[str] = ..., client_name: _Optional[str] = ..., coordinator: _Optional[str] = ..., waiting_since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., position: _Optional[int] = ..., mode: _Optional[_Union[LockMode, str]] = ..., permits: _Optional[int] = ..., actor: _Optional[int] = ..., number: _Optional[int] = ..., permits_at_least: _Optional[int] = ..., peer: _Optional[str] = ...) -> None: ...

class LockView(_message.Message):
    __slots__ = ("name", "mode", "holders", "waiters", "waiter_count", "fencing_token", "closed_for", "lock_delay", "holder_count", "limit", "permits_taken", "limit_revision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FOR_FIELD_NUMBER: _ClassVar[int]
    LOCK_DELAY_FIELD_NUMBER: _ClassVar[int]
    HOLDER_COUNT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PERMITS_TAKEN_FIELD_NUMBER: _ClassVar[int]
    LIMIT_REVISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: LockMode
    holders: _containers.RepeatedCompositeFieldContainer[Holder]
    waiters: _containers.RepeatedCompositeFieldContainer[Waiter]
    waiter_count: int
    fencing_token: int
    closed_for: _duration_pb2.Duration
    lock_delay: _duration_pb2.Duration
    holder_count: int
    limit: int
    permits_taken: int
    limit_revision: int
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[LockMode, str]] = ..., holders: _Optional[_Iterable[_Union[Holder, _Mapping]]] = ..., waiters: _Optional[_Iterable[_Union[Waiter, _Mapping]]] = ..., waiter_count: _Optional[int] = ..., fencing_token: _Optional[int] = ..., closed_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., lock_delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., holder_count: _Optional[int] = ..., limit: _Optional[int] = ..., permits_taken: _Optional[int] = ..., limit_revision: _Optional[int] = ...) -> None: ...
