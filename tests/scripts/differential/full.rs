//! Redis without memory left.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Command, Op, Reply},
    mode::{Mode, Permits},
    name::{ClientName, Value},
};
use leasehold_store::StoreError;

use crate::{
    common::{acquire, acquiring, owner, release, release_uncleanly, renew, resume},
    differential::{pair::Pair, server::Server},
};

/// Returns how much the keys in Redis take.
async fn size(server: &Server) -> u64 {
    let keys: Vec<String> = server.ask(&["KEYS", "*"]).await;
    let mut sum = 0;
    for key in keys {
        let bytes: Option<u64> = server.ask(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]).await;
        sum += bytes.unwrap_or_default();
    }
    sum
}

/// Returns an acquire with as much data as is allowed.
fn large(number: u16, mode: Mode, wait: bool) -> Op {
    Op::Acquire(Acquire {
        value: Value::parse(&[7; 4096]).unwrap(),
        client_name: ClientName::parse(&"n".repeat(256)).unwrap(),
        wait,
        ..acquiring(number, mode)
    })
}

/// Returns a resume under a long client name, with unknown owner ids.
fn long_resume(from: u16, next: u16) -> Op {
    let unknown = (0..64).map(|number| 20_000 + number);
    let from: Vec<u16> = unknown.chain([from]).collect();
    let Op::Resume(mut asked) = resume(&from, next) else {
        panic!("it is a resume")
    };
    asked.client_name = ClientName::parse(&"n".repeat(256)).unwrap();
    Op::Resume(asked)
}

/// Locks of each kind, and one at a time of those.
struct Locks {
    held: Pair,
    waited_for: Pair,
    shared: Pair,
    given_back: Pair,
}

impl Locks {
    async fn make(server: &Server, number: u16) -> Self {
        let pair = async |kind: &str| Pair::new(server, &format!("{kind}/{number}")).await;
        let mut all = Self {
            held: pair("held").await,
            waited_for: pair("waited for").await,
            shared: pair("shared").await,
            given_back: pair("given back").await,
        };
        for lock in [&mut all.held, &mut all.waited_for, &mut all.given_back] {
            lock.run("here", acquire(0, Mode::Exclusive)).await;
        }
        all.waited_for
            .run("here", acquire(1, Mode::Exclusive))
            .await;
        all.shared.run("here", acquire(0, Mode::Shared)).await;
        all.shared.run("here", acquire(1, Mode::Shared)).await;
        all
    }

