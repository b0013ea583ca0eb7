//! Requests for locks, in the forms that sessions and worker processes understand.

use leasehold_proto::v1::SessionAcquire;
use leasehold_tests::raw::{exclusive, semaphore, several, shared};

/// A lock, or several, in some mode.
#[derive(Clone, Debug)]
pub(crate) enum Want {
    Exclusive(String),
    Shared(String),
    /// Permits of a limit.
    Permits(String, u32, u32),
    All(Vec<String>),
}

impl Want {
    /// Returns it as a session's request.
    pub(crate) fn acquire(&self) -> SessionAcquire {
        match self {
            Self::Exclusive(name) => exclusive(name),
            Self::Shared(name) => shared(name),
            Self::Permits(name, permits, limit) => semaphore(name, *permits, *limit),
            Self::All(names) => several(names.iter().map(String::as_str)),
        }
    }

    /// Returns it as an order for a worker.
    pub(crate) fn order(&self) -> String {
        match self {
            Self::Exclusive(name) => format!("acquire {name}"),
            Self::Shared(name) => format!("share {name}"),
            Self::Permits(name, permits, limit) => format!("permits {name} {permits} {limit}"),
            Self::All(names) => format!("acquire-all {}", names.join(" ")),
        }
    }

    /// Returns the names.
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Self::Exclusive(name) | Self::Shared(name) | Self::Permits(name, ..) => {
                std::slice::from_ref(name)
            }
            Self::All(names) => names,
        }
    }
}

/// Two that can't be held at a time, because of one name.
pub(crate) struct Pair {
    pub(crate) what: &'static str,
    pub(crate) held: Want,
    pub(crate) wanted: Want,
    /// The name that is in the way.
    pub(crate) contended: String,
}

/// Returns one of each mode, with names that begin with `prefix`.
pub(crate) fn pairs(prefix: &str) -> Vec<Pair> {
    let name = |name: &str| format!("{prefix}/{name}");
    let pair = |what, contended: &str, held, wanted| Pair {
        what,
        held,
        wanted,
        contended: name(contended),
    };
    let (alone, written, read, permits) = (
        name("exclusive"),
        name("written"),
        name("read"),
        name("permits"),
    );
    vec![
        pair(
            "exclusive",
            "exclusive",
            Want::Exclusive(alone.clone()),
            Want::Exclusive(alone),
        ),
        pair(
            "a reader behind a writer",
            "written",
            Want::Exclusive(written.clone()),
            Want::Shared(written),
        ),
        pair(
            "a writer behind a reader",
            "read",
            Want::Shared(read.clone()),
            Want::Exclusive(read),
        ),
        pair(
            "a semaphore",
            "permits",
            Want::Permits(permits.clone(), 2, 3),
            Want::Permits(permits, 2, 3),
        ),
        pair(
            "several names",
            "b",
            Want::All(vec![name("d"), name("b")]),
            Want::All(vec![name("c"), name("b"), name("a")]),
        ),
    ]
}
