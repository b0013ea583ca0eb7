use std::{sync::Arc, time::Duration};

use leasehold_core::name::LockName;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{account::Accounts, *};

const SECOND: u64 = 1_000_000_000;

fn limits(set: impl FnOnce(&mut Config)) -> Limits {
    let mut config = Config::default();
    set(&mut config);
    Limits::new(config.into())
}

fn caller(address: &str) -> Caller {
    Caller::anonymous(format!("{address}:1").parse().unwrap())
}

#[test]
fn a_second_of_requests_may_come_at_once_and_more_at_the_rate() {
    let account = Account::default();
    let at = 7 * SECOND;
    for _ in 0..10 {
        account.take(10, at).unwrap();
    }
    assert_eq!(account.take(10, at), Err(Duration::from_millis(100)));
    // What was refused does not count.
    assert_eq!(account.take(10, at), Err(Duration::from_millis(100)));
    account.take(10, at + SECOND / 10).unwrap();
    let later = at + SECOND / 10 + SECOND / 20;
    assert_eq!(account.take(10, later), Err(Duration::from_millis(50)));
    // The rate may change meanwhile.
    account.take(20, later).unwrap();
    account.take(0, at).unwrap();
}

#[test]
fn over_any_time_no_more_is_served_than_the_rate_allows() {
    let account = Account::default();
    let served = (0..50_000_u64)
        .filter(|step| account.take(100, step * 100_000).is_ok())
        .count();
    // Five seconds, and the one that may come at once.
    assert!((598..=600).contains(&served), "{served}");
}

#[test]
fn debts_are_paid_before_anything_else_and_within_seconds() {
    let account = Account::default();
    account.owe(0, 100, SECOND);
    account.owe(300, 100, SECOND);
    // A second of them may come at once, so two are left.
    assert_eq!(account.take(100, SECOND), Err(Duration::from_millis(2_010)));
    assert!(account.take(100, 3 * SECOND).is_err());
    assert!(account.take(100, 3 * SECOND + SECOND / 100).is_ok());
    for _ in 0..2 {
        account.owe(u32::MAX, 1, 4 * SECOND);
    }
    assert!(account.take(100, 14 * SECOND).is_err());
    assert!(account.take(100, 14 * SECOND + SECOND / 100).is_ok());
    // Any number may be made.
    account.owe(u32::MAX, 0, 15 * SECOND);
    assert!(account.take(100, 16 * SECOND).is_ok());
}

#[test]
fn callers_do_not_pay_for_one_another() {
    let limits = limits(|config| config.max_requests_per_second = 1);
    let (one, other) = (caller("192.0.2.1"), caller("192.0.2.2"));
    limits.request(&limits.account(&one)).unwrap();
    let refusal = limits.request(&limits.account(&one)).unwrap_err();
    limits.request(&limits.account(&other)).unwrap();

    let status = Status::from(refusal);
    assert_eq!(status.code(), Code::ResourceExhausted);
    let details = status.get_error_details();
    let info = details.error_info().unwrap();
    assert_eq!(info.reason, "RATE_LIMITED");
    assert_eq!(info.metadata["limit"], "1");
    assert_eq!(info.metadata["setting"], "max-requests-per-second");
    let wait = details.retry_info().unwrap().retry_delay.unwrap();
    assert!(wait > Duration::from_millis(900) && wait <= Duration::from_secs(1));
}

#[test]
fn accounts_that_nobody_uses_are_forgotten() {
    let accounts = Accounts::default();
    let kept = accounts.of("kept".into(), 0);
    let busy = accounts.of("busy".into(), 0);
    busy.take(1, 0).unwrap();
    drop(busy);
    for number in 0..10_000 {
        accounts.of(format!("{number}").into(), 0);
    }
    assert!(accounts.len() <= 1024, "{}", accounts.len());
    assert!(Arc::ptr_eq(&kept, &accounts.of("kept".into(), 0)));
    // It has a request of this second.
    assert!(accounts.of("busy".into(), 0).take(1, 0).is_err());
}

