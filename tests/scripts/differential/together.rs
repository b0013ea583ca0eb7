//! Commands of one call: those that are executed together and those that follow one by one give the same answers as if each had
//! come alone.

use std::{collections::BTreeMap, time::Duration};

use leasehold_core::{
    command::{Acquire, Command, End, Executed, Op, Reply},
    id::OwnerId,
    lock::LockState,
    mode::Mode,
    name::{ClientName, KEPT_CLIENT_NAME, LockName, Value},
};
use leasehold_store::redis::{
    decode::decode,
    encode::{LockScript, encode},
    keys::Keys,
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::{
    common::{acquiring, caller, owner},
    differential::{compare::compare, server::Server},
};

const NAMES: usize = 24;
const CALLS: u64 = 500;
/// Most commands of a call.
const MOST: usize = 40;
const VALUE: &[u8] = b"said by the holder";

/// A lock by the rules.
#[derive(Default)]
struct Lock {
    rules: LockState,
    holder: Option<OwnerId>,
    /// Whether the last hold was released as one that may leave something.
    was_searched: bool,
}

impl Lock {
    /// Carries a command out, and compares the answer.
    fn apply(
        &mut self,
        Command { caller, op, .. }: &Command,
        got: &Executed,
    ) -> Result<(), String> {
        let expected = self.rules.apply(caller, op, got.at);
        match (op, &got.reply) {
            (Op::Acquire(acquire), Reply::Granted { .. }) => self.holder = Some(acquire.owner),
            (Op::Release { end, .. }, Reply::Released { held: true, .. }) => {
                self.holder = None;
                self.was_searched = *end != End::Plain;
            }
            _ => {}
        }
        if let Some(handed) = got.handed.last() {
            self.holder = Some(handed.owner);
        }
        compare(&expected, got)
    }
}

fn acquire_with(random: &mut StdRng, number: u16) -> Op {
    let length = random.random_range(0..2 * KEPT_CLIENT_NAME);
    let value = if random.random_bool(0.5) { VALUE } else { b"" };
    Op::Acquire(Acquire {
        client_name: ClientName::parse(&"n".repeat(length)).unwrap(),
        value: Value::parse(value).unwrap(),
        wait: random.random_bool(0.3),
        ..acquiring(number, Mode::Exclusive)
    })
}

/// Returns an operation, most of them by one who holds the lock.
fn some(random: &mut StdRng, holder: Option<OwnerId>, next: &mut u16) -> Op {
    *next += 1;
    let holder = holder.unwrap_or(owner(*next));
    match random.random_range(0..20) {
        0..8 => acquire_with(random, *next),
        8..11 => Op::Renew {
            owner: holder,
            token: None,
            ttl: Duration::from_secs(600),
        },
        11 => Op::Release {
            owner: owner(*next),
            end: *[End::Clean, End::Plain].choose(random).unwrap(),
        },
        12 => Op::Release {
            owner: holder,
            end: End::Unclean,
        },
        number => Op::Release {
            owner: holder,
            end: if number < 16 { End::Clean } else { End::Plain },
        },
    }
}

#[tokio::test]
async fn the_commands_of_a_call_are_carried_out_as_if_each_came_alone() {
    let server = Server::start().await;
    let mut connection = server.redis.connection();
    let (script, keys) = (LockScript::of_database(0), Keys::new("lock:"));
    let _: String = redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(&*script.text())
        .query(&mut connection)
        .unwrap();
    let names: Vec<LockName> = (0..NAMES)
        .map(|number| LockName::parse(&format!("lock {number}")).unwrap())
        .collect();
    let record_of = |name: &LockName, connection: &mut redis::Connection| -> Option<Vec<u8>> {
        let pattern = format!("lh:*:token:lock:{name}");
        let found: Vec<Vec<u8>> = redis::cmd("KEYS").arg(pattern).query(connection).unwrap();
        let record = found.first()?;
        redis::cmd("GET").arg(record).query(connection).unwrap()
    };
    let mut locks: BTreeMap<&LockName, Lock> = BTreeMap::new();
    let mut random = StdRng::seed_from_u64(1);
    let (mut next, mut searched) = (0, 0);
    for nonce in 1..=CALLS {
        let commands: Vec<Command> = (0..random.random_range(1..=MOST))
            .map(|_| {
                let name = names.choose(&mut random).unwrap();
                let holder = locks.get(name).and_then(|lock| lock.holder);
                Command {
                    name: name.clone(),
                    caller: caller("here"),
                    op: some(&mut random, holder, &mut next),
                }
            })
            .collect();
        let items: Vec<_> = commands
            .iter()
            .map(|command| (command, keys.of(&command.name)))
            .collect();
        let items = items.iter().map(|(command, keys)| (*command, keys));
        let reply = encode(items, nonce, None, &script).query(&mut connection);
        let replies = decode(reply.unwrap(), nonce, commands.len()).unwrap();
        for (command, got) in commands.iter().zip(replies) {
            let name = names.iter().find(|name| **name == command.name).unwrap();
            let lock = locks.entry(name).or_default();
            if let Err(what) = lock.apply(command, &got.unwrap()) {
                panic!("call {nonce}, {:?} of {name}: {what}", command.op);
            }
        }
        for (name, lock) in &locks {
            if lock.holder.is_none() && lock.was_searched {
                let record = record_of(name, &mut connection).unwrap();
                let has = |said: &[u8]| record.windows(said.len()).any(|at| at == said);
                let long = [b'n'; KEPT_CLIENT_NAME + 1];
                assert!(
                    !has(VALUE) && !has(&long),
                    "call {nonce}, {name}: {record:?}"
                );
                searched += 1;
            }
        }
    }
    assert!(searched > CALLS, "{searched}");
}
