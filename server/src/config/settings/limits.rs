//! Settings of limits on callers.

use super::{Setting, Shape, a_number, number, put};

pub(super) const MAX_CONNECTIONS_PER_ADDRESS: Setting = a_number!(
    "max-connections-per-address",
    max_connections_per_address,
    0,
    1_000_000,
    "Connections of one address at the same time: 1 to 1000000, or 0 for any number. Further ones are closed at once. Clients \
     behind one proxy or address translation share its address."
);

pub(super) const MAX_SESSIONS_PER_IDENTITY: Setting = a_number!(
    "max-sessions-per-identity",
    max_sessions_per_identity,
    1,
    10_000_000,
    "Sessions of one identity at the same time, or of one address where nobody shows who it is: 1 to 10000000."
);

pub(super) const MAX_NAMES_PER_ACQUIRE: Setting = a_number!(
    "max-names-per-acquire",
    max_names_per_acquire,
    1,
    1000,
    "Names that one acquire may be for: 1 to 1000."
);

pub(super) const MAX_WAITERS_PER_NAME: Setting = a_number!(
    "max-waiters-per-name",
    max_waiters_per_name,
    1,
    10_000_000,
    "Acquires that may wait for one name at this coordinator: 1 to 10000000."
);

pub(super) const MAX_WATCHERS: Setting = a_number!(
    "max-watchers",
    max_watchers,
    1,
    1_000_000,
    "Streams that watch locks or observe elections at the same time: 1 to 1000000. Each event is told to each of those that it \
     concerns."
);

pub(super) const MAX_REQUESTS_PER_SECOND: Setting = a_number!(
    "max-requests-per-second",
    max_requests_per_second,
    0,
    1_000_000_000,
    "Requests of one identity in a second, or of one address where nobody shows who it is: calls, streams that are opened, and \
     what is asked on sessions. As many may come at once. Heartbeats, renewals, releases, cancels and closes do not count and are never \
     refused. 1 to 1000000000, or 0 for any number."
);

pub(super) const MAX_FAILED_AUTHENTICATIONS_PER_SECOND: Setting = a_number!(
    "max-failed-authentications-per-second",
    max_failed_authentications_per_second,
    0,
    1_000_000,
    "Calls in a second from one address, or one IPv6 network (/64), that show no valid identity where one is asked for. As many \
     may come at once. Beyond that the coordinator refuses them without checking signatures; callers whose identity it has \
     verified before are still let in. 1 to 1000000, or 0 for any number."
);

pub(super) const MAX_MESSAGE_SIZE: Setting = a_number!(
    "max-message-size",
    max_message_size,
    65_536,
    67_108_864,
    "Bytes of one message of a client: 65536 to 67108864. The largest that clients send, what they resume, have at most 1 MiB. \
     Taken over by a restart only."
);

pub(super) const MAX_PAGE_SIZE: Setting = a_number!(
    "max-page-size",
    max_page_size,
    1,
    10_000,
    "Entries that one page of a listing may have: 1 to 10000."
);
