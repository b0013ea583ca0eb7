from google.protobuf import duration_pb2 as _duration_pb2
from leasehold_client.v1 import session_pb2 as _session_pb2
from leasehold_client.v1 import types_pb2 as _types_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AcquireRequest(_message.Message):
    __slots__ = ("name", "ttl", "wait", "value", "client_name", "mode", "lock_delay", "permits", "limit", "limit_revision", "permits_at_least", "request_key")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    LOCK_DELAY_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_REVISION_FIELD_NUMBER: _ClassVar[int]
    PERMITS_AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    REQUEST_KEY_FIELD_NUMBER: _ClassVar[int]
    name: str
    ttl: _duration_pb2.Duration
    wait: _duration_pb2.Duration
    value: bytes
    client_name: str
    mode: _types_pb2.LockMode
    lock_delay: _duration_pb2.Duration
    permits: int
    limit: int
    limit_revision: int
    permits_at_least: int
    request_key: str
    def __init__(self, name: _Optional[str] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., value: _Optional[bytes] = ..., client_name: _Optional[str] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., lock_delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., permits: _Optional[int] = ..., limit: _Optional[int] = ..., limit_revision: _Optional[int] = ..., permits_at_least: _Optional[int] = ..., request_key: _Optional[str] = ...) -> None: ...

class AcquireResponse(_message.Message):
    __slots__ = ("outcome", "owner_id", "fencing_token", "ttl", "holder", "permits")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    outcome: _types_pb2.AcquireOutcome
    owner_id: bytes
    fencing_token: int
    ttl: _duration_pb2.Duration
    holder: _types_pb2.Holder
    permits: int
    def __init__(self, outcome: _Optional[_Union[_types_pb2.AcquireOutcome, str]] = ..., owner_id: _Optional[bytes] = ..., fencing_token: _Optional[int] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., holder: _Optional[_Union[_types_pb2.Holder, _Mapping]] = ..., permits: _Optional[int] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("name", "owner_id", "ttl")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner_id: bytes
    ttl: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., owner_id: _Optional[bytes] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ("renewed", "ttl")
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    renewed: bool
    ttl: _duration_pb2.Duration
    def __init__(self, renewed: bool = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("name", "owner_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner_id: bytes
    def __init__(self, name: _Optional[str] = ..., owner_id: _Optional[bytes] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: bool
    def __init__(self, released: bool = ...) -> None: ...
