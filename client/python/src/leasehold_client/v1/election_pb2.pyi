from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from leasehold_client.v1 import session_pb2 as _session_pb2
from leasehold_client.v1 import types_pb2 as _types_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CampaignRequest(_message.Message):
    __slots__ = ("campaign", "proclaim", "heartbeat", "resign")
    CAMPAIGN_FIELD_NUMBER: _ClassVar[int]
    PROCLAIM_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    RESIGN_FIELD_NUMBER: _ClassVar[int]
    campaign: CampaignOpen
    proclaim: CampaignProclaim
    heartbeat: _session_pb2.SessionHeartbeat
    resign: CampaignResign
    def __init__(self, campaign: _Optional[_Union[CampaignOpen, _Mapping]] = ..., proclaim: _Optional[_Union[CampaignProclaim, _Mapping]] = ..., heartbeat: _Optional[_Union[_session_pb2.SessionHeartbeat, _Mapping]] = ..., resign: _Optional[_Union[CampaignResign, _Mapping]] = ...) -> None: ...

class CampaignResponse(_message.Message):
    __slots__ = ("campaigning", "elected", "proclaimed", "heartbeat", "lost", "resigned", "draining", "error", "release_requested")
    CAMPAIGNING_FIELD_NUMBER: _ClassVar[int]
    ELECTED_FIELD_NUMBER: _ClassVar[int]
    PROCLAIMED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    RESIGNED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RELEASE_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    campaigning: Campaigning
    elected: Elected
    proclaimed: CampaignProclaimed
    heartbeat: _session_pb2.SessionHeartbeatAck
    lost: CampaignLost
    resigned: CampaignResigned
    draining: _session_pb2.SessionDraining
    error: _session_pb2.SessionFailure
    release_requested: CampaignReleaseRequested
    def __init__(self, campaigning: _Optional[_Union[Campaigning, _Mapping]] = ..., elected: _Optional[_Union[Elected, _Mapping]] = ..., proclaimed: _Optional[_Union[CampaignProclaimed, _Mapping]] = ..., heartbeat: _Optional[_Union[_session_pb2.SessionHeartbeatAck, _Mapping]] = ..., lost: _Optional[_Union[CampaignLost, _Mapping]] = ..., resigned: _Optional[_Union[CampaignResigned, _Mapping]] = ..., draining: _Optional[_Union[_session_pb2.SessionDraining, _Mapping]] = ..., error: _Optional[_Union[_session_pb2.SessionFailure, _Mapping]] = ..., release_requested: _Optional[_Union[CampaignReleaseRequested, _Mapping]] = ...) -> None: ...

class CampaignOpen(_message.Message):
    __slots__ = ("election", "value", "ttl", "client_name")
    ELECTION_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    election: str
    value: bytes
    ttl: _duration_pb2.Duration
    client_name: str
    def __init__(self, election: _Optional[str] = ..., value: _Optional[bytes] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., client_name: _Optional[str] = ...) -> None: ...

class Campaigning(_message.Message):
    __slots__ = ("position", "ttl", "heartbeat_interval", "session_id", "coordinator")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    position: int
    ttl: _duration_pb2.Duration
    heartbeat_interval: _duration_pb2.Duration
    session_id: str
    coordinator: str
    def __init__(self, position: _Optional[int] = ..., ttl: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., heartbeat_interval: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., session_id: _Optional[str] = ..., coordinator: _Optional[str] = ...) -> None: ...

class Elected(_message.Message):
    __slots__ = ("fencing_token", "valid_for", "acked_heartbeat")
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    ACKED_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    fencing_token: int
    valid_for: _duration_pb2.Duration
    acked_heartbeat: int
    def __init__(self, fencing_token: _Optional[int] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., acked_heartbeat: _Optional[int] = ...) -> None: ...

class CampaignProclaim(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    def __init__(self, value: _Optional[bytes] = ...) -> None: ...

class CampaignProclaimed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CampaignResign(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CampaignResigned(_message.Message):
    __slots__ = ("led",)
    LED_FIELD_NUMBER: _ClassVar[int]
    led: bool
    def __init__(self, led: bool = ...) -> None: ...

class CampaignLost(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: _types_pb2.LostReason
    def __init__(self, reason: _Optional[_Union[_types_pb2.LostReason, str]] = ...) -> None: ...

class CampaignReleaseRequested(_message.Message):
    __slots__ = ("reason", "within")
    REASON_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    reason: str
    within: _duration_pb2.Duration
    def __init__(self, reason: _Optional[str] = ..., within: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LeaderRequest(_message.Message):
    __slots__ = ("election",)
    ELECTION_FIELD_NUMBER: _ClassVar[int]
    election: str
    def __init__(self, election: _Optional[str] = ...) -> None: ...

class LeaderResponse(_message.Message):
    __slots__ = ("leader",)
    LEADER_FIELD_NUMBER: _ClassVar[int]
    leader: Leader
    def __init__(self, leader: _Optional[_Union[Leader, _Mapping]] = ...) -> None: ...

class Leader(_message.Message):
    __slots__ = ("fencing_token", "value", "client_name", "session_id", "coordinator", "elected_at")
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    ELECTED_AT_FIELD_NUMBER: _ClassVar[int]
    fencing_token: int
    value: bytes
    client_name: str
    session_id: str
    coordinator: str
    elected_at: _timestamp_pb2.Timestamp
    def __init__(self, fencing_token: _Optional[int] = ..., value: _Optional[bytes] = ..., client_name: _Optional[str] = ..., session_id: _Optional[str] = ..., coordinator: _Optional[str] = ..., elected_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ObserveRequest(_message.Message):
    __slots__ = ("election",)
    ELECTION_FIELD_NUMBER: _ClassVar[int]
    election: str
    def __init__(self, election: _Optional[str] = ...) -> None: ...

class ObserveResponse(_message.Message):
    __slots__ = ("leader", "skipped")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    leader: Leader
    skipped: bool
    def __init__(self, leader: _Optional[_Union[Leader, _Mapping]] = ..., skipped: bool = ...) -> None: ...
