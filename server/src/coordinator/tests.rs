//! The coordinator over a store in memory, with wake-ups that a test makes up. Timers are tokio's paused clock.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use leasehold_core::{
    command::{Acquire, Executed, REFRESH_INTERVAL, Resume},
    id::{Actor, SessionId},
    mode::Mode,
    name::ClientName,
    time::{Moment, StoreTime},
    view::HolderView,
};
use leasehold_store::{Answer, Options, TlsFiles, clock, measure::Meter};
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::DropGuard;

use super::{
    acquire::{Acquired, Answered, InLine, Wait},
    contention::Waiting,
    hold::Hold,
    inbox::{Inbox, News},
    resume::TakenOver,
    *,
};
use crate::config::Config;

/// A while in which everything is done that needs no timer of a tenth of a second.
const A_MOMENT: Duration = Duration::from_millis(20);

struct Site {
    coordinator: Coordinator,
    wake_ups: mpsc::Sender<WakeUp>,
    _stop: DropGuard,
}

impl Site {
    fn start() -> Self {
        let id = CoordinatorId::new("here");
        let options = Options {
            url: "memory:".to_owned(),
            tls: TlsFiles::default(),
            key_prefix: String::new(),
            timeout: Duration::from_secs(1),
            connections: 1,
            acknowledgement: None,
            coordinator: id.clone(),
            max_hold: Duration::from_secs(60),
            meter: Meter::default(),
        };
        let (store, _) = leasehold_store::open(options).unwrap();
        let (wake_ups, receiver) = mpsc::channel(8);
        let parts = Parts {
            id,
            store,
            wake_ups: receiver,
            bounds: TtlBounds::default(),
            max_wait: Duration::from_secs(60),
            store_timeout: Duration::from_secs(1),
            acknowledged: false,
            deadlock_detection: false,
            metrics: Metrics::default(),
            limits: Limits::new(Config::default().into()),
            liveness: Liveness::default(),
        };
        let stop = CancellationToken::new();
        Self {
            coordinator: Coordinator::start(parts, &stop),
            wake_ups,
            _stop: stop.drop_guard(),
        }
    }

    /// Returns what the store says to an acquire.
    async fn ask(&self, acquire: Acquire) -> Answered {
        let place = self.coordinator.place(&name(), Wait::Forever).unwrap();
        let (answer, answered) = oneshot::channel();
        let answer = Answer::once(answer);
        let asked = self
            .coordinator
            .ask((name(), place), acquire, Wait::Forever, None, answer);
        asked.answered(answered.await.unwrap()).unwrap()
    }

    async fn hold(&self, number: u8) -> Hold {
        match self.ask(acquire(number)).await {
            Answered::Granted(hold) => hold,
            other => panic!("not granted: {other:?}"),
        }
    }

    async fn wait(&self, number: u8) -> InLine {
        match self.ask(acquire(number)).await {
            Answered::Queued(in_line) => in_line,
            other => panic!("not queued: {other:?}"),
        }
    }

    /// Returns who holds the lock and how many wait for it.
    async fn seen(&self) -> (u64, u64) {
        let view = self.coordinator.view(&name(), 0).await.unwrap();
        (view.holder_count, view.waiter_count)
    }

    fn operations(&self) -> u64 {
        self.coordinator.metrics().store_operations.get()
    }

    /// Has something told to the coordinator, and waits until it has taken that in.
    async fn tell(&self, wake_up: WakeUp) {
        self.wake_ups.send(wake_up).await.unwrap();
        while self.wake_ups.capacity() < self.wake_ups.max_capacity() {
            tokio::task::yield_now().await;
        }
    }

    /// Tells the coordinator that another one has granted the lock to a waiter.
    async fn tell_granted(&self, number: u8) {
        self.tell(WakeUp::Granted {
            name: name(),
            owner: owner(number),
            token: FencingToken::new(1),
            of_session: true,
        })
        .await;
    }

    fn floor(&self) -> FencingToken {
        self.coordinator
            .command(name(), Op::ForceRelease)
            .caller
            .floor
    }
}

fn name() -> LockName {
    LockName::parse("a").unwrap()
}

fn owner(number: u8) -> OwnerId {
    OwnerId::from_bytes([number; 16])
}

