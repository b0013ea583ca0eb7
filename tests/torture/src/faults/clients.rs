//! Faults of clients and their connections.

use std::time::Duration;

use leasehold_tests::{
    FaultProxy, Host,
    proxy::{Cut, Direction, Flow},
};
use rand::{Rng, rngs::StdRng};
use tokio::time::{Instant, sleep};

use super::millis;
use crate::{
    clients::{Clients, Seat},
    record::{Effects, Record},
};

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Stop,
    Cut,
    Stall,
    OneWay(Direction),
    Slow,
    Refuse,
    /// Packets of this direction are lost on the way between hosts; of both, if there is none.
    Partition(Option<Direction>),
}

impl Fault {
    fn draw(random: &mut StdRng, has_network: bool) -> Self {
        match random.random_range(0..if has_network { 13 } else { 10 }) {
            0 | 1 => Self::Kill,
            2 | 3 => Self::Stop,
            4 => Self::Cut,
            5 => Self::Stall,
            6 => Self::OneWay(Direction::ToServer),
            7 => Self::OneWay(Direction::ToClient),
            8 => Self::Slow,
            10 => Self::Partition(Some(Direction::ToServer)),
            11 => Self::Partition(Some(Direction::ToClient)),
            12 => Self::Partition(None),
            _ => Self::Refuse,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kill => "SIGKILL of a client",
            Self::Stop => "SIGSTOP of a client",
            Self::Cut => "connections cut",
            Self::Stall => "connections stalled",
            Self::OneWay(Direction::ToServer) => "connections deaf",
            Self::OneWay(Direction::ToClient) => "connections mute",
            Self::Slow => "connections slow",
            Self::Refuse => "connections cut and refused",
            Self::Partition(None) => "client partitioned",
            Self::Partition(Some(_)) => "client partitioned one way",
        }
    }

    /// Returns what it may do to the client, if that is one of coordinators.
    fn effects(self, client: &str, of_coordinators: bool) -> Effects {
        let client = vec![client.to_owned()];
        let disconnects = match self {
            Self::Refuse if of_coordinators => client.clone(),
            _ => Vec::new(),
        };
        let resets = match self {
            Self::Kill | Self::Stop | Self::Slow | Self::Stall | Self::Partition(_) => Vec::new(),
            Self::Cut | Self::OneWay(_) | Self::Refuse => client.clone(),
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
            _ => apply(fault, &clients.seats[number], time, cut).await,
        }
        record.end(begun);
    }
}

async fn apply(fault: Fault, seat: &Seat, time: Duration, cut: Cut) {
    let proxies = &seat.proxies;
    match fault {
        // Not of the connections.
        Fault::Kill | Fault::Partition(_) => {}
        Fault::Stop => {
            seat.process.stop();
            sleep(time).await;
            seat.process.cont();
        }
        Fault::Cut => cut_all(proxies, cut).await,
        Fault::Stall => {
            proxies.iter().for_each(FaultProxy::black_hole);
            sleep(time).await;
            proxies.iter().for_each(FaultProxy::forward);
        }
        Fault::OneWay(direction) => {
            for proxy in proxies {
                proxy.set_flow(direction, Flow::Discard);
            }
            sleep(time).await;
            // What was thrown away is missing in the middle of the stream.
            cut_all(proxies, cut).await;
            proxies.iter().for_each(FaultProxy::forward);
        }
        Fault::Slow => {
            for proxy in proxies {
                proxy.set_delay(time / 20);
            }
            sleep(time).await;
            for proxy in proxies {
                proxy.set_delay(Duration::ZERO);
            }
        }
        Fault::Refuse => {
            for proxy in proxies {
                proxy.set_refuse(true).await;
            }
            cut_all(proxies, cut).await;
            sleep(time).await;
            for proxy in proxies {
                proxy.set_refuse(false).await;
            }
        }
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

async fn cut_all(proxies: &[FaultProxy], cut: Cut) {
    for proxy in proxies {
        super::cut(proxy, cut).await;
    }
}