    /// Returns what clients may ask of them in one round, first of all what Redis never refuses.
    fn round(&self, round: u16) -> Vec<Command> {
        let renew = |number| renew(number, Duration::from_secs(500));
        let value = |number| Op::SetValue {
            owner: owner(number),
            value: Value::parse(&[7; 4096]).unwrap(),
        };
        let (now, next) = (round * 10, round * 10 + 10);
        let fresh = 10_000 + round;
        let modes = [
            Mode::Exclusive,
            Mode::Shared,
            Mode::Semaphore(Permits::new(1, 2).unwrap()),
        ];
        let mut commands = Vec::new();
        let mut ask = |pair: &Pair, by: &str, op| commands.push(pair.command(by, op));
        ask(&self.given_back, "here", release(0));
        ask(&self.held, "here", renew(now));
        ask(&self.shared, "here", renew(now));
        for mode in modes {
            for wait in [false, true] {
                ask(&self.given_back, "here", large(fresh, mode, wait));
                ask(&self.held, "here", large(fresh, mode, wait));
                ask(&self.waited_for, "there", large(fresh, mode, wait));
                ask(&self.shared, "here", large(fresh, mode, wait));
            }
        }
        for lock in [&self.held, &self.waited_for, &self.shared] {
            ask(lock, "there", Op::Refresh { oldest: None });
            ask(lock, "there", value(now));
            ask(lock, "here", Op::Downgrade { owner: owner(now) });
            let permits = 1;
            let owner = owner(now);
            ask(lock, "here", Op::Reduce { owner, permits });
            ask(lock, "there", long_resume(now, next));
            ask(lock, "there", long_resume(now + 1, next + 1));
        }
        commands
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_clients_ask_for_makes_a_full_redis_larger() {
    const LOCKS: u16 = 8;
    const ROUNDS: u16 = 12;
    /// Bytes that a hold or place may take more once it was resumed, by its session's id and its count.
    const RESUMED: u64 = 128;
    let server = Server::start().await;
    let store = server.connect().await;
    let mut locks = Vec::new();
    for number in 0..LOCKS {
        locks.push(Locks::make(&server, number).await);
    }
    server.fill().await;
    let before = size(&server).await;
    let (mut refused, mut resumed) = (0, 0);
    for round in 0..ROUNDS {
        let commands: Vec<Command> = locks.iter().flat_map(|locks| locks.round(round)).collect();
        let ops: Vec<Op> = commands.iter().map(|command| command.op.clone()).collect();
        let replies = store.execute_all(commands).await;
        for (op, reply) in ops.iter().zip(replies) {
            let reply = reply.map(|stamped| stamped.executed.reply);
            match (op, reply) {
                (
                    Op::Acquire(_) | Op::SetValue { .. } | Op::Downgrade { .. },
                    Err(StoreError::Refused { .. }),
                ) => refused += 1,
                // No hold of this owner id was exclusive, or any at all.
                (
                    Op::SetValue { .. } | Op::Downgrade { .. } | Op::Reduce { .. },
                    Ok(Reply::Changed(_)),
                )
                | (Op::Release { .. }, Ok(Reply::Released { .. }))
                | (Op::Renew { .. }, Ok(Reply::Renewed))
                | (Op::Refresh { .. }, Ok(Reply::Refreshed { .. })) => {}
                (
                    Op::Resume(_),
                    Ok(Reply::Resumed { .. } | Reply::ResumedWait { .. } | Reply::Lost(_)),
                ) => resumed += 1,
                (op, other) => panic!("{op:?} in round {round}: {other:?}"),
            }
        }
    }
    let after = size(&server).await;
    let holds = u64::from(LOCKS) * 5;
    assert!(
        after <= before + holds * RESUMED,
        "{before} bytes became {after}"
    );
    assert!(refused > 1000 && resumed > 500, "{refused}, {resumed}");
    // Whoever holds something can let go.
    let last = ROUNDS * 10;
    for locks in &locks {
        for lock in [&locks.held, &locks.waited_for, &locks.shared] {
            let released = store.execute(lock.command("there", release(last))).await;
            let released = released.unwrap().executed.reply;
            assert!(
                matches!(released, Reply::Released { held: true, .. }),
                "{released:?}"
            );
        }
    }
}

/// Returns the terms of an acquire under a client name as long as that of the resume: a full Redis takes no longer one.
fn naming(number: u16, mode: Mode) -> Acquire {
    Acquire {
        client_name: ClientName::parse("late").unwrap(),
        ..acquiring(number, mode)
    }
}

fn named(number: u16, mode: Mode) -> Op {
    Op::Acquire(naming(number, mode))
}

/// Asserts that nothing can be acquired.
async fn is_refused(pair: &mut Pair, op: Op) {
    let refused = pair.try_run("here", op).await;
    assert!(
        matches!(refused, Err(StoreError::Refused { .. })),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn holders_and_waiters_can_release_while_nothing_can_be_acquired() {
    let server = Server::start().await;
    let exclusive = Mode::Exclusive;
    let mut held = Pair::new(&server, "held").await;
    let mut free = Pair::new(&server, "free").await;
    let mut shared = Pair::new(&server, "shared").await;
    let mut closing = Pair::new(&server, "closing").await;
    for number in 0..4 {
        held.run("here", named(number, exclusive)).await;
    }
    free.run("here", named(10, exclusive)).await;
    for number in 0..3 {
        shared.run("here", named(number, Mode::Shared)).await;
        let permits = Mode::Semaphore(Permits::new(1, 2).unwrap());
        let asked = Acquire {
            lock_delay: Duration::from_secs(60),
            ..naming(number, permits)
        };
        closing.run("here", Op::Acquire(asked)).await;
    }
    shared.run("here", named(3, exclusive)).await;
    shared.run("here", named(4, Mode::Shared)).await;
    for pair in [&mut held, &mut free, &mut shared, &mut closing] {
        pair.is_full = true;
    }
    server.fill().await;

    // What is held and waited for is resumed.
    let mut resumed = Vec::new();
    for (from, next) in [(0, 100), (3, 103)] {
        resumed.push(held.run("there", resume(&[from], next)).await);
    }
    resumed.push(shared.run("there", resume(&[1], 101)).await);
    resumed.push(closing.run("there", resume(&[2], 102)).await);
    let is_resumed =
        |reply: &Reply| matches!(reply, Reply::Resumed { .. } | Reply::ResumedWait { .. });
    assert!(resumed.iter().all(is_resumed), "{resumed:?}");

    // A waiter leaves; the lock is handed on; one that nobody waits for is released.
    held.run("here", release(2)).await;
    held.run("there", release(100)).await;
    free.run("here", release(10)).await;
    assert_eq!(held.view(10).await.waiter_count, 1);
    for lock in [&mut free, &mut held] {
        is_refused(lock, named(11, exclusive)).await;
    }

    // One of several leaves, and the waiter behind another that leaves is let in; one of them is renewed; permits are
    // closed for a while; the last ones leave.
    shared.run("here", release(0)).await;
    shared.run("here", release(3)).await;
    let renew = renew(101, Duration::from_secs(300));
    shared.run("here", renew).await;
    for number in [101, 2, 4] {
        shared.run("here", release(number)).await;
    }
    closing.run("here", release_uncleanly(0)).await;
    closing.run("here", release(1)).await;
    is_refused(&mut shared, named(5, Mode::Shared)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_says_that_redis_is_full_by_its_code_alone() {
    let server = Server::start().await;
    let script = concat!(
        include_str!("../../../server/store/lua/common.lua"),
        "\nreturn is_oom(ARGV[1]) and 1 or 0"
    );
    for (text, is_oom) in [
        // Redis 7, and 6.2.
        (
            "OOM command not allowed when used memory > 'maxmemory'.",
            true,
        ),
        (
            "@user_script: 90: -OOM command not allowed when used memory > 'maxmemory'.\r\n",
            true,
        ),
        (
            "NOPERM ACL failure in script: User OOM has no permissions to run the 'zadd' command",
            false,
        ),
        (
            "@user_script: 90: The user executing the script can't run this command or subcommand",
            false,
        ),
        (
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            false,
        ),
    ] {
        let found: u8 = server.ask(&["EVAL", script, "0", text]).await;
        assert_eq!(found == 1, is_oom, "{text}");
    }
}
