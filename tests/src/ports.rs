//! Ports for servers whose port must be known beforehand, or stay the same over a restart.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    ops::Range,
    sync::{Mutex, PoisonError},
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use socket2::{Domain, Socket, Type};

/// Below the range from which the kernel takes the ports of outgoing connections: while a server is down, no connection
/// can sit on its port, and none that redials it can end up connected to itself.
const RANGE: Range<u16> = 12_000..32_000;
/// Ports that a process reserves at a time.
const BLOCK: u16 = 50;

/// Reserved ports.
struct Reserved {
    free: Range<u16>,
    /// A listener on the first port of each block, kept until the process ends: who has it has the block.
    marks: Vec<TcpListener>,
}

static RESERVED: Mutex<Reserved> = Mutex::new(Reserved {
    free: 0..0,
    marks: Vec::new(),
});

/// Returns a port on loopback that nothing listens on now, different for every call in this process and in the other tests that
/// run on this machine.
///
/// # Panics
///
/// If all ports are taken.
pub fn free_port() -> u16 {
    let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(port) = reserved.free.find(|port| is_free(*port)) {
            return port;
        }
        let (free, mark) = reserve();
        reserved.free = free;
        reserved.marks.push(mark);
    }
}

/// Reserves a block of ports.
fn reserve() -> (Range<u16>, TcpListener) {
    let firsts: Vec<u16> = RANGE.step_by(BLOCK.into()).collect();
    let begin = StdRng::from_os_rng().random_range(0..firsts.len());
    let (before, after) = firsts.split_at(begin);
    let mut firsts = after.iter().chain(before);
    let reserved = firsts.find_map(|first| Some((first + 1..first + BLOCK, listen(*first)?)));
    reserved.unwrap_or_else(|| panic!("found no free ports in {RANGE:?} on 127.0.0.1"))
}

/// Returns whether nothing listens on a port. Binds a socket that does not listen: a process that another thread starts at this
/// moment has every socket of this one until it executes its program, and a listener that lives on there would keep the port.
fn is_free(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let bind = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())
    };
    bind().is_ok()
}

fn listen(port: u16) -> Option<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
}
