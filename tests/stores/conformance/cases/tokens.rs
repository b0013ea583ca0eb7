//! The time for which a store remembers tokens that are ahead of its clock, measured at the store itself with short memories.
//!
//! On every store a token that is half an hour ahead stands for a clock that has stepped back by half an hour. Where a test can
//! move the servers' clock, it does step back.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::{
    command::{Acquire, Executed, Op, Reply, Resume},
    id::{FencingToken, OwnerId, SessionId},
    mode::Mode,
    name::ClientName,
    time::StoreTime,
};
use leasehold_store::Store;
use leasehold_tests::{RedisServer, WallClock, raw::fresh_owner_id, wait, wall_clock::micros};

use crate::{
    conformance::{
        site::{self, LATE, Site, TTL},
        topology::{Offers, Topology},
    },
    store,
};

/// The memory of coordinators that remember tokens for a short time, and of one that does so for long.
const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3600);
/// Lead of the tokens over the clock, within the long memory.
const AHEAD: Duration = Duration::from_secs(1800);

/// The use that a coordinator with a short memory makes of a hold before it is released.
#[derive(Clone, Copy, Debug)]
enum Use {
    Grant,
    Renew,
    Resume,
    Force,
    HandOn,
}

/// A name in a store, as one coordinator uses it.
struct Name<'a> {
    store: &'a Store,
    coordinator: &'static str,
    name: &'a str,
    mode: Mode,
}

impl<'a> Name<'a> {
    fn new((store, coordinator): (&'a Store, &'static str), name: &'a str, mode: Mode) -> Self {
        Self {
            store,
            coordinator,
            name,
            mode,
        }
    }

    async fn execute(&self, memory: Duration, floor: i64, op: Op) -> Executed {
        let mut command = store::command(self.coordinator, self.name, op);
        command.caller.floor = FencingToken::new(floor);
        command.caller.token_memory = memory;
        self.store.execute(command).await.unwrap().executed
    }

    async fn acquire(&self, memory: Duration, floor: i64) -> (OwnerId, i64, StoreTime) {
        let (op, owner) = acquire(self.mode);
        let executed = self.execute(memory, floor, op).await;
        match executed.reply {
            Reply::Granted { token, .. } => (owner, token.get(), executed.at),
            other => panic!("{:?} was answered by {other:?}", self.name),
        }
    }

    async fn release(&self, owner: OwnerId) -> Executed {
        let released = self.execute(SHORT, 0, store::release(owner)).await;
        let is_released = matches!(released.reply, Reply::Released { held: true, .. });
        assert!(is_released, "{:?}: {released:?}", self.name);
        released
    }

    async fn time(&self) -> StoreTime {
        self.execute(SHORT, 0, Op::view(0)).await.at
    }

    /// Waits until the short memory has passed by the store's clock.
    async fn forget(&self) {
        let over = self.time().await.after(SHORT + SHORT / 5);
        wait::until("the store's clock to go on", SHORT * 2 + LATE, || async {
            let now = self.time().await;
            if now > over { Ok(()) } else { Err(now) }
        })
        .await;
    }

    /// Uses a hold with a token as a coordinator with a short memory does; gives the hold that stands then, if any, and the
    /// newest token.
    async fn carry_out(&self, of: Use, owner: OwnerId, token: i64) -> (Option<OwnerId>, i64) {
        match of {
            Use::Grant => {
                self.release(owner).await;
                let (owner, token, _) = self.acquire(SHORT, 0).await;
                (Some(owner), token)
            }
            Use::Renew => {
                let renewal = Op::Renew {
                    owner,
                    token: None,
                    ttl: TTL,
                };
                let renewed = self.execute(SHORT, 0, renewal).await;
                assert_eq!(renewed.reply, Reply::Renewed);
                (Some(owner), token)
            }
            Use::Resume => {
                let next = fresh();
                let resume = Resume {
                    from: vec![owner],
                    next,
                    session: Some(SessionId::from_bytes([7; 16])),
                    client_name: ClientName::default(),
                    ttl: TTL,
                    count: 1,
                    max_hold: None,
                };
                let resumed = self.execute(SHORT, 0, Op::Resume(resume)).await;
                let is_resumed = matches!(resumed.reply, Reply::Resumed { .. });
                assert!(is_resumed, "{resumed:?}");
                (Some(next), token)
            }
            Use::Force => {
                let forced = self.execute(SHORT, 0, Op::ForceRelease).await;
                match forced.reply {
                    Reply::Forced { token, .. } => (None, token.get()),
                    other => panic!("a force release was answered by {other:?}"),
                }
            }
            Use::HandOn => {
                let (op, next) = acquire(Mode::Exclusive);
                let queued = self.execute(SHORT, 0, op).await;
                let is_queued = matches!(queued.reply, Reply::Queued { .. });
                assert!(is_queued, "{queued:?}");
                let handed = self.release(owner).await.handed;
                assert_eq!(handed[0].owner, next);
                (Some(next), handed[0].token.get())
            }
        }
    }

