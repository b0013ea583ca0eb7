//! The pieces of the hot path, each run alone.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Caller, Command, End, Op, Reply},
    id::{Actor, CoordinatorId, FencingToken, OwnerId, SessionId},
    mode::Mode,
    name::{ClientName, LockName, Value},
    table::LockTable,
    time::StoreTime,
};
use leasehold_proto::v1::{
    GrantedLock, SessionAcquire, SessionGranted, SessionRelease, SessionReleased, SessionRequest,
    SessionResponse, session_request::Request, session_response::Response,
};
use leasehold_store::redis::{
    decode::decode,
    encode::{LockScript, encode},
    keys::Keys,
};
use leasehold_tests::{RedisServer, raw};
use prost::Message;

use crate::baseline::Cost;

pub(crate) const TTL: Duration = Duration::from_secs(10);
pub(crate) const CYCLES: u32 = 200;
/// Cycles in one call to Redis: an acquire or a release of each.
pub(crate) const IN_A_CALL: usize = 64;

/// Runs something `times` times after it was run once, and gives what one time cost.
pub(crate) fn cost_of(times: u32, mut run: impl FnMut(u32)) -> Cost {
    run(0);
    let counted = allocation_counter::measure(|| (1..=times).for_each(&mut run));
    let counts = [
        ("allocations", counted.count_total as f64),
        ("bytes", counted.bytes_total as f64),
    ];
    Cost::new(counts).each_of(f64::from(times))
}

pub(crate) fn owner(number: u32) -> OwnerId {
    OwnerId::from_bytes(u128::from(number).to_be_bytes())
}

pub(crate) fn name(number: usize) -> LockName {
    LockName::parse(&format!("orders/{number:05}")).unwrap()
}

pub(crate) fn command(name: LockName, op: Op) -> Command {
    let caller = Caller {
        coordinator: CoordinatorId::new("coordinator-1"),
        floor: FencingToken::new(0),
        token_memory: TTL * 2,
        not_after: None,
    };
    Command { name, caller, op }
}

pub(crate) fn acquire(number: u32) -> Op {
    Op::Acquire(Acquire {
        owner: owner(number),
        session: Some(SessionId::from_bytes([7; 16])),
        actor: Actor::default(),
        client_name: ClientName::parse("worker-1").unwrap(),
        mode: Mode::Exclusive,
        value: Value::default(),
        ttl: TTL,
        lock_delay: Duration::ZERO,
        max_hold: None,
        wait: true,
        again: false,
    })
}

pub(crate) fn release(number: u32) -> Op {
    Op::Release {
        owner: owner(number),
        end: End::Plain,
    }
}

pub(crate) fn rules_uncontended() -> Cost {
    let mut table = LockTable::default();
    let name = name(0);
    let cycles: Vec<[Command; 2]> = (0..=CYCLES)
        .map(|number| {
            [acquire(number), release(number)].map(|operation| command(name.clone(), operation))
        })
        .collect();
    let now = StoreTime::from_micros(1_000_000);
    cost_of(CYCLES, |number| {
        let [acquire, release] = &cycles[number as usize];
        let granted = table.apply(acquire, now);
        assert!(matches!(granted.reply, Reply::Granted { .. }));
        table.apply(release, now);
    })
}

/// Measures the release of a name with 100 waiters by its holder, which queues again.
pub(crate) fn rules_contended() -> Cost {
    const WAITERS: u32 = 100;
    let mut table = LockTable::default();
    let name = name(0);
    let now = StoreTime::from_micros(1_000_000);
    let mut acquires =
        (0..=WAITERS + CYCLES + 1).map(|number| command(name.clone(), acquire(number)));
    for _ in 0..=WAITERS {
        table.apply(&acquires.next().unwrap(), now);
    }
    let acquires: Vec<Command> = acquires.collect();
    let releases: Vec<Command> = (0..=CYCLES)
        .map(|number| command(name.clone(), release(number)))
        .collect();
    cost_of(CYCLES, |number| {
        let handed = table.apply(&releases[number as usize], now).handed;
        assert_eq!(handed[0].owner, owner(number + 1));
        table.apply(&acquires[number as usize], now);
    })
}

