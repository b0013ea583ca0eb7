//! The rest of a released hold in Redis: its token, without its value or a long client name.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Command, End, Loss, Op, Reply},
    mode::Mode,
    name::{ClientName, Value},
};
use leasehold_store::Store;

use crate::{
    common::{acquire, acquiring, owner, release, release_uncleanly, renew, resume},
    differential::{pair::Pair, server::Server},
};

const VALUE: &str = "said by the holder";
/// Longer than the names that stay.
const CLIENT: &str = "named by the client at such length that Redis had better forget the name";

/// Shorter than the memory of tokens.
const TTL: Duration = Duration::from_secs(10);

/// Returns the terms of an acquire with a value and a client name.
fn saying(number: u16, mode: Mode) -> Acquire {
    Acquire {
        value: Value::parse(VALUE.as_bytes()).unwrap(),
        client_name: ClientName::parse(CLIENT).unwrap(),
        ..acquiring(number, mode)
    }
}

fn telling(number: u16, mode: Mode) -> Op {
    Op::Acquire(saying(number, mode))
}

/// Does the same with a lock-delay.
fn delayed(number: u16) -> Op {
    Op::Acquire(Acquire {
        lock_delay: Duration::from_secs(60),
        ttl: TTL,
        ..saying(number, Mode::Exclusive)
    })
}

/// Returns whether any key has what a client said.
async fn has(server: &Server, said: &str) -> bool {
    let keys: Vec<String> = server.ask(&["KEYS", "*"]).await;
    for key in keys {
        let kind: String = server.ask(&["TYPE", &key]).await;
        let found: Vec<Vec<u8>> = match &*kind {
            "string" => vec![server.ask(&["GET", &key]).await],
            "hash" => server.ask(&["HVALS", &key]).await,
            _ => continue,
        };
        let has = |found: &Vec<u8>| found.windows(said.len()).any(|at| at == said.as_bytes());
        if found.iter().any(has) {
            return true;
        }
    }
    false
}