    /// Tokens rise after a use although the short memory has passed since, time and again.
    async fn is_remembered_after(&self, of: Use) {
        let floor = self.time().await.after(AHEAD).as_micros();
        let (mut owner, mut last, _) = self.acquire(LONG, floor).await;
        assert!(last >= floor, "{last} is below the floor {floor}");
        for _ in 0..2 {
            let (held, newest) = self.carry_out(of, owner, last).await;
            if let Some(owner) = held {
                self.release(owner).await;
            }
            self.forget().await;
            let (next, token, _) = self.acquire(SHORT, 0).await;
            assert!(
                token > newest && newest >= last,
                "{:?}, {of:?}: {token} after {newest} after {last}",
                self.name
            );
            (owner, last) = (next, token);
        }
        self.release(owner).await;
    }
}

impl Name<'_> {
    /// Tokens rise after a use although the store's clock has stepped back to long before the token, and the short memory
    /// has passed since. `ahead` is where the clock is (µs ahead of this machine's).
    async fn rises_across_steps(&self, of: Use, clock: &WallClock, ahead: &mut i64) {
        clock.set_ahead(*ahead + micros(AHEAD));
        let (owner, last, _) = self.acquire(SHORT, 0).await;
        clock.set_ahead(*ahead);
        let (held, newest) = self.carry_out(of, owner, last).await;
        if let Some(owner) = held {
            self.release(owner).await;
        }
        *ahead += micros(SHORT + SHORT / 5);
        clock.set_ahead(*ahead);
        let (owner, token, at) = self.acquire(SHORT, 0).await;
        assert!(
            token > newest && newest >= last && last > at.as_micros(),
            "{:?}, {of:?}: {token} at {at:?} after {newest} after {last}",
            self.name
        );
        self.release(owner).await;
    }
}

fn fresh() -> OwnerId {
    OwnerId::parse(&fresh_owner_id()).unwrap()
}

/// Returns an acquire that waits if it must.
fn acquire(mode: Mode) -> (Op, OwnerId) {
    let owner = fresh();
    let acquire = Acquire {
        session: Some(SessionId::from_bytes([7; 16])),
        mode,
        ttl: TTL,
        ..store::acquire(owner)
    };
    (Op::Acquire(acquire), owner)
}

pub(crate) async fn are_remembered_past_their_own_time(site: &Site) {
    let store = site.store("tokens").await;
    let store = (&store, "tokens");
    let cases = uses(site.offers())
        .into_iter()
        .map(|(of, mode)| async move {
            let name = format!("tokens/{of:?}/{mode:?}");
            Name::new(store, &name, mode).is_remembered_after(of).await;
        });
    join_all(cases).await;
}

/// Returns what a coordinator may do to a hold of a mode on a store that offers this.
fn uses(offers: Offers) -> Vec<(Use, Mode)> {
    let all = [Use::Grant, Use::Renew, Use::Resume, Use::Force, Use::HandOn];
    let all = all.map(|of| [(of, Mode::Exclusive), (of, Mode::Shared)]);
    let mut uses = all.concat();
    uses.retain(|of| match of {
        // Those that share a lock do not wait for one another.
        (Use::HandOn, mode) => offers.one_queue && *mode == Mode::Exclusive,
        (_, mode) => offers.modes || *mode == Mode::Exclusive,
    });
    uses
}

pub(crate) async fn rise_across_steps(topology: Topology) {
    let clock = WallClock::make();
    let servers = topology.start_with(&clock.of(RedisServer::options()));
    let store = site::open(&servers, "steps").await;
    let mut ahead = 0;
    for (of, mode) in uses(topology.offers()) {
        let name = format!("steps/{of:?}/{mode:?}");
        let name = Name::new((&store, "steps"), &name, mode);
        name.rises_across_steps(of, &clock, &mut ahead).await;
    }
}

pub(crate) async fn go_no_further_ahead_than_the_memory(site: &Site) {
    let store = site.store("floors").await;
    let name = Name::new((&store, "floors"), "tokens/floor", Mode::Exclusive);
    let floor = name.time().await.after(Duration::from_secs(23 * 3600));
    let (owner, first, at) = name.acquire(SHORT, floor.as_micros()).await;
    assert!(first <= at.after(SHORT).as_micros(), "{first} at {at:?}");
    name.release(owner).await;

    // The coordinator takes its floor from that name to another one.
    let other = Name::new((&store, "floors"), "tokens/other", Mode::Exclusive);
    let (owner, second, _) = other.acquire(SHORT, first + 1).await;
    assert!(second > first);
    other.release(owner).await;
    name.forget().await;
    for (name, last) in [(&name, first), (&other, second)] {
        let (owner, token, _) = name.acquire(SHORT, 0).await;
        assert!(token > last, "{token} after {last}");
        name.release(owner).await;
    }
}
