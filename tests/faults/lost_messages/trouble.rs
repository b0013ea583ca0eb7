//! Faults of a history, and the points at which they strike.

use leasehold_proto::v1::GrantedLock;
use leasehold_tests::{
    redis_proxy::{Call, Counts, Listening, Loss, WakeUps},
    wait,
};

use crate::lost_messages::{
    PROMPT,
    clients::Kind,
    history::{CAST, crossings},
    site::Site,
};

/// A script call of the history. Clients are numbered in the order in which they ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// By which this client takes the lock or joins the queue.
    Acquire(usize),
    /// By which this client releases the lock, and hands it on if anybody waits.
    Release(usize),
    /// By which the coordinator of this client confirms the hand-off by another.
    Confirm(usize),
}

/// Returns all script calls of a history, if nothing goes wrong.
pub(crate) fn points() -> Vec<Point> {
    let clients = 0..CAST.len();
    let acquires = clients.clone().map(Point::Acquire);
    let releases = clients.map(Point::Release);
    let confirmations = crossings().into_iter().map(Point::Confirm);
    acquires.chain(releases).chain(confirmations).collect()
}

/// Fault to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nothing.
    None,
    /// A call or its reply is lost.
    Lose(Point, Loss),
    /// The same, and then the next call of the same coordinator.
    LoseTwo(Point, Loss),
    /// This client's wake-up is dropped.
    DropWakeUp(usize),
    /// The same, and then the call that would have found the grant is lost as well.
    DropWakeUpAndLose(usize, Loss),
    /// All wake-ups are dropped.
    DropWakeUps,
    /// The subscription of this client's coordinator ends right before the hand-off to it.
    CutBefore(usize),
    /// The same falls silent.
    SilenceBefore(usize),
    /// Every subscription ends as soon as it is made.
    CutAlways,
    /// Every subscription is silent once it is made.
    SilentAlways,
}

impl Trouble {
    /// Returns the point at which calls are lost, and the way.
    fn loses(self) -> Option<(Point, Loss)> {
        match self {
            Self::Lose(point, loss) | Self::LoseTwo(point, loss) => Some((point, loss)),
            _ => None,
        }
    }

    /// Returns the number of calls that are lost.
    pub(crate) fn losses(self) -> u64 {
        match self {
            Self::Lose(..) | Self::DropWakeUpAndLose(..) => 1,
            Self::LoseTwo(..) => 2,
            _ => 0,
        }
    }

    /// Returns whether a call is kept back that may be delivered in the end.
    pub(crate) fn keeps(self) -> bool {
        matches!(self.loses(), Some((_, Loss::RequestLate)))
    }

    /// Returns the clients whose coordinator can't reach Redis for a while.
    pub(crate) fn silences(self) -> Vec<usize> {
        let Some((point, Loss::RequestLate)) = self.loses() else {
            return Vec::new();
        };
        let (Point::Acquire(of) | Point::Release(of) | Point::Confirm(of)) = point;
        (0..CAST.len())
            .filter(|client| CAST[*client].place == CAST[of].place)
            .collect()
    }

    /// Returns whether this client's acquire fails.
    pub(crate) fn fails_acquire(self, client: usize) -> bool {
        matches!(self.loses(), Some((Point::Acquire(of), _)) if of == client)
    }

    /// Returns whether this client's release fails at first. One that has died does not hear of it.
    pub(crate) fn fails_release(self, client: usize) -> bool {
        matches!(self.loses(), Some((Point::Release(of), _)) if of == client)
            && CAST[client].kind != Kind::Dying
    }

    /// Returns whether the call after the first that is lost is the client's own second try, rather than its coordinator's.
    pub(crate) fn goes_on_with_client(self) -> bool {
        matches!(self, Self::LoseTwo(Point::Release(of), _) if CAST[of].kind == Kind::Unary)
    }

