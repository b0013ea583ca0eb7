//! Served methods, by their paths. Calls to other methods count as one unknown method, so that callers can't create series.

/// Kind of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One message each way.
    Unary,
    /// One message from the client, and a stream of messages from the server.
    ServerStream,
    /// A stream of messages each way.
    ClientStream,
}

/// Method of a service.
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

    /// Returns whether it is one of Leasehold's own, rather than of health or reflection, or unknown.
    #[must_use]
    pub fn is_ours(self) -> bool {
        matches!(self.service, LOCKS | ELECTIONS | ADMIN)
    }

    /// Returns whether it is for orchestrators, which have no identity. Health reveals nothing about locks.
    #[must_use]
    pub fn is_health(self) -> bool {
        self.service == HEALTH
    }

    /// Returns whether a limit may refuse it. A client may always keep its lock, or release it.
    #[must_use]
    pub fn is_limited(self) -> bool {
        !(self.service == LOCKS && matches!(self.name, "Renew" | "Release"))
    }
}

const LOCKS: &str = "leasehold.v1.LockService";
const ELECTIONS: &str = "leasehold.v1.ElectionService";
const ADMIN: &str = "leasehold.v1.AdminService";
const HEALTH: &str = "grpc.health.v1.Health";
const UNKNOWN: &str = "unknown";

/// Every method, and at the end the one that stands for all others.
pub const METHODS: [Method; 21] = {
    use Kind::{ClientStream, ServerStream, Unary};
    [
        method(LOCKS, "Session", ClientStream),
        method(LOCKS, "Acquire", Unary),
        method(LOCKS, "Renew", Unary),
        method(LOCKS, "Release", Unary),
        method(ELECTIONS, "Campaign", ClientStream),
        method(ELECTIONS, "Leader", Unary),
        method(ELECTIONS, "Observe", ServerStream),
        method(ADMIN, "ListLocks", Unary),
        method(ADMIN, "GetLock", Unary),
        method(ADMIN, "ListSessions", Unary),
        method(ADMIN, "WatchLocks", ServerStream),
        method(ADMIN, "ForceRelease", Unary),
        method(ADMIN, "RequestRelease", Unary),
        method(ADMIN, "EndSession", Unary),
        method(ADMIN, "CheckToken", Unary),
        method(ADMIN, "GetStatus", Unary),
        method(HEALTH, "Check", Unary),
        method(HEALTH, "Watch", ServerStream),
        method(
            "grpc.reflection.v1.ServerReflection",
            "ServerReflectionInfo",
            ClientStream,
        ),
        method(
            "grpc.reflection.v1alpha.ServerReflection",
            "ServerReflectionInfo",
            ClientStream,
        ),
        method(UNKNOWN, UNKNOWN, Unary),
    ]
};

const fn method(service: &'static str, name: &'static str, kind: Kind) -> Method {
    Method {
        service,
        name,
        kind,
    }
}

/// Returns the place in [`METHODS`] of the method that a request's path names.
pub(crate) fn place(path: &str) -> usize {
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
                        let kind = match (method.client_streaming(), method.server_streaming()) {
                            (true, _) => Kind::ClientStream,
                            (false, true) => Kind::ServerStream,
                            (false, false) => Kind::Unary,
                        };
                        assert_eq!(known.kind, kind, "{path}");
                        assert_eq!(known.is_ours(), name.starts_with("leasehold."), "{path}");
                        found += 1;
                    }
                }
            }
        }
        assert_eq!(found, METHODS.len() - 1);
    }

    #[test]
    fn methods_that_are_not_served_are_unknown() {
        for path in ["", "/", "/a/b", "leasehold.v1.LockService/Acquire", "/x"] {
            let method = Method::at(path);
            assert_eq!(method.service, UNKNOWN, "{path}");
            assert!(!method.is_ours() && method.is_limited(), "{path}");
        }
    }

    #[test]
    fn only_what_keeps_or_gives_back_a_lock_is_not_limited() {
        let free = METHODS.iter().filter(|method| !method.is_limited());
        let free: Vec<_> = free.map(|method| method.name).collect();
        assert_eq!(free, ["Renew", "Release"]);
    }
}
