//! Deadlines: the client's comes before the store's, whatever the network and the clocks do.

use std::time::Duration;

use leasehold_core::{lease::Lease, time::Moment};
use proptest::{collection::vec, prelude::*};

use crate::locks::config;

/// A clock that runs too fast or too slow by up to a quarter of a percent, so that two differ by half a percent at most.
#[derive(Clone, Copy, Debug)]
struct Clock {
    rate: f64,
}

impl Clock {
    /// Returns the time that it shows, in microseconds, at a true time in microseconds.
    fn shows(self, at: f64) -> Moment {
        Moment::from_micros((at * self.rate) as u64)
    }

    /// Returns the true time that it takes for this clock to advance by `duration`.
    fn takes(self, duration: Duration) -> f64 {
        duration.as_micros() as f64 / self.rate
    }

    /// Returns the true time at which it shows `moment`.
    fn reaches(self, moment: Moment) -> f64 {
        moment.as_micros() as f64 / self.rate
    }
}

/// A heartbeat, and the renewal that it may bring about. Everything in parts of the TTL.
#[derive(Clone, Copy, Debug)]
struct Beat {
    /// Time from the previous heartbeat to this one.
    pause: f64,
    /// Time on its way to the coordinator.
    sending: f64,
    /// Whether everything is renewed before it is answered.
    renewal: Option<Renewal>,
    /// Time until it is answered.
    answering: f64,
}

#[derive(Clone, Copy, Debug)]
struct Renewal {
    /// Time before it is sent.
    waiting: f64,
    /// Time on its way to the store.
    sending: f64,
    /// Time on its way back.
    returning: f64,
}

fn clock() -> impl Strategy<Value = Clock> {
    prop_oneof![Just(0.9975), Just(1.0025), 0.9975..1.0025].prop_map(|rate| Clock { rate })
}

/// Returns a delay: mostly short, sometimes as long as the lease itself.
fn delay() -> impl Strategy<Value = f64> {
    prop_oneof![2 => Just(0.0), 3 => 0.0..0.01, 2 => 0.0..0.4, 1 => 0.0..1.5]
}

fn beats() -> impl Strategy<Value = Vec<Beat>> {
    let renewal = (delay(), delay(), delay()).prop_map(|(waiting, sending, returning)| Renewal {
        waiting,
        sending,
        returning,
    });
    let beat = (
        0.0..0.7,
        delay(),
        prop::option::weighted(0.7, renewal),
        delay(),
    );
    let beat = beat.prop_map(|(pause, sending, renewal, answering)| Beat {
        pause,
        sending,
        renewal,
        answering,
    });
    vec(beat, 1..20)
}

/// Promise made for a heartbeat, as true times in microseconds.
#[derive(Debug)]
struct Promise {
    /// The promised time.
    valid_for: Duration,
    /// The time at which the client stops believing in its locks.
    client: f64,
    /// The time at which the store drops the locks, by the renewal that the promise rests on.
    store: f64,
    /// The time at which the coordinator takes the client for silent, if this was its last heartbeat.
    silent: f64,
    /// The time at which the coordinator thinks that the client has stopped believing.
    lingered: f64,
}

/// Returns the promises for one lock that is granted with the first heartbeat and renewed with others.
fn promises(
    ttl: Duration,
    beats: &[Beat],
    [client, coordinator, store]: [Clock; 3],
) -> Vec<Promise> {
    let part = |part: f64| part * ttl.as_micros() as f64;
    let mut sent = 1_000_000.0;
    let mut now = sent;
    let mut lease = Lease::open(ttl, coordinator.shows(now));
    let mut standing = None;
    let mut expires = 0.0;
    let mut promises = Vec::new();
    for (sequence, beat) in (1..).zip(beats) {
        sent += part(beat.pause);
        // The coordinator does one thing after the other, so that a heartbeat may be kept waiting; it counts as heard
        // when it is looked at.
        now = f64::max(now, sent + part(beat.sending));
        let heard_at = coordinator.shows(now);
        assert!(lease.heartbeat(sequence, heard_at));
        if let Some(renewal) = beat.renewal {
            now += part(renewal.waiting);
            let stands_until = coordinator.shows(now).after(ttl);
            now += part(renewal.sending);
            if standing.is_none() || now < expires {
                expires = now + store.takes(ttl);
                standing = Some(stands_until);
            }
            now += part(renewal.returning);
        }
        now += part(beat.answering);
        if standing.is_none() {
            continue;
        }
        if let Some(valid_for) = lease.promise(heard_at, standing) {
            promises.push(Promise {
                valid_for,
                client: sent + client.takes(valid_for),
                store: expires,
                silent: coordinator.reaches(lease.silent_at()),
                lingered: coordinator.reaches(lease.promised_until()),
            });
        }
    }
    promises
}

fn ttl() -> impl Strategy<Value = Duration> {
    (1_000..100_000_u64).prop_map(Duration::from_millis)
}

proptest! {
    #![proptest_config(config())]

    /// The deadline that a client computes from the moment at which it *sent* a heartbeat is never later than the store's,
    /// though heartbeats, renewals and answers take any time, and clocks differ by half a percent. It is never further away
    /// than the session's TTL.
    #[test]
    fn the_client_knows_first(
        ttl in ttl(),
        beats in beats(),
        clocks in [clock(), clock(), clock()],
    ) {
        for promise in promises(ttl, &beats, clocks) {
            prop_assert!(promise.client <= promise.store, "{promise:?}");
            prop_assert!(promise.valid_for < ttl, "{promise:?}");
        }
    }

    /// A client that falls silent is given up only when it has stopped believing in what it holds, and one whose stream the
    /// coordinator had to end is left its locks until then.
    #[test]
    fn silence_and_a_lease_that_lingers_outlast_every_promise(
        ttl in ttl(),
        beats in beats(),
        clocks in [clock(), clock(), clock()],
    ) {
        let promises = promises(ttl, &beats, clocks);
        let latest = promises.iter().map(|promise| promise.client).fold(0.0, f64::max);
        if let Some(last) = promises.last() {
            prop_assert!(latest <= last.silent.min(last.lingered), "{latest} in {promises:?}");
        }
    }
}