async fn nothing_is_left(server: &Server) {
    assert!(!has(server, VALUE).await && !has(server, CLIENT).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn however_a_hold_ends_nothing_of_what_its_client_said_is_left() {
    let server = Server::start().await;
    let exclusive = Mode::Exclusive;
    // Released, with nobody waiting.
    let mut pair = Pair::new(&server, "released").await;
    pair.run("here", telling(0, exclusive)).await;
    assert!(has(&server, VALUE).await && has(&server, CLIENT).await);
    pair.run("here", release(0)).await;
    nothing_is_left(&server).await;
    // Released by another coordinator, or while it is confirmed by none.
    pair.run("here", telling(1, exclusive)).await;
    pair.run("there", release(1)).await;
    nothing_is_left(&server).await;
    // By the last of two that wait.
    for number in [2, 3] {
        pair.run("here", telling(number, exclusive)).await;
    }
    pair.run("here", release(2)).await;
    pair.run("here", release(3)).await;
    nothing_is_left(&server).await;
    // Closed for its lock-delay.
    let mut pair = Pair::new(&server, "closed").await;
    pair.run("here", delayed(0)).await;
    pair.run("here", release_uncleanly(0)).await;
    nothing_is_left(&server).await;
    // By force.
    let mut pair = Pair::new(&server, "forced").await;
    pair.run("here", telling(0, exclusive)).await;
    pair.run("there", Op::ForceRelease).await;
    nothing_is_left(&server).await;
    // Made a shared one, and released.
    let mut pair = Pair::new(&server, "shared").await;
    pair.run("here", telling(0, exclusive)).await;
    let downgrade = Op::Downgrade { owner: owner(0) };
    pair.run("here", downgrade).await;
    pair.run("here", telling(1, Mode::Shared)).await;
    pair.run("here", release(0)).await;
    assert!(has(&server, VALUE).await);
    pair.run("here", release(1)).await;
    nothing_is_left(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_loss_leaves_the_clients_data_behind() {
    let mut server = Server::start().await;
    let exclusive = Mode::Exclusive;
    // Deleted, or taken by a stranger, as its renewal finds.
    let mut pair = Pair::new(&server, "lost").await;
    pair.run("here", telling(0, exclusive)).await;
    let _: u64 = server.ask(&["DEL", "lock:lost"]).await;
    let lost = pair.execute_in_redis("here", renew(0, TTL)).await;
    assert_eq!(lost, Reply::Lost(Loss::Deleted));
    nothing_is_left(&server).await;
    let mut pair = Pair::new(&server, "taken").await;
    pair.run("here", telling(0, exclusive)).await;
    let _: String = server
        .ask(&["SET", "lock:taken", "a stranger's", "PX", "60000"])
        .await;
    let lost = pair.execute_in_redis("here", renew(0, TTL)).await;
    assert_eq!(lost, Reply::Lost(Loss::Taken));
    nothing_is_left(&server).await;
    // It has run out, as its release or a view finds.
    for (name, found_by) in [("expired", release(0)), ("viewed", Op::view(0))] {
        let mut pair = Pair::new(&server, name).await;
        pair.run("here", telling(0, exclusive)).await;
        let lock = format!("lock:{name}");
        let () = server.ask(&["PEXPIRE", &lock, "1"]).await;
        server.pass(Duration::from_millis(2));
        pair.execute_in_redis("here", found_by).await;
        nothing_is_left(&server).await;
    }
    // Only its lock-delay is left, for which the lock stays closed.
    for by_resume in [false, true] {
        let name = format!("delayed {by_resume}");
        let mut pair = Pair::new(&server, &name).await;
        pair.run("here", delayed(0)).await;
        server.pass(TTL);
        let asked = match by_resume {
            true => resume(&[0], 1),
            false => renew(0, TTL),
        };
        for _ in 0..2 {
            assert_eq!(
                pair.run("here", asked.clone()).await,
                Reply::Lost(Loss::Expired)
            );
        }
        pair.run("here", Op::view(0)).await;
        nothing_is_left(&server).await;
        pair.run("here", Op::ForceRelease).await;
    }
}

/// Returns how many commands Redis has carried out.
async fn commands(server: &Server) -> u64 {
    let info: String = server.ask(&["INFO", "commandstats"]).await;
    let lines = info.lines();
    let calls = lines
        .filter(|line| !line.starts_with("cmdstat_info"))
        .filter_map(|line| line.split_once(":calls=")?.1.split(',').next());
    calls.map(|calls| calls.parse::<u64>().unwrap()).sum()
}

/// Returns how many commands Redis carries out for each cycle of an acquire and a release.
async fn commands_of_a_cycle(server: &mut Server, store: &Store, cycle: [Command; 2]) -> u64 {
    const CYCLES: u64 = 20;
    let before = commands(server).await;
    for _ in 0..CYCLES {
        // Or tokens would run ahead of the clock, and their records last longer.
        server.pass(Duration::from_millis(1));
        for command in &cycle {
            store.execute(command.clone()).await.unwrap();
        }
    }
    // The coordinator asks now and then for the time.
    (commands(server).await - before) / CYCLES
}

#[tokio::test(flavor = "multi_thread")]
async fn stripping_costs_a_command_only_if_there_is_much_to_strip() {
    let mut server = Server::start().await;
    let store = server.connect().await;
    let pair = Pair::new(&server, "cycle").await;
    let cycle = |op| [pair.command("here", op), pair.command("here", release(0))];
    let silent = cycle(acquire(0, Mode::Exclusive));
    // The two calls, and within each the time and whether anybody watches; whether anybody waits and two writes; whether
    // anybody waits, who holds it, and its end.
    assert_eq!(commands_of_a_cycle(&mut server, &store, silent).await, 12);
    let named = |length: usize| {
        cycle(Op::Acquire(Acquire {
            client_name: ClientName::parse(&"n".repeat(length)).unwrap(),
            ..acquiring(0, Mode::Exclusive)
        }))
    };
    assert_eq!(
        commands_of_a_cycle(&mut server, &store, named(64)).await,
        12
    );
    assert_eq!(
        commands_of_a_cycle(&mut server, &store, named(65)).await,
        13
    );
    let valued = |value: &[u8]| {
        cycle(Op::Acquire(Acquire {
            value: Value::parse(value).unwrap(),
            ..acquiring(0, Mode::Exclusive)
        }))
    };
    assert_eq!(
        commands_of_a_cycle(&mut server, &store, valued(b"v")).await,
        13
    );
    // Nobody looks for something to strip where the coordinator says that there is nothing.
    let plain = Op::Release {
        owner: owner(0),
        end: End::Plain,
    };
    let [valued, _] = valued(b"v");
    let plain = [valued, pair.command("here", plain)];
    assert_eq!(commands_of_a_cycle(&mut server, &store, plain).await, 12);
}
