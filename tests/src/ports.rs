//! Ports for servers whose port must be known beforehand, or stay the same over a restart.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, TcpListener},
    sync::{Mutex, PoisonError},
};

use rand::{Rng, SeedableRng, rngs::StdRng};

/// Below the range from which the kernel takes the ports of outgoing connections: while a server is down, no connection
/// can sit on its port, and none that redials it can end up connected to itself.
const RANGE: std::ops::Range<u16> = 12_000..32_000;

static HANDED_OUT: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Returns a port on loopback that nothing listens on now, different for every call in this process.
///
/// Another process may still take it first: a server that is given it must be checked to have got it.
///
/// # Panics
///
/// If a thousand ports in a row are taken.
pub fn free_port() -> u16 {
    let mut handed_out = HANDED_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut random = StdRng::from_os_rng();
    for _ in 0..1_000 {
        let port = random.random_range(RANGE);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && handed_out.insert(port) {
            return port;
        }
    }
    panic!("found no free port in {RANGE:?} on 127.0.0.1");
}
