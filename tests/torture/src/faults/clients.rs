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

impl Fault {
    fn draw(random: &mut StdRng, has_network: bool) -> Self {
        match random.random_range(0..if has_network { 13 } else { 10 }) {
            0 | 1 => Self::Kill,
            2 | 3 => Self::Stop,
            4 => Self::Connections(Break::Cut),
            5 => Self::Connections(Break::Stall),
            6 => Self::Connections(Break::Discard(Direction::ToServer)),
            7 => Self::Connections(Break::Discard(Direction::ToClient)),
            8 => Self::Connections(Break::Slow),
            10 => Self::Partition(Some(Direction::ToServer)),
            11 => Self::Partition(Some(Direction::ToClient)),
            12 => Self::Partition(None),
            _ => Self::Connections(Break::Refuse),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kill => "SIGKILL of a client",
            Self::Stop => "SIGSTOP of a client",
            Self::Connections(Break::Cut) => "connections cut",
            Self::Connections(Break::Stall) => "connections stalled",
            Self::Connections(Break::Discard(Direction::ToServer)) => "connections deaf",
            Self::Connections(Break::Discard(Direction::ToClient)) => "connections mute",
            Self::Connections(Break::Slow) => "connections slow",
            Self::Connections(Break::Refuse) => "connections cut and refused",
            Self::Partition(None) => "client partitioned",
            Self::Partition(Some(_)) => "client partitioned one way",
        }
    }

    /// Returns what it may do to the client, if that is one of coordinators.
    fn effects(self, client: &str, of_coordinators: bool) -> Effects {
        let client = vec![client.to_owned()];
        let disconnects = match self {
            Self::Connections(Break::Refuse) if of_coordinators => client.clone(),
            _ => Vec::new(),
        };
        let resets = match self {
            Self::Connections(Break::Cut | Break::Discard(_) | Break::Refuse) => client.clone(),
            _ => Vec::new(),
        };
        let stops = match self {
            Self::Stop => client.clone(),
            _ => Vec::new(),
        };
        Effects {
            resets,
            disconnects,
            stops,
            disturbs: client,
            ..Effects::default()
        }
    }
}

/// Does faults to clients until the end.
pub(crate) async fn run(clients: &mut Clients, record: &Record, mut random: StdRng, end: Instant) {
    while Instant::now() < end {
        sleep(millis(&mut random, 200, 3000)).await;
        let number = random.random_range(0..clients.seats.len());
        let fault = Fault::draw(&mut random, !clients.aliases.is_empty());
        let time = millis(&mut random, 50, 5000);
        let cut = if random.random_bool(0.5) {
            Cut::Fin
        } else {
            Cut::Rst
        };
        let name = clients.seats[number].name.clone();
        let of_coordinators = !clients.seats[number].proxies.is_empty();
        let effects = fault.effects(&name, of_coordinators);
        let begun = record.begin(fault.name(), &name, &effects);
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
