//! Tests of the driver on connections whose events the tests decide.

use std::future::poll_fn;

use tokio::time::timeout;

use super::*;
use crate::{
    guard::LockGuard,
    proto::{
        v1::{SessionResponse, session_response::Response},
        wire,
    },
    session::{
        link::{Link, Outbound},
        lock_spec::LockSpec,
        spec::Locks,
    },
};

const LONG: Duration = Duration::from_secs(60);

type Events = mpsc::UnboundedSender<Event>;

/// Returns a connection with this stream, and what its events come from.
fn connection(stream: u64) -> (Events, Connection) {
    let (events, mut received) = mpsc::unbounded_channel();
    let ended = |event: Option<Event>| event.unwrap_or(Event::Ended(None));
    let next = poll_fn(move |context| received.poll_recv(context).map(ended));
    let connection = Connection {
        number: Some(stream),
        candidate: None,
        credentials: 0,
        link: Link::Pending(Box::pin(next)),
        outbound: Outbound::default(),
    };
    (events, connection)
}

fn message(request_id: u64, response: Response) -> SessionResponse {
    SessionResponse {
        request_id,
        response: Some(response),
    }
}

fn hear(driver: &mut Driver, now: Moment, stream: u64, message: SessionResponse) {
    driver.machine.message(now, stream, message);
    driver.carry_out();
}

/// A session whose attempt to move is not answered in time.
struct Moving {
    driver: Driver,
    guard: LockGuard,
    /// The id that the attempt was to resume the lock under.
    tried: Vec<u8>,
    overdue: Events,
    // The driver ends without the senders, and streams without theirs.
    _kept: (
        mpsc::Sender<AcquireCommand>,
        mpsc::UnboundedSender<Note>,
        Events,
    ),
}

impl Moving {
    /// Lives until that attempt is given up, while so many older ones are kept.
    async fn new(overdue: Vec<Connection>) -> Self {
        let now = Moment::now();
        let (acquires_sender, acquires) = mpsc::channel(1);
        let (notes_sender, notes) = mpsc::unbounded_channel();
        let channels = Channels {
            acquires,
            notes,
            note_sender: notes_sender.downgrade(),
            status: watch::channel(Status::default()).0,
            opened: None,
        };
        // Nobody is there.
        let settings = Arc::new(Settings::new("http://127.0.0.1:1".into()));
        let mut driver = Driver::new(settings, v1::SessionOpen::default(), channels);

        let old = driver.machine.connected(now, "http://old".into());
        let (old_events, current) = connection(old);
        driver.next = Some(current);
        let opened = v1::SessionOpened {
            ttl: Some(wire(LONG)),
            heartbeat_interval: Some(wire(LONG / 3)),
            ..Default::default()
        };
        hear(&mut driver, now, old, message(1, Response::Opened(opened)));
        driver.overdue = overdue;

        let (reply, granted) = oneshot::channel();
        let spec = AcquireSpec::new(Locks::One(LockSpec::exclusive("a")));
        driver.machine.acquire(now, 1, spec, reply);
        let lock = v1::GrantedLock {
            name: "a".into(),
            owner_id: b"o".into(),
            fencing_token: 7,
            hold_count: 1,
            permits: 0,
        };
        let grant = v1::SessionGranted {
            locks: vec![lock],
            valid_for: Some(wire(LONG)),
            ..Default::default()
        };
        hear(&mut driver, now, old, message(2, Response::Granted(grant)));
        let guard = granted.await.unwrap().unwrap().remove(0);

        let draining = v1::SessionDraining {
            deadline: Some(wire(LONG)),
            ..Default::default()
        };
        hear(
            &mut driver,
            now,
            old,
            message(0, Response::Draining(draining)),
        );
        let attempt = driver.machine.connected(now, "http://next".into());
        let (overdue, next) = connection(attempt);
        driver.next = Some(next);
        driver.carry_out();
        let limit = driver.machine.attempt_limit(now);
        driver.machine.tick(now.after(limit));
        driver.carry_out();
        let tried = driver.machine.holds.all_ids().next();
        let tried = tried.and_then(|ids| ids.tried().last().cloned());
        Self {
            driver,
            guard,
            tried: tried.unwrap_or_default(),
            overdue,
            _kept: (acquires_sender, notes_sender, old_events),
        }
    }
}

/// Has this happen on the overdue stream, and waits for the loss.
async fn lost_after(event: fn(&[u8]) -> Event) -> LostReason {
    let moving = Moving::new(Vec::new()).await;
    assert!(moving.guard.is_held());
    let task = tokio::spawn(moving.driver.run());
    moving.overdue.send(event(&moving.tried)).ok().unwrap();
    let reason = timeout(LONG / 6, moving.guard.lost()).await.unwrap();
    task.abort();
    reason
}

#[tokio::test]
async fn the_end_of_a_stream_that_did_not_open_in_time_ends_guards() {
    let reason = lost_after(|_| Event::Ended(None)).await;
    assert_eq!(reason, LostReason::SessionEnded);
}

#[tokio::test]
async fn a_loss_on_a_stream_that_did_not_open_in_time_ends_guards() {
    let reason = lost_after(|tried| {
        let lock = v1::LostLock {
            name: "a".into(),
            owner_id: tried.into(),
            reason: v1::LostReason::Forced.into(),
        };
        let lost = v1::SessionLost { locks: vec![lock] };
        Event::Message(message(0, Response::Lost(lost)))
    });
    assert_eq!(reason.await, LostReason::Forced);
}

#[tokio::test]
async fn a_stream_that_is_cut_because_there_are_too_many_has_ended() {
    let (events, others): (Vec<_>, Vec<_>) = (100..).take(MOST_OVERDUE).map(connection).unzip();
    let moving = Moving::new(others).await;
    assert_eq!(moving.driver.overdue.len(), MOST_OVERDUE);
    assert!(!moving.guard.is_held());
    drop(events);
}
