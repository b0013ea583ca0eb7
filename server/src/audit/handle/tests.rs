use std::{fs, time::Duration};

use leasehold_core::id::SessionId;
use tempfile::TempDir;

use super::*;
use crate::coordinator::tests::site::{self, name, owner};

/// An audit log whose lines a test reads at its end.
struct Log {
    audit: Audit,
    unwritten: Unwritten,
    folder: TempDir,
}

impl Log {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let coordinator = CoordinatorId::new("here");
        let path = folder.path().join("audit.log");
        let opened = Audit::open(&path, &coordinator, Counters::default());
        let (audit, unwritten) = opened.unwrap();
        audit.learn(at(0));
        Self {
            audit,
            unwritten,
            folder,
        }
    }

    /// Asks for the lock as owner `number` and is granted it with this token at this second.
    fn hold(&self, number: u8, session: bool, token: i64) {
        self.ask(number, session);
        self.grant(number, token);
    }

    fn ask(&self, number: u8, session: bool) {
        let acquire = acquire(number, session);
        self.audit.asked(&name(), &acquire, &Holder::default());
    }

    fn grant(&self, number: u8, token: i64) {
        let granted = (FencingToken::new(token), None);
        self.audit.granted(&owner(number), granted, Some(at(token)));
    }

    fn lost(&self, number: u8, why: LostWhy, is_releasing: bool) {
        self.audit.lost(&owner(number), why, is_releasing);
    }

    /// Ends the log. Returns of each line the event, why, and the token, without the first and the last.
    async fn lines(self) -> Vec<String> {
        self.unwritten.begin().unwrap().end().await;
        let text = fs::read_to_string(self.folder.path().join("audit.log")).unwrap();
        let lines = text.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let words = ["event", "why"].map(|key| line[key].as_str().unwrap_or_default());
            format!("{} {} {}", words[0], words[1], line["token"])
        });
        let lines: Vec<_> = lines.collect();
        let [first, told @ .., last] = &lines[..] else {
            return lines;
        };
        assert_eq!(first.as_str(), "started  null");
        assert_eq!(last.as_str(), "stopped  null");
        told.to_vec()
    }
}

fn at(second: i64) -> StoreTime {
    StoreTime::from_micros(1_000_000 * second)
}

fn acquire(number: u8, session: bool) -> Acquire {
    let of_session = site::acquire(number);
    Acquire {
        session: of_session.session.filter(|_| session),
        ..of_session
    }
}

#[tokio::test]
async fn every_grant_has_one_end_and_a_waiter_none() {
    let log = Log::open();
    log.hold(1, true, 5);
    log.audit.ending(&owner(1), Why::Silent);
    // What follows from that is no other reason.
    log.audit.ending(&owner(1), Why::GivenBack);
    log.audit.released(&owner(1), Some(at(6)));
    log.audit.released(&owner(1), None);
    log.ask(2, true);
    log.audit.forgotten(&owner(2));
    log.grant(2, 7);
    log.ask(3, true);
    log.audit.released(&owner(3), None);
    // A hold of the unary calls is forgotten by its call, and goes on.
    log.hold(4, false, 8);
    log.audit.forgotten(&owner(4));
    log.audit.released(&owner(4), Some(at(9)));
    let expected = [
        "granted  5",
        "released silent 5",
        "granted  8",
        "released client 8",
    ];
    assert_eq!(log.lines().await, expected);
}