    /// Begins the trouble before anything else.
    pub(crate) async fn begin(self, site: &Site) {
        let before = site.counts();
        let places = site.places.len() as u64;
        let (listening, wake_ups) = match self {
            Self::CutAlways => (Listening::Cut, WakeUps::Pass),
            Self::SilentAlways => (Listening::Silent, WakeUps::Pass),
            Self::DropWakeUps => (Listening::Works, WakeUps::Drop),
            _ => return,
        };
        for place in &site.places {
            place.proxy.set_listening(listening);
            place.proxy.set_wake_ups(wake_ups);
        }
        wait::until("the subscriptions to break", PROMPT, || async {
            let now = site.counts();
            let broken = now.cut + now.silenced - before.cut - before.silenced;
            let all = wake_ups == WakeUps::Drop || broken >= places;
            if all { Ok(()) } else { Err(broken) }
        })
        .await;
    }

    /// Arms the loss of a call of this client's coordinator, and of the next where that is lost as well.
    fn lose(self, site: &Site, client: usize, call: Call) {
        let proxy = &site.places[CAST[client].place].proxy;
        if let Some((_, loss)) = self.loses() {
            proxy.lose(call, loss);
            if self.losses() == 2 {
                proxy.lose(Call::Next, loss);
            }
        }
    }

    /// Makes the trouble before a client asks for the lock.
    pub(crate) fn before_acquire(self, site: &Site, client: usize, name: &str) {
        if self.fails_acquire(client) {
            let call = Call::With(name.as_bytes().to_vec());
            self.lose(site, client, call);
        }
    }

    /// Makes the trouble before a client gives the lock to the next one, if any waits.
    pub(crate) fn before_release(
        self,
        site: &Site,
        (client, lock): (usize, &GrantedLock),
        next: Option<usize>,
    ) {
        let proxy = |client: usize| &site.places[CAST[client].place].proxy;
        match self.loses() {
            Some((Point::Release(of), _)) if of == client => {
                self.lose(site, client, Call::With(lock.owner_id.clone()));
            }
            Some((Point::Confirm(of), _)) if Some(of) == next => {
                self.lose(site, of, Call::AfterWakeUp);
            }
            _ => {}
        }
        match self {
            Self::DropWakeUp(of) if Some(of) == next => {
                proxy(of).set_wake_ups(WakeUps::DropNext);
            }
            Self::DropWakeUpAndLose(of, loss) if Some(of) == next => {
                proxy(of).set_wake_ups(WakeUps::DropNext);
                proxy(of).lose(Call::AfterWakeUp, loss);
            }
            Self::CutBefore(of) if Some(of) == next => proxy(of).cut_subscription(),
            Self::SilenceBefore(of) if Some(of) == next => proxy(of).silence_subscription(),
            _ => {}
        }
    }

    /// Lets everything pass again, and asserts that what was meant to go wrong did, by what has happened since `begin`.
    pub(crate) async fn end(self, site: &Site, before: Counts) {
        let now = site.counts();
        let lost = now.lost - before.lost;
        let (cut, silenced) = (now.cut - before.cut, now.silenced - before.silenced);
        let not_woken = now.not_woken - before.not_woken;
        let woken = now.woken - before.woken;
        let (places, crossings) = (site.places.len() as u64, crossings().len() as u64);
        match self {
            Self::None => assert_eq!((lost, not_woken, woken), (0, 0, crossings)),
            Self::Lose(..) | Self::LoseTwo(..) => {
                assert_eq!((lost, not_woken), (self.losses(), 0));
            }
            Self::DropWakeUp(_) => assert_eq!((not_woken, woken), (1, crossings - 1)),
            Self::DropWakeUpAndLose(..) => assert_eq!((not_woken, lost), (1, 1)),
            Self::DropWakeUps => assert_eq!((not_woken, woken), (crossings, 0)),
            Self::CutBefore(_) => assert_eq!((cut, silenced), (1, 0)),
            Self::SilenceBefore(_) => assert_eq!((cut, silenced), (0, 1)),
            Self::CutAlways | Self::SilentAlways => {
                assert!(cut + silenced >= places, "{cut} cut, {silenced} silenced");
                assert_eq!(woken, 0);
            }
        }
        for place in &site.places {
            place.proxy.set_listening(Listening::Works);
            place.proxy.set_wake_ups(WakeUps::Pass);
            if matches!(self, Self::SilentAlways) {
                place.proxy.cut_subscription();
            }
        }
    }
}
