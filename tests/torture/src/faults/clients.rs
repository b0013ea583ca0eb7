//! Faults of clients and their connections.

use std::time::Duration;

use leasehold_tests::{
    Host,
    proxy::{Cut, Direction},
};
use rand::{Rng, rngs::StdRng};
use tokio::time::{Instant, sleep};

use super::{Break, disturb, millis};
use crate::{
    clients::Clients,
    record::{Effects, Record},
};

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Stop,
    Connections(Break),
    /// Packets of this direction are lost on the way between hosts; of both, if there is none.
    Partition(Option<Direction>),
}

/// Faults as likely as they are listed; the last three need hosts.
const FAULTS: [(Fault, &str); 13] = [
    (Fault::Kill, "SIGKILL of a client"),
    (Fault::Kill, "SIGKILL of a client"),
    (Fault::Stop, "SIGSTOP of a client"),
    (Fault::Stop, "SIGSTOP of a client"),
    (Fault::Connections(Break::Cut), "connections cut"),
    (Fault::Connections(Break::Stall), "connections stalled"),
    (Fault::Connections(DEAF), "connections deaf"),
    (Fault::Connections(MUTE), "connections mute"),
    (Fault::Connections(Break::Slow), "connections slow"),
    (
        Fault::Connections(Break::Refuse),
        "connections cut and refused",
    ),
    (
        Fault::Partition(Some(Direction::ToServer)),
        "client partitioned one way",
    ),
    (
        Fault::Partition(Some(Direction::ToClient)),
        "client partitioned one way",
    ),
    (Fault::Partition(None), "client partitioned"),
];
const DEAF: Break = Break::Discard(Direction::ToServer);
const MUTE: Break = Break::Discard(Direction::ToClient);

impl Fault {
    /// Returns what it may do to the client, if that is one of coordinators.
    fn effects(self, client: &str, of_coordinators: bool) -> Effects {
        use Break::{Cut, Discard, Refuse};
        let if_so = |is_so: bool| is_so.then(|| client.to_owned()).into_iter().collect();
        Effects {
            resets: if_so(matches!(self, Self::Connections(Cut | Discard(_) | Refuse))),
            disconnects: if_so(of_coordinators && matches!(self, Self::Connections(Refuse))),
            stops: if_so(matches!(self, Self::Stop)),
            disturbs: if_so(true),
            ..Effects::default()
        }
    }
}

/// Does faults to clients until the end.
pub(crate) async fn run(clients: &mut Clients, record: &Record, mut random: StdRng, end: Instant) {
    while Instant::now() < end {
        sleep(millis(&mut random, 200, 3000)).await;
        let number = random.random_range(0..clients.seats.len());
        let possible = FAULTS.len() - if clients.aliases.is_empty() { 3 } else { 0 };
        let (fault, what) = FAULTS[random.random_range(0..possible)];
        let time = millis(&mut random, 50, 5000);
        let cut = if random.random_bool(0.5) {
            Cut::Fin
        } else {
            Cut::Rst
        };
        let name = clients.seats[number].name.clone();
        let of_coordinators = !clients.seats[number].proxies.is_empty();
        let effects = fault.effects(&name, of_coordinators);
        let begun = record.begin(what, &name, &effects);
        match fault {
            Fault::Kill => {
                clients.kill(number);
                sleep(time / 5).await;
                clients.replace(number);
            }
            Fault::Partition(direction) => {
                let host = clients.seats[number].host.as_ref();
                partition(host, &clients.aliases, direction, time).await;
            }
            Fault::Stop => {
                let process = &clients.seats[number].process;
                process.stop();
                sleep(time).await;
                process.cont();
            }
            Fault::Connections(what) => {
                disturb(&clients.seats[number].proxies, what, time, cut).await;
            }
        }
        record.end(begun);
    }
}

/// Loses the packets between a client and all coordinators.
async fn partition(
    client: Option<&Host>,
    coordinators: &[Host],
    direction: Option<Direction>,
    time: Duration,
) {
    let mut pairs = Vec::new();
    let Some(client) = client else { return };
    for coordinator in coordinators {
        if direction != Some(Direction::ToServer) {
            pairs.push((client, coordinator));
        }
        if direction != Some(Direction::ToClient) {
            pairs.push((coordinator, client));
        }
    }
    super::partition(&pairs, time).await;
}
