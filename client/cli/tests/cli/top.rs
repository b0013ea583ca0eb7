//! `top` at a real pseudo-terminal, with a real coordinator on a real Redis.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use leasehold_client::{AcquireError, Client, LockGuard, LostReason};
use leasehold_tests::{Coordinator, RedisServer, Terminal};
use vt100::Screen;

use super::{heed_signals, output, until_waiters};

const SIZES: [(u16, u16); 2] = [(80, 24), (200, 60)];
/// TTL that lasts on a busy machine, too.
const LONG: Duration = Duration::from_secs(60);

struct Site {
    coordinator: Coordinator,
    _redis: RedisServer,
}

impl Site {
    fn start() -> Self {
        let redis = RedisServer::start();
        Self {
            coordinator: Coordinator::in_process_with(["--store", &redis.url()]),
            _redis: redis,
        }
    }

    async fn client(&self, name: &str) -> Client {
        let builder = Client::builder().client_name(name).ttl(LONG);
        builder.connect(self.coordinator.endpoint()).await.unwrap()
    }

    fn top(&self, (columns, rows): (u16, u16), args: &[&str]) -> Terminal {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
        command
            .arg("top")
            .args(args)
            .env("LEASEHOLD_ENDPOINT", self.coordinator.endpoint())
            .env_remove("NO_COLOR");
        heed_signals(&mut command);
        Terminal::open(columns, rows, command)
    }
}

/// Acquires so many locks: `many/0` and so on.
async fn many(client: &Client, count: usize) -> Vec<LockGuard> {
    let locks = (0..count).map(|number| client.lock(format!("many/{number}")));
    let tasks: Vec<_> = locks.map(|lock| tokio::spawn(lock.into_future())).collect();
    let mut guards = Vec::new();
    for task in tasks {
        guards.push(task.await.unwrap().unwrap());
    }
    guards
}