#[test]
fn places_are_free_again_when_they_are_given_up() {
    let limits = limits(|config| {
        config.max_sessions_per_identity = 1;
        config.max_waiters_per_name = 1;
        config.max_watchers = 2;
        config.max_watchers_per_identity = 1;
    });
    let account = || limits.account(&caller("192.0.2.1"));
    for _ in 0..2 {
        let _session = limits.session(account(), false).unwrap();
        assert!(limits.session(account(), false).is_err());
        let _other = limits
            .session(limits.account(&caller("192.0.2.2")), false)
            .unwrap();

        let name = LockName::parse("name").unwrap();
        let _waiter = limits.waiter(&name).unwrap();
        assert!(limits.waiter(&name).is_err());
        let _elsewhere = limits.waiter(&LockName::parse("other").unwrap()).unwrap();
        let _again = limits.waiter_again(&name);

        let _watcher = limits.watcher(account()).unwrap();
        assert!(limits.watcher(account()).is_err());
        let [other, third] = ["192.0.2.2", "192.0.2.3"].map(|at| limits.account(&caller(at)));
        let _others = limits.watcher(other).unwrap();
        assert!(limits.watcher(third).is_err());
    }
    assert_eq!(limits.shared.waiters.len(), 0, "nothing is left behind");
}

#[test]
fn a_session_that_resumes_takes_the_place_of_one_that_may_be_replaced() {
    let limits = limits(|config| config.max_sessions_per_identity = 2);
    let account = || limits.account(&caller("192.0.2.1"));
    let mut kept = limits.session(account(), false).unwrap();
    let mut other = limits.session(account(), false).unwrap();
    assert!(limits.session(account(), true).is_err());
    kept.may_be_replaced();
    kept.may_be_replaced();
    // It counts until it has ended, but for whoever resumes.
    assert!(limits.session(account(), false).is_err());
    let mut resumed = limits.session(account(), true).unwrap();
    assert!(limits.session(account(), true).is_err());
    drop(kept);
    assert!(limits.session(account(), true).is_err());
    // However many are kept, there are never more than twice as many.
    other.may_be_replaced();
    resumed.may_be_replaced();
    let mut more: Vec<_> = (0..2)
        .map(|_| limits.session(account(), true).unwrap())
        .collect();
    more.iter_mut().for_each(SessionPlace::may_be_replaced);
    assert!(limits.session(account(), true).is_err());
    drop((other, resumed, more));
    let all: Vec<_> = (0..3)
        .filter_map(|_| limits.session(account(), true).ok())
        .collect();
    assert_eq!(all.len(), 2);
}

#[tokio::test]
async fn the_listener_is_bound_by_the_configuration_as_it_changes() {
    let (sender, receiver) = tokio::sync::watch::channel(Arc::new(Config::default()));
    let limits = Limits::new(Reload::new(receiver));
    let connections = Connections::new();
    let metrics = Metrics::new(connections.clone(), true);
    let stop = CancellationToken::new();
    let following = limits
        .clone()
        .follow(connections.clone(), metrics.clone(), stop.clone());
    let following = tokio::spawn(following);
    for (max, max_per_address) in [(7, 3), (5, 0)] {
        sender.send_replace(Arc::new(Config {
            max_connections: max,
            max_connections_per_address: max_per_address,
            max_locks_per_session: max,
            ..Config::default()
        }));
        // It is followed by a task on this thread.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(connections.bounds(), (max, max_per_address));
        let shown = format!("leasehold_limit{{limit=\"max-connections\"}} {max}");
        let text = metrics.encode();
        assert!(text.contains(&shown), "{text}");
    }
    stop.cancel();
    following.await.unwrap();
    // What a session might have had at any time it may still resume.
    assert_eq!(limits.config().max_locks_per_session, 5);
    assert_eq!(limits.most_locks(), Config::default().max_locks_per_session);
}
