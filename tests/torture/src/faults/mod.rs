//! Faults, drawn from the seed alone: one sequence against clients and their connections, one against coordinators and the store.

pub(crate) mod clients;
mod credentials;
mod kinds;
mod operators;
mod redis;
pub(crate) mod servers;

use std::time::Duration;

use leasehold_tests::{
    FaultProxy, Host,
    proxy::{Cut, Direction, Flow},
};
use rand::{Rng, rngs::StdRng};
use tokio::{
    task::block_in_place,
    time::{sleep, timeout},
};

/// Draws a time.
fn millis(random: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(random.random_range(from..to))
}

/// Ends the connections of a proxy. Does not wait for those that come meanwhile, of which there may always be one.
async fn cut(proxy: &FaultProxy, how: Cut) {
    let _ = timeout(Duration::from_millis(100), proxy.cut(how)).await;
}

/// Way to disturb connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    Cut,
    /// Nothing passes for a time.
    Stall,
    /// What goes in this direction is thrown away for a time.
    Discard(Direction),
    Slow,
    Refuse,
}

/// Disturbs the connections of proxies for a time.
async fn disturb(proxies: &[FaultProxy], what: Break, time: Duration, how: Cut) {
    match what {
        Break::Cut => {}
        Break::Stall => proxies.iter().for_each(FaultProxy::black_hole),
        Break::Discard(direction) => {
            for proxy in proxies {
                proxy.set_flow(direction, Flow::Discard);
            }
        }
        Break::Slow => {
            for proxy in proxies {
                proxy.set_delay(time / 20);
            }
        }
        Break::Refuse => {
            for proxy in proxies {
                proxy.set_refuse(true).await;
            }
        }
    }
    // What was thrown away is missing in the middle of the stream: it is cut before anything passes again.
    if let Break::Cut | Break::Refuse = what {
        cut_all(proxies, how).await;
    }
    if what != Break::Cut {
        sleep(time).await;
    }
    if let Break::Discard(_) = what {
        cut_all(proxies, how).await;
    }
    for proxy in proxies {
        proxy.forward();
        proxy.set_delay(Duration::ZERO);
        proxy.set_refuse(false).await;
    }
}

async fn cut_all(proxies: &[FaultProxy], how: Cut) {
    for proxy in proxies {
        cut(proxy, how).await;
    }
}

/// Has the first host of each pair hear nothing of the second one for a time.
async fn partition(pairs: &[(&Host, &Host)], time: Duration) {
    let all = || pairs.iter();
    block_in_place(|| all().for_each(|(deaf, mute)| deaf.ignore(mute)));
    sleep(time).await;
    block_in_place(|| all().for_each(|(deaf, mute)| deaf.hear(mute)));
}