/// Returns the lines of a screen, without what is blank at their ends.
fn lines(screen: &Screen) -> Vec<String> {
    let contents = screen.contents();
    contents
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_are_shown_the_hottest_first_and_found() {
    let site = Site::start();
    let client = site.client("worker").await;
    let _guards = many(&client, 500).await;
    let other = site.client("other").await;
    let waiting = tokio::spawn(other.lock("many/471").into_future());
    until_waiters(&client, "many/471", 1).await;
    for size in SIZES {
        let mut top = site.top(size, &[]);
        top.until_shown("500 held, 1 waiting");
        top.until_shown("serving, store up");
        // Until then, a screen may be in part the one before.
        top.until("lock that is waited for, as the first", |screen| {
            let lines = lines(screen);
            let first = lines.iter().find(|line| line.starts_with("many/"));
            let cells: Vec<&str> = first.map_or("", |line| line).split_whitespace().collect();
            cells.starts_with(&["many/471", "exclusive", "worker"]) && cells[cells.len() - 2] == "1"
        });
        let shown = lines(top.screen());
        assert!(shown.len() <= usize::from(size.1), "{shown:#?}");
        top.press("s");
        top.until_shown("sorted by rate");
        top.press("/many/49");
        top.until("name that is looked for, alone", |screen| {
            let lines = lines(screen);
            let is_shown = |name: &str| lines.iter().any(|line| line.starts_with(name));
            is_shown("many/499 ") && !is_shown("many/471")
        });
        top.press("\rq");
        assert_eq!(top.until_ended().code(), Some(0));
        assert!(!top.screen().alternate_screen() && !top.screen().hide_cursor());
        assert_eq!(top.settings(), top.first_settings());
    }
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_locks_it_says_so_and_shows_those_that_come() {
    let site = Site::start();
    let mut top = site.top(SIZES[0], &[]);
    top.until_shown("No locks are held.");
    top.until_shown("0 held, 0 waiting");
    let client = site.client("worker").await;
    let guard = client.lock("orders/1").await.unwrap();
    top.until_shown("1 held, 0 waiting");
    top.until_shown("granted");
    guard.release().await.unwrap();
    top.until_shown("released");
    top.until_shown("0 held, 0 waiting");
    top.press("q");
    assert_eq!(top.until_ended().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_and_a_wait_are_ended_after_a_question_that_names_the_client() {
    let site = Site::start();
    let holder = site.client("cron on host 7").await;
    let guard = holder.lock("orders/1").await.unwrap();
    let (next, last) = (site.client("next").await, site.client("last").await);
    let next_waits = tokio::spawn(next.lock("orders/1").into_future());
    until_waiters(&holder, "orders/1", 1).await;
    let last_waits = tokio::spawn(last.lock("orders/1").into_future());
    until_waiters(&holder, "orders/1", 2).await;

    let mut top = site.top(SIZES[0], &["orders/"]);
    top.until_shown("1 held, 2 waiting");
    top.press("\r");
    top.until_shown("Lock orders/1: exclusive, 1 holding, 2 waiting");
    // No is a no.
    top.press("x");
    top.until_shown("Take orders/1 from cron on host 7?");
    top.press("n");
    top.until("question", |screen| !screen.contents().contains("y: yes"));
    assert!(guard.is_held());
    // The last waiter.
    top.press("\u{1b}[F");
    top.press("x");
    top.until_shown("End the wait of last for orders/1?");
    top.press("y");
    top.until_shown("the wait of last for orders/1 was ended");
    let error = last_waits.await.unwrap().unwrap_err();
    assert!(
        matches!(error, AcquireError::ForceReleased { .. }),
        "{error}"
    );
    // The holder.
    top.press("\u{1b}[H");
    top.press("x");
    top.until_shown("Take orders/1 from cron on host 7?");
    top.press("y");
    top.until_shown("orders/1 was taken from cron on host 7");
    assert_eq!(guard.lost().await, LostReason::Forced);
    let _granted = next_waits.await.unwrap().unwrap();
    top.until_shown("1 holding, 0 waiting");
    top.press("\u{1b}");
    top.until_shown("1 held, 0 waiting");
    top.press("\u{3}");
    assert_eq!(top.until_ended().code(), Some(130));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_end_it_and_the_terminal_is_as_before() {
    use rustix::process::Signal;

    let site = Site::start();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut top = site.top(SIZES[0], &[]);
        top.until_shown("No locks are held.");
        assert!(top.screen().alternate_screen() && top.screen().hide_cursor());
        assert_ne!(top.settings(), top.first_settings());
        top.signal(signal);
        assert_eq!(top.until_ended().code(), Some(code));
        assert!(!top.screen().alternate_screen() && !top.screen().hide_cursor());
        assert_eq!(top.settings(), top.first_settings());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_that_goes_away_is_told_without_an_end() {
    let site = Site::start();
    let mut top = site.top(SIZES[0], &[]);
    top.until_shown("serving, store up");
    let Site {
        coordinator,
        _redis,
    } = site;
    drop(coordinator);
    top.until_shown("Not up to date: ");
    top.until_shown("no answer: ");
    top.press("q");
    assert_eq!(top.until_ended().code(), Some(0));
}

#[test]
fn without_a_terminal_or_a_coordinator_it_says_what_to_do() {
    let refused = output("http://127.0.0.1:1", &["top"]);
    refused.ended(64).says(&["use `leasehold watch`"]);
    let refused = output("http://127.0.0.1:1", &["top", "--json"]);
    refused.ended(64);

    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command
        .args(["--endpoint", "http://127.0.0.1:1", "top"])
        .stdin(Stdio::null());
    let mut top = Terminal::open(80, 24, command);
    assert_eq!(top.until_ended().code(), Some(69));
    let shown = top.screen().contents();
    assert!(shown.contains("failed to watch the locks"), "{shown}");
}