fn acquire(number: u8) -> Acquire {
    Acquire {
        owner: owner(number),
        session: Some(SessionId::from_bytes([number; 16])),
        actor: Actor::NOBODY,
        client_name: ClientName::parse("client").unwrap(),
        mode: Mode::Exclusive,
        value: Value::default(),
        ttl: Duration::from_secs(60),
        lock_delay: Duration::ZERO,
        wait: true,
        again: false,
    }
}

/// The loss that a session is told of next.
async fn taken(inbox: &Inbox) -> (OwnerId, Loss) {
    tokio::time::timeout(A_MOMENT, inbox.arrived())
        .await
        .unwrap();
    let mut news = Vec::new();
    inbox.take(&mut news);
    match <[News; 1]>::try_from(news).unwrap() {
        [News::Taken(taken)] => (taken.owner, taken.loss),
        [other] => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn commands_carry_the_largest_token_of_grants_and_of_hand_offs() {
    let site = Site::start();
    let hold = site.hold(1).await;
    let of_grant = hold.token();
    assert!(site.floor() > of_grant);
    let in_line = site.wait(2).await;
    hold.release().await.unwrap();
    // The waiter has not been told yet.
    let of_hand_off = site.floor();
    let (_cancel, cancelled) = oneshot::channel();
    let Acquired::Granted(handed) = in_line.wait(cancelled).await else {
        panic!("not granted");
    };
    assert!(handed.token() > of_grant);
    assert!(of_hand_off > handed.token());
}

#[tokio::test(start_paused = true)]
async fn a_hand_off_counts_from_when_the_command_that_made_it_was_sent() {
    let site = Site::start();
    let coordinator = &site.coordinator;
    coordinator.registry().ask(owner(1));
    let waiter = coordinator.registry().wait(owner(1));
    let long_ago = Moment::from_micros(7);
    let handed = Handed {
        owner: owner(1),
        token: FencingToken::new(1),
        coordinator: coordinator.id().clone(),
        of_session: true,
    };
    let executed = Executed {
        reply: Reply::Changed(true),
        at: StoreTime::from_micros(7),
        handed: vec![handed],
        more: false,
    };
    let sent_at = long_ago;
    coordinator.note(&name(), &Stamped { executed, sent_at });
    match waiter.await.unwrap() {
        Delivery::Granted { sent_at, .. } => assert_eq!(sent_at, long_ago),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_leaves_the_queue_and_a_hold_is_given_back() {
    let site = Site::start();
    let hold = site.hold(1).await;
    let in_line = site.wait(2).await;
    assert_eq!(site.seen().await, (1, 1));
    drop(in_line);
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(site.seen().await, (1, 0));
    drop(hold);
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(site.seen().await, (0, 0));
    assert!(!site.coordinator.knows(&owner(1)) && !site.coordinator.knows(&owner(2)));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_comes_before_its_acquire_is_sent_again() {
    let site = Site::start();
    let later = clock::now().after(Duration::from_secs(60));
    site.coordinator.leave(Leftover {
        name: name(),
        owner: owner(1),
        end: End::Clean,
        may_arrive_until: Some(later),
        gone_at: later,
        tracked: site.coordinator.metrics().inflight_cleanups.track(),
    });
    // The release finds nothing.
    tokio::time::sleep(A_MOMENT).await;
    let arrives = site.coordinator.command(name(), Op::Acquire(acquire(1)));
    site.coordinator.store().execute(arrives).await.unwrap();
    assert_eq!(site.seen().await, (1, 0));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(site.seen().await, (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_session_is_told_that_its_hold_was_forced_here_and_elsewhere() {
    let site = Site::start();
    let inbox = Arc::new(Inbox::default());
    let hold = site.hold(1).await;
    hold.tell(Arc::clone(&inbox));
    let (released, _) = site.coordinator.force_release(&name()).await.unwrap();
    assert!(released);
    assert_eq!(taken(&inbox).await, (owner(1), Loss::Forced));
    hold.forget();

    let hold = site.hold(2).await;
    hold.tell(Arc::clone(&inbox));
    let (name, owner) = (name(), owner(2));
    site.tell(WakeUp::Forced { name, owner }).await;
    assert_eq!(taken(&inbox).await, (owner, Loss::Forced));
}

#[tokio::test(start_paused = true)]
async fn a_session_is_told_that_another_stream_of_this_coordinator_resumed_its_hold() {
    let site = Site::start();
    let coordinator = &site.coordinator;
    let inbox = Arc::new(Inbox::default());
    let hold = site.hold(1).await;
    hold.tell(Arc::clone(&inbox));
    let resume = Resume {
        from: vec![owner(1)],
        next: owner(2),
        session: SessionId::from_bytes([2; 16]),
        client_name: ClientName::parse("client").unwrap(),
        ttl: Duration::from_secs(60),
        count: 1,
    };
    let takeover = coordinator.take_over(name(), resume.clone(), Wait::Forever);
    let mut takeover = takeover.unwrap();
    assert!(
        coordinator
            .take_over(name(), resume, Wait::Forever)
            .is_none(),
        "the next owner id is known here"
    );
    let result = coordinator.store().execute(takeover.command()).await;
    let Ok(TakenOver::Held { hold: heir, .. }) = takeover.answered(result) else {
        panic!("not resumed");
    };
    assert_eq!(taken(&inbox).await, (owner(1), Loss::Resumed));
    assert_eq!(heir.token(), hold.token());
    // What the old session lets go of is not the lock.
    drop(hold);
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(site.seen().await, (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_told_before_its_waiter_is_known_is_confirmed_at_once() {
    let site = Site::start();
    let coordinator = &site.coordinator;
    coordinator.registry().ask(owner(1));
    site.tell_granted(1).await;
    let began = Instant::now();
    let delivery = coordinator.registry().wait(owner(1));
    let _waiting = Waiting::new(coordinator.clone(), name(), Arc::new(acquire(1)), None);
    // It is not true that it was granted, so it joins the queue, and is granted what is free.
    let delivery = delivery.await.unwrap();
    assert!(matches!(delivery, Delivery::Granted { .. }), "{delivery:?}");
    assert!(began.elapsed() < REFRESH_INTERVAL);
}

#[tokio::test(start_paused = true)]
async fn a_hand_off_that_is_confirmed_counts_from_when_its_confirmation_was_sent() {
    let site = Site::start();
    let coordinator = &site.coordinator;
    // Another coordinator would have made the grant. Here the command is sent past whoever would take the hold in.
    let granted = coordinator.command(name(), Op::Acquire(acquire(1)));
    coordinator.store().execute(granted).await.unwrap();
    coordinator.registry().ask(owner(1));
    site.tell_granted(1).await;
    let delivery = coordinator.registry().wait(owner(1));
    let _waiting = Waiting::new(coordinator.clone(), name(), Arc::new(acquire(1)), None);
    let sent_at = match delivery.await.unwrap() {
        Delivery::Granted { sent_at, .. } => sent_at,
        other => panic!("{other:?}"),
    };
    // The store in memory reads the clock when a command is sent: the confirmed hold ends exactly a TTL after that.
    let seen = coordinator.execute(&name(), Op::View { waiters: 0 }).await;
    let Stamped {
        executed,
        sent_at: seen_at,
    } = seen.unwrap();
    let Reply::Seen(view) = executed.reply else {
        panic!("{executed:?}");
    };
    let [HolderView::Ours(holder)] = &view.holders[..] else {
        panic!("{view:?}");
    };
    let stands_until = sent_at.after(acquire(1).ttl);
    assert_eq!(stands_until, seen_at.after(holder.expires_in));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_waited_for_is_refreshed_at_once_when_a_reply_was_lost() {
    let site = Site::start();
    let _hold = site.hold(1).await;
    let _in_line = site.wait(2).await;
    tokio::time::sleep(A_MOMENT).await;
    let before = site.operations();
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(site.operations(), before, "there is no reason to");
    let lost = StoreError::Indeterminate {
        reason: "lost".to_owned(),
    };
    site.coordinator.outcome(&name(), Err(lost)).unwrap_err();
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(site.operations(), before + 1);
    let unsent = StoreError::Unavailable {
        reason: "not sent".to_owned(),
    };
    site.coordinator.outcome(&name(), Err(unsent)).unwrap_err();
    tokio::time::sleep(A_MOMENT).await;
    assert_eq!(site.operations(), before + 1, "nothing can have happened");
}