#[tokio::test]
async fn a_loss_is_told_at_once_unless_a_release_finds_out() {
    let log = Log::open();
    for (number, loss) in [
        (1, Loss::Deleted),
        (2, Loss::Taken),
        (3, Loss::Forced),
        (4, Loss::Resumed),
    ] {
        log.hold(number, true, number.into());
        log.lost(number, LostWhy::Store(loss), false);
    }
    log.hold(5, true, 5);
    log.lost(5, LostWhy::Store(Loss::Forced), true);
    // It is not known yet whether the store has let these expire.
    for number in [6, 7] {
        log.hold(number, true, number.into());
        log.lost(number, LostWhy::Store(Loss::Expired), false);
    }
    log.audit.released(&owner(6), None);
    log.audit.released(&owner(7), Some(at(9)));
    for (number, why) in [(10, Why::Client), (11, Why::ClientGone)] {
        log.hold(number, true, number.into());
        log.audit.ending(&owner(number), why);
        log.audit.released(&owner(number), None);
    }
    log.hold(8, true, 8);
    log.lost(8, LostWhy::MaxHold, false);
    log.audit.released(&owner(8), Some(at(9)));
    let lines = log.lines().await;
    let ends = lines.iter().filter(|line| !line.starts_with("granted"));
    let expected = [
        "lost deleted 1",
        "lost taken 2",
        "force_released operator 3",
        "force_released session_ended 5",
        "expired not_renewed 6",
        "released not_renewed 7",
        "lost found_gone 10",
        "left found_gone 11",
        "released max_hold 8",
    ];
    assert_eq!(ends.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_hold_of_the_unary_calls_is_looked_for_when_its_time_is_over() {
    let log = Log::open();
    let now = clock::now();
    let later = |seconds| now.after(Duration::from_secs(seconds));
    log.hold(1, false, 1);
    log.hold(2, false, 2);
    log.audit.stands_until(owner(1), later(3));
    log.audit.stands_until(owner(2), later(2));
    // It was renewed.
    log.audit.stands_until(owner(2), later(4));
    assert_eq!(log.audit.next_due(), Some(later(3)));
    let due = log.audit.take_due(later(3)).unwrap();
    assert_eq!((due.0, due.2), (owner(1), FencingToken::new(1)));
    assert_eq!(log.audit.take_due(later(3)), None);
    log.audit.not_seen(&owner(1));
    log.audit.lost_by_caller(&owner(2), Loss::Forced);
    assert_eq!(log.audit.next_due(), None);
    // A session's hold is not the unary calls'.
    log.hold(3, true, 3);
    log.audit.lost_by_caller(&owner(3), Loss::Forced);
    let lines = log.lines().await;
    let ends = lines.iter().filter(|line| !line.starts_with("granted"));
    let expected = [
        "expired not_seen 1",
        "force_released operator 2",
        "left stopped 3",
    ];
    assert_eq!(ends.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_resumed_hold_is_that_of_the_identity_that_resumed_it() {
    let log = Log::open();
    log.hold(1, true, 5);
    let resume = Resume {
        from: vec![owner(1)],
        next: owner(2),
        session: Some(SessionId::from_bytes([9; 16])),
        client_name: ClientName::default(),
        ttl: Duration::from_secs(10),
        count: 1,
        max_hold: None,
    };
    let by = Holder {
        identity: Some("token:b".into()),
        is_candidate: false,
    };
    let held = (Some(FencingToken::new(5)), Mode::Exclusive);
    log.audit.resumed(&name(), &resume, held, (&by, at(6)));
    log.audit.released(&owner(2), Some(at(7)));
    log.unwritten.begin().unwrap().end().await;
    let text = fs::read_to_string(log.folder.path().join("audit.log")).unwrap();
    // It is resumed, and released.
    assert_eq!(text.matches("token:b").count(), 2, "{text}");
}

#[tokio::test]
async fn a_resumed_hold_keeps_what_is_known_of_it() {
    let log = Log::open();
    log.hold(1, true, 5);
    let resume = |from: u8, next: u8| Resume {
        from: vec![owner(from)],
        next: owner(next),
        session: Some(SessionId::from_bytes([9; 16])),
        client_name: ClientName::default(),
        ttl: Duration::from_secs(10),
        count: 1,
        max_hold: None,
    };
    let held = |token| (Some(FencingToken::new(token)), Mode::Exclusive);
    let of = (&Holder::default(), at(6));
    log.audit.resumed(&name(), &resume(1, 2), held(5), of);
    // The answer to the same was lost.
    log.audit.resumed(&name(), &resume(1, 2), held(5), of);
    // The session that had it hears of it.
    log.lost(1, LostWhy::Store(Loss::Resumed), false);
    log.audit.released(&owner(2), Some(at(7)));
    // One that another coordinator granted; and a place, which is granted here.
    log.audit.resumed(&name(), &resume(3, 4), held(8), of);
    log.audit.released(&owner(4), Some(at(9)));
    log.audit
        .resumed(&name(), &resume(5, 6), (None, Mode::Shared), of);
    log.grant(6, 10);
    log.audit.released(&owner(6), Some(at(11)));
    let expected = [
        "granted  5",
        "resumed  5",
        "released client 5",
        "resumed  8",
        "released client 8",
        "granted  10",
        "released client 10",
    ];
    assert_eq!(log.lines().await, expected);
}

#[tokio::test]
async fn a_grant_that_a_fail_over_had_lost_ends_before_the_next() {
    let log = Log::open();
    log.hold(1, true, 5);
    log.grant(1, 5);
    log.grant(1, 6);
    log.audit.left(&owner(1));
    let expected = ["granted  5", "lost taken 5", "granted  6", "left stopped 6"];
    assert_eq!(log.lines().await, expected);
}

#[test]
fn without_a_log_nothing_is_kept() {
    let audit = Audit::default();
    audit.asked(&name(), &acquire(1, true), &Holder::default());
    audit.granted(&owner(1), (FencingToken::new(1), None), None);
    audit.stands_until(owner(1), clock::now());
    assert!(!audit.is_on());
    assert_eq!(audit.next_due(), None);
    assert_eq!(audit.text(Some("token:ci")), None);
}