/// Measures the coordinator's end of a stream: reading two requests and writing two answers.
pub(crate) fn wire() -> Cost {
    let asked = |request| SessionRequest {
        request_id: 1,
        request: Some(request),
        ..SessionRequest::default()
    };
    let requests = [
        asked(Request::Acquire(SessionAcquire {
            name: "orders/00001".to_owned(),
            ..SessionAcquire::default()
        })),
        asked(Request::Release(SessionRelease {
            name: "orders/00001".to_owned(),
            owner_id: vec![1; 16],
            expired: false,
        })),
    ]
    .map(|request| request.encode_to_vec());
    let said = |response| SessionResponse {
        request_id: 1,
        response: Some(response),
    };
    let answers = [
        said(Response::Granted(SessionGranted {
            locks: vec![GrantedLock {
                name: "orders/00001".to_owned(),
                owner_id: vec![1; 16],
                fencing_token: 1_700_000_000_000_000,
                hold_count: 1,
                permits: 0,
            }],
            valid_for: raw::wire(TTL),
            acked_heartbeat: 3,
            bounded: Vec::new(),
        })),
        said(Response::Released(SessionReleased {
            released: true,
            ..SessionReleased::default()
        })),
    ];
    cost_of(CYCLES, |_| {
        for request in &requests {
            assert!(
                SessionRequest::decode(&request[..])
                    .unwrap()
                    .request
                    .is_some()
            );
        }
        for answer in &answers {
            assert!(!answer.encode_to_vec().is_empty());
        }
    })
}

/// Returns the acquires of a call, and the releases of another.
pub(crate) fn batches() -> [Vec<Command>; 2] {
    let batch = |operation: fn(u32) -> Op| {
        (0_u32..)
            .take(IN_A_CALL)
            .map(|number| command(name(number as usize), operation(number)))
            .collect()
    };
    [batch(acquire), batch(release)]
}

/// Returns the script call of these commands.
pub(crate) fn call(
    commands: &[Command],
    keys: &Keys,
    number: u64,
    script: &LockScript,
) -> redis::Cmd {
    let items: Vec<_> = commands
        .iter()
        .map(|command| (command, keys.of(&command.name)))
        .collect();
    let items = items.iter().map(|(command, keys)| (*command, keys));
    encode(items, number, None, script)
}

/// Commands into script calls.
pub(crate) fn to_redis() -> Cost {
    let keys = Keys::new("lock:");
    let script = LockScript::of_database(0);
    let batches = batches();
    let each = cost_of(CYCLES, |number| {
        for batch in &batches {
            let call = call(batch, &keys, u64::from(number), &script);
            assert!(call.args_iter().len() > IN_A_CALL);
        }
    });
    each.each_of(IN_A_CALL as f64)
}

/// Measures the conversion of Redis's replies into answers.
pub(crate) fn from_redis() -> Cost {
    let redis = RedisServer::start();
    let mut connection = redis.connection();
    let script = LockScript::of_database(0);
    let _: String = redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(&*script.text())
        .query(&mut connection)
        .unwrap();
    let keys = Keys::new("lock:");
    let replies = batches().map(|batch| {
        let call = call(&batch, &keys, 1, &script);
        let reply: redis::Value = call.query(&mut connection).unwrap();
        vec![reply; CYCLES as usize + 1]
    });
    let mut replies = replies.map(Vec::into_iter);
    let each = cost_of(CYCLES, |_| {
        for replies in &mut replies {
            let answers = decode(replies.next().unwrap(), 1, IN_A_CALL).unwrap();
            assert!(answers.iter().all(Result::is_ok));
        }
    });
    each.each_of(IN_A_CALL as f64)
}
