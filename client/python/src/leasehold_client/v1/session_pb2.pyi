from google.protobuf import duration_pb2 as _duration_pb2
from leasehold_client.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SessionRequest(_message.Message):
    __slots__ = ("request_id", "open", "acquire", "cancel", "release", "set_value", "heartbeat", "close", "downgrade", "reduce", "traceparent")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    ACQUIRE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    SET_VALUE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    DOWNGRADE_FIELD_NUMBER: _ClassVar[int]
    REDUCE_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    open: SessionOpen
    acquire: SessionAcquire
    cancel: SessionCancel
    release: SessionRelease
    set_value: SessionSetValue
    heartbeat: SessionHeartbeat
    close: SessionClose
    downgrade: SessionDowngrade
    reduce: SessionReduce
    traceparent: str
    def __init__(self, request_id: _Optional[int] = ..., open: _Optional[_Union[SessionOpen, _Mapping]] = ..., acquire: _Optional[_Union[SessionAcquire, _Mapping]] = ..., cancel: _Optional[_Union[SessionCancel, _Mapping]] = ..., release: _Optional[_Union[SessionRelease, _Mapping]] = ..., set_value: _Optional[_Union[SessionSetValue, _Mapping]] = ..., heartbeat: _Optional[_Union[SessionHeartbeat, _Mapping]] = ..., close: _Optional[_Union[SessionClose, _Mapping]] = ..., downgrade: _Optional[_Union[SessionDowngrade, _Mapping]] = ..., reduce: _Optional[_Union[SessionReduce, _Mapping]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("request_id", "opened", "queued", "granted", "not_granted", "released", "value_set", "heartbeat", "lost", "draining", "closed", "error", "downgraded", "reduced", "release_requested")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    NOT_GRANTED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    VALUE_SET_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DOWNGRADED_FIELD_NUMBER: _ClassVar[int]
    REDUCED_FIELD_NUMBER: _ClassVar[int]
    RELEASE_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    opened: SessionOpened
    queued: SessionQueued
    granted: SessionGranted
    not_granted: SessionNotGranted
    released: SessionReleased
    value_set: SessionValueSet
    heartbeat: SessionHeartbeatAck
    lost: SessionLost
    draining: SessionDraining
    closed: SessionClosed
    error: SessionFailure
    downgraded: SessionDowngraded
    reduced: SessionReduced
    release_requested: SessionReleaseRequested
    def __init__(self, request_id: _Optional[int] = ..., opened: _Optional[_Union[SessionOpened, _Mapping]] = ..., queued: _Optional[_Union[SessionQueued, _Mapping]] = ..., granted: _Optional[_Union[SessionGranted, _Mapping]] = ..., not_granted: _Optional[_Union[SessionNotGranted, _Mapping]] = ..., released: _Optional[_Union[SessionReleased, _Mapping]] = ..., value_set: _Optional[_Union[SessionValueSet, _Mapping]] = ..., heartbeat: _Optional[_Union[SessionHeartbeatAck, _Mapping]] = ..., lost: _Optional[_Union[SessionLost, _Mapping]] = ..., draining: _Optional[_Union[SessionDraining, _Mapping]] = ..., closed: _Optional[_Union[SessionClosed, _Mapping]] = ..., error: _Optional[_Union[SessionFailure, _Mapping]] = ..., downgraded: _Optional[_Union[SessionDowngraded, _Mapping]] = ..., reduced: _Optional[_Union[SessionReduced, _Mapping]] = ..., release_requested: _Optional[_Union[SessionReleaseRequested, _Mapping]] = ...) -> None: ...

class SessionOpen(_message.Message):
    __slots__ = ("client_name", "ttl", "metadata", "disconnect_grace", "resume", "more")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    DISCONNECT_GRACE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    client_name: str
    ttl: _duration_pb2.Duration
    metadata: _containers.ScalarMap[str, str]
    disconnect_grace: _duration_pb2.Duration
    resume: _containers.RepeatedCompositeFieldContainer[SessionResume]
    more: bool
    def __init__(self, client_name: _Optional[str] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., disconnect_grace: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., resume: _Optional[_Iterable[_Union[SessionResume, _Mapping]]] = ..., more: bool = ...) -> None: ...

class SessionResume(_message.Message):
    __slots__ = ("name", "owner_id", "tried_owner_ids", "next_owner_id", "hold", "wait")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    TRIED_OWNER_IDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner_id: bytes
    tried_owner_ids: _containers.RepeatedScalarFieldContainer[bytes]
    next_owner_id: bytes
    hold: ResumedHold
    wait: ResumedWait
    def __init__(self, name: _Optional[str] = ..., owner_id: _Optional[bytes] = ..., tried_owner_ids: _Optional[_Iterable[bytes]] = ..., next_owner_id: _Optional[bytes] = ..., hold: _Optional[_Union[ResumedHold, _Mapping]] = ..., wait: _Optional[_Union[ResumedWait, _Mapping]] = ...) -> None: ...

class ResumedHold(_message.Message):
    __slots__ = ("fencing_token", "hold_count")
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    fencing_token: int
    hold_count: int
    def __init__(self, fencing_token: _Optional[int] = ..., hold_count: _Optional[int] = ...) -> None: ...

class ResumedWait(_message.Message):
    __slots__ = ("acquire_request_id", "wait")
    ACQUIRE_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    acquire_request_id: int
    wait: _duration_pb2.Duration
    def __init__(self, acquire_request_id: _Optional[int] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SessionAcquire(_message.Message):
    __slots__ = ("name", "mode", "wait", "value", "lock_delay", "names", "permits", "limit", "actor", "reentrant", "max_hold", "limit_revision", "locks", "permits_at_least")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LOCK_DELAY_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    REENTRANT_FIELD_NUMBER: _ClassVar[int]
    MAX_HOLD_FIELD_NUMBER: _ClassVar[int]
    LIMIT_REVISION_FIELD_NUMBER: _ClassVar[int]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    PERMITS_AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: _types_pb2.LockMode
    wait: _duration_pb2.Duration
    value: bytes
    lock_delay: _duration_pb2.Duration
    names: _containers.RepeatedScalarFieldContainer[str]
    permits: int
    limit: int
    actor: int
    reentrant: bool
    max_hold: _duration_pb2.Duration
    limit_revision: int
    locks: _containers.RepeatedCompositeFieldContainer[LockSpec]
    permits_at_least: int
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., value: _Optional[bytes] = ..., lock_delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., names: _Optional[_Iterable[str]] = ..., permits: _Optional[int] = ..., limit: _Optional[int] = ..., actor: _Optional[int] = ..., reentrant: bool = ..., max_hold: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., limit_revision: _Optional[int] = ..., locks: _Optional[_Iterable[_Union[LockSpec, _Mapping]]] = ..., permits_at_least: _Optional[int] = ...) -> None: ...

class LockSpec(_message.Message):
    __slots__ = ("name", "mode", "permits", "limit", "limit_revision", "permits_at_least")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_REVISION_FIELD_NUMBER: _ClassVar[int]
    PERMITS_AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: _types_pb2.LockMode
    permits: int
    limit: int
    limit_revision: int
    permits_at_least: int
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., permits: _Optional[int] = ..., limit: _Optional[int] = ..., limit_revision: _Optional[int] = ..., permits_at_least: _Optional[int] = ...) -> None: ...

class SessionCancel(_message.Message):
    __slots__ = ("acquire_request_id",)
    ACQUIRE_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    acquire_request_id: int
    def __init__(self, acquire_request_id: _Optional[int] = ...) -> None: ...

class SessionRelease(_message.Message):
    __slots__ = ("name", "owner_id", "expired")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner_id: bytes
    expired: bool
    def __init__(self, name: _Optional[str] = ..., owner_id: _Optional[bytes] = ..., expired: bool = ...) -> None: ...

class SessionSetValue(_message.Message):
    __slots__ = ("name", "owner_id", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner_id: bytes
    value: bytes
    def __init__(self, name: _Optional[str] = ..., owner_id: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class SessionDowngrade(_message.Message):
    __slots__ = ("name", "owner_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner_id: bytes
    def __init__(self, name: _Optional[str] = ..., owner_id: _Optional[bytes] = ...) -> None: ...

class SessionReduce(_message.Message):
    __slots__ = ("name", "owner_id", "permits")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner_id: bytes
    permits: int
    def __init__(self, name: _Optional[str] = ..., owner_id: _Optional[bytes] = ..., permits: _Optional[int] = ...) -> None: ...

class SessionHeartbeat(_message.Message):
    __slots__ = ("sequence",)
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    def __init__(self, sequence: _Optional[int] = ...) -> None: ...

class SessionClose(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SessionOpened(_message.Message):
    __slots__ = ("session_id", "ttl", "heartbeat_interval", "coordinator", "resumed", "refused", "valid_for", "more")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    ttl: _duration_pb2.Duration
    heartbeat_interval: _duration_pb2.Duration
    coordinator: str
    resumed: _containers.RepeatedCompositeFieldContainer[ResumedLock]
    refused: _containers.RepeatedCompositeFieldContainer[LostLock]
    valid_for: _duration_pb2.Duration
    more: bool
    def __init__(self, session_id: _Optional[str] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., heartbeat_interval: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., coordinator: _Optional[str] = ..., resumed: _Optional[_Iterable[_Union[ResumedLock, _Mapping]]] = ..., refused: _Optional[_Iterable[_Union[LostLock, _Mapping]]] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., more: bool = ...) -> None: ...

class ResumedLock(_message.Message):
    __slots__ = ("name", "owner_id", "hold", "position", "ends_in", "permits")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    ENDS_IN_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner_id: bytes
    hold: ResumedHold
    position: int
    ends_in: _duration_pb2.Duration
    permits: int
    def __init__(self, name: _Optional[str] = ..., owner_id: _Optional[bytes] = ..., hold: _Optional[_Union[ResumedHold, _Mapping]] = ..., position: _Optional[int] = ..., ends_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., permits: _Optional[int] = ...) -> None: ...

class SessionQueued(_message.Message):
    __slots__ = ("position", "ticket")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    position: int
    ticket: bytes
    def __init__(self, position: _Optional[int] = ..., ticket: _Optional[bytes] = ...) -> None: ...

class GrantedLock(_message.Message):
    __slots__ = ("name", "owner_id", "fencing_token", "hold_count", "permits")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner_id: bytes
    fencing_token: int
    hold_count: int
    permits: int
    def __init__(self, name: _Optional[str] = ..., owner_id: _Optional[bytes] = ..., fencing_token: _Optional[int] = ..., hold_count: _Optional[int] = ..., permits: _Optional[int] = ...) -> None: ...

class SessionGranted(_message.Message):
    __slots__ = ("locks", "valid_for", "acked_heartbeat", "bounded")
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    ACKED_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    BOUNDED_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[GrantedLock]
    valid_for: _duration_pb2.Duration
    acked_heartbeat: int
    bounded: _containers.RepeatedCompositeFieldContainer[BoundedLock]
    def __init__(self, locks: _Optional[_Iterable[_Union[GrantedLock, _Mapping]]] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., acked_heartbeat: _Optional[int] = ..., bounded: _Optional[_Iterable[_Union[BoundedLock, _Mapping]]] = ...) -> None: ...

class BoundedLock(_message.Message):
    __slots__ = ("owner_id", "ends_in")
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    ENDS_IN_FIELD_NUMBER: _ClassVar[int]
    owner_id: bytes
    ends_in: _duration_pb2.Duration
    def __init__(self, owner_id: _Optional[bytes] = ..., ends_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SessionNotGranted(_message.Message):
    __slots__ = ("outcome", "holder")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    outcome: _types_pb2.AcquireOutcome
    holder: _types_pb2.Holder
    def __init__(self, outcome: _Optional[_Union[_types_pb2.AcquireOutcome, str]] = ..., holder: _Optional[_Union[_types_pb2.Holder, _Mapping]] = ...) -> None: ...

class SessionReleased(_message.Message):
    __slots__ = ("released", "hold_count")
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    released: bool
    hold_count: int
    def __init__(self, released: bool = ..., hold_count: _Optional[int] = ...) -> None: ...

class SessionDowngraded(_message.Message):
    __slots__ = ("downgraded",)
    DOWNGRADED_FIELD_NUMBER: _ClassVar[int]
    downgraded: bool
    def __init__(self, downgraded: bool = ...) -> None: ...

class SessionReduced(_message.Message):
    __slots__ = ("reduced",)
    REDUCED_FIELD_NUMBER: _ClassVar[int]
    reduced: bool
    def __init__(self, reduced: bool = ...) -> None: ...

class SessionValueSet(_message.Message):
    __slots__ = ("value_set",)
    VALUE_SET_FIELD_NUMBER: _ClassVar[int]
    value_set: bool
    def __init__(self, value_set: bool = ...) -> None: ...

class SessionHeartbeatAck(_message.Message):
    __slots__ = ("acked_heartbeat", "valid_for", "next_within")
    ACKED_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    NEXT_WITHIN_FIELD_NUMBER: _ClassVar[int]
    acked_heartbeat: int
    valid_for: _duration_pb2.Duration
    next_within: _duration_pb2.Duration
    def __init__(self, acked_heartbeat: _Optional[int] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., next_within: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LostLock(_message.Message):
    __slots__ = ("name", "owner_id", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner_id: bytes
    reason: _types_pb2.LostReason
    def __init__(self, name: _Optional[str] = ..., owner_id: _Optional[bytes] = ..., reason: _Optional[_Union[_types_pb2.LostReason, str]] = ...) -> None: ...

class SessionLost(_message.Message):
    __slots__ = ("locks",)
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[LostLock]
    def __init__(self, locks: _Optional[_Iterable[_Union[LostLock, _Mapping]]] = ...) -> None: ...

class SessionReleaseRequested(_message.Message):
    __slots__ = ("name", "owner_id", "reason", "within")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner_id: bytes
    reason: str
    within: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., owner_id: _Optional[bytes] = ..., reason: _Optional[str] = ..., within: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SessionDraining(_message.Message):
    __slots__ = ("deadline", "keeps_serving")
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    KEEPS_SERVING_FIELD_NUMBER: _ClassVar[int]
    deadline: _duration_pb2.Duration
    keeps_serving: bool
    def __init__(self, deadline: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., keeps_serving: bool = ...) -> None: ...

class SessionClosed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SessionFailure(_message.Message):
    __slots__ = ("code", "reason", "message", "field_violations", "metadata", "retry_after")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELD_VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: str
    message: str
    field_violations: _containers.RepeatedCompositeFieldContainer[FieldViolation]
    metadata: _containers.ScalarMap[str, str]
    retry_after: _duration_pb2.Duration
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., field_violations: _Optional[_Iterable[_Union[FieldViolation, _Mapping]]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class FieldViolation(_message.Message):
    __slots__ = ("field", "description")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    field: str
    description: str
    def __init__(self, field: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...
