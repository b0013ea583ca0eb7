//! Mark of a request that may be repeated: what the store keeps of its key.

use leasehold_core::{id::Actor, mode::Mode, name::LockName};
use ring::digest::{Context, SHA256};

use crate::access::Caller;

/// Returns the mark of a caller's request with this key: the same at every coordinator.
///
/// It is kept as the actor of the hold, which operators may see. Whoever knows the key can take the hold over; the mark does not
/// tell the key, and 64 bits are too many to find another key of the same mark while a hold lasts.
pub(super) fn mark(caller: &Caller, name: &LockName, mode: Mode, key: &str) -> Actor {
    let mode = match mode {
        Mode::Exclusive => "exclusive".to_owned(),
        Mode::Shared => "shared".to_owned(),
        Mode::Semaphore(_) => format!("semaphore {}", mode.permits()),
    };
    let mut digest = Context::new(&SHA256);
    // Each with its length: no two requests have the same bytes.
    for part in [caller.identity().unwrap_or(""), name.as_str(), &mode, key] {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let first = digest.finish().as_ref().first_chunk().copied();
    // 0 is nobody.
    Actor::new(u64::from_be_bytes(first.unwrap_or_default()).max(1))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use leasehold_core::mode::Permits;

    use super::*;

    #[test]
    fn each_part_of_a_request_counts() {
        let caller = Caller::anonymous(SocketAddr::from(([192, 0, 2, 1], 1)));
        let elsewhere = Caller::anonymous(SocketAddr::from(([192, 0, 2, 9], 2)));
        let name = |name| LockName::parse(name).unwrap();
        let permits = |number| Mode::Semaphore(Permits::new(number, 9).unwrap());
        let of = |lock, mode, key| mark(&caller, &name(lock), mode, key);
        let marks = [
            of("ab", Mode::Exclusive, "cd"),
            of("a", Mode::Exclusive, "bcd"),
            of("ab", Mode::Shared, "cd"),
            of("ab", permits(1), "cd"),
            of("ab", permits(2), "cd"),
            of("ab", Mode::Exclusive, "cde"),
        ];
        for (at, one) in marks.iter().enumerate() {
            assert!(!marks[..at].contains(one), "{at}");
        }
        // Without an identity, the address does not count: a client that repeats its request may come from another.
        let again = mark(&elsewhere, &name("ab"), Mode::Exclusive, "cd");
        assert_eq!(again, marks[0]);
        assert!(!format!("{again:?}").contains("cd"));
    }
}
