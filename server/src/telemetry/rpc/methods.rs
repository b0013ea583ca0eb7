//! Names of the served methods. Calls to other methods count as unknown, so that callers can't create series.

/// Kind of a method, which decides how it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One answer. Its duration is measured.
    Unary,
    /// A stream, which lasts as long as its client wants.
    Stream,
}

/// A method of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// The service's full name.
    pub service: &'static str,
    /// The method's name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
}

impl Method {
    /// Returns the method that a request's path names, or the one that stands for all others.
    #[must_use]
    pub fn at(path: &str) -> Self {
        METHODS[place(path)]
    }
}

const LOCKS: &str = "leasehold.v1.LockService";
const ELECTIONS: &str = "leasehold.v1.ElectionService";
const ADMIN: &str = "leasehold.v1.AdminService";
const HEALTH: &str = "grpc.health.v1.Health";
const UNKNOWN: &str = "unknown";

/// Every method, and at the end the one that stands for all others.
pub const METHODS: [Method; 19] = [
    stream(LOCKS, "Session"),
    unary(LOCKS, "Acquire"),
    unary(LOCKS, "Renew"),
    unary(LOCKS, "Release"),
    stream(ELECTIONS, "Campaign"),
    unary(ELECTIONS, "Leader"),
    stream(ELECTIONS, "Observe"),
    unary(ADMIN, "ListLocks"),
    unary(ADMIN, "GetLock"),
    unary(ADMIN, "ListSessions"),
    stream(ADMIN, "WatchLocks"),
    unary(ADMIN, "ForceRelease"),
    unary(ADMIN, "CheckToken"),
    unary(ADMIN, "GetStatus"),
    unary(HEALTH, "Check"),
    stream(HEALTH, "Watch"),
    stream(
        "grpc.reflection.v1.ServerReflection",
        "ServerReflectionInfo",
    ),
    stream(
        "grpc.reflection.v1alpha.ServerReflection",
        "ServerReflectionInfo",
    ),
    unary(UNKNOWN, UNKNOWN),
];

const fn unary(service: &'static str, name: &'static str) -> Method {
    Method {
        service,
        name,
        kind: Kind::Unary,
    }
}

const fn stream(service: &'static str, name: &'static str) -> Method {
    Method {
        service,
        name,
        kind: Kind::Stream,
    }
}

/// Returns the place in [`METHODS`] of the method that a request's path names.
pub(super) fn place(path: &str) -> usize {
    let named = path
        .strip_prefix('/')
        .and_then(|path| path.split_once('/'))
        .and_then(|(service, name)| {
            METHODS
                .iter()
                .position(|method| method.name == name && method.service == service)
        });
    named.unwrap_or(METHODS.len() - 1)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn each_method_that_is_served_has_a_place() {
        let reflection = [
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ];
        let served = [
            leasehold_proto::v1::DESCRIPTORS,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
        ];
        let mut found = 0;
        for set in served.into_iter().chain(reflection) {
            for file in FileDescriptorSet::decode(set).unwrap().file {
                for service in &file.service {
                    for method in &service.method {
                        let name = format!("{}.{}", file.package(), service.name());
                        let path = format!("/{name}/{}", method.name());
                        let known = METHODS[place(&path)];
                        assert_eq!((known.service, known.name), (&*name, method.name()));
                        let streams = method.client_streaming() || method.server_streaming();
                        assert_eq!(known.kind == Kind::Stream, streams, "{path}");
                        found += 1;
                    }
                }
            }
        }
        assert_eq!(found, METHODS.len() - 1);
    }

    #[test]
    fn what_is_not_served_is_unknown() {
        for path in ["", "/", "/a/b", "leasehold.v1.LockService/Acquire", "/x"] {
            assert_eq!(METHODS[place(path)].service, UNKNOWN, "{path}");
        }
    }
}
