//! Bytes on the wire: to a coordinator that listens in this process, before and after HTTP/2's preface and as messages of each
//! method; and messages through their conversion alone.
//!
//! A panic of a task of the coordinator ends the process. After every [`CHECKED_EVERY`] inputs, the coordinator must still grant
//! and release a lock.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arbitrary::{Arbitrary, Unstructured};
use leasehold_core::{name::TtlBounds, session::Closer};
use leasehold_proto::v1::{self, lock_service_client::LockServiceClient};
use leasehold_server::{
    Config, Listeners,
    access::rules::Granted,
    convert::{self, FieldBounds, Resumptions},
    limits::Limits,
    run as serve,
};
use leasehold_store::{Store, memory::MemoryStore};
use prost::{Message, encoding::encode_varint};
use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Number of inputs between two checks that the coordinator serves.
const CHECKED_EVERY: u64 = 64;
/// Time for an answer of a coordinator that serves: one that hangs never answers, and a busy machine may be slow. The lock of the
/// check lives longer.
const SERVES_WITHIN: Duration = Duration::from_secs(300);
/// Time for the coordinator to end a connection whose peer has ended its side.
const ENDS_WITHIN: Duration = Duration::from_millis(20);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const METHODS: [&str; 16] = [
    "LockService/Session",
    "LockService/Session",
    "LockService/Acquire",
    "LockService/Renew",
    "LockService/Release",
    "ElectionService/Campaign",
    "ElectionService/Leader",
    "ElectionService/Observe",
    "AdminService/ListLocks",
    "AdminService/GetLock",
    "AdminService/ListSessions",
    "AdminService/WatchLocks",
    "AdminService/ForceRelease",
    "AdminService/RequestRelease",
    "AdminService/EndSession",
    "AdminService/CheckToken",
];

/// A coordinator with a store in memory, for as long as the process lives.
struct Coordinator {
    runtime: Runtime,
    address: SocketAddr,
    inputs: AtomicU64,
}

static COORDINATOR: LazyLock<Coordinator> = LazyLock::new(|| {
    let runtime = Runtime::new().unwrap();
    // libFuzzer's `main` leaves the signal as it is, and it would end the process; Rust's ignores it.
    drop(runtime.block_on(async { signal(SignalKind::pipe()).unwrap() }));
    let mut config = Config::default();
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.admin_listen = "127.0.0.1:0".parse().unwrap();
    config.handshake_timeout = SERVES_WITHIN;
    let listeners = runtime.block_on(Listeners::bind(&config)).unwrap();
    let address = listeners.grpc.local_addr().unwrap();
    runtime.spawn(async move {
        let ended = serve(config, listeners, CancellationToken::new()).await;
        panic!("the coordinator ended: {ended:?}");
    });
    Coordinator {
        runtime,
        address,
        inputs: AtomicU64::new(0),
    }
});

static CHECKS: LazyLock<(Store, Limits)> = LazyLock::new(|| {
    let limits = Limits::new(Config::default().into());
    (Arc::new(MemoryStore::open().0), limits)
});

const BOUNDS: TtlBounds = TtlBounds {
    min: Duration::from_secs(1),
    default: Duration::from_secs(10),
    max: Duration::from_secs(3600),
};

/// Sends one input, or converts it.
pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    match kind % 8 {
        0 => connect(rest),
        1 => connect(&[PREFACE, &frame(4, 0, 0, &[]), rest].concat()),
        2 => {
            let _ = frames(&mut Unstructured::new(rest));
        }
        3 => {
            let _ = call(&mut Unstructured::new(rest));
        }
        4 => convert_messages(rest),
        _ => {
            if let Ok(message) = message(&mut Unstructured::new(rest), 0) {
                convert_messages(&message);
            }
        }
    }
}

/// Sends bytes, ends the stream, and reads what comes.
fn connect(bytes: &[u8]) {
    let coordinator = &*COORDINATOR;
    let mut stream = TcpStream::connect(coordinator.address).expect("the coordinator listens");
    // It may have ended the connection already.
    let _ = stream.set_nodelay(true);
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(ENDS_WITHIN));
    let mut answer = [0; 4_096];
    while let Ok(1..) = stream.read(&mut answer) {}
    drop(stream);
    let inputs = coordinator.inputs.fetch_add(1, Ordering::Relaxed);
    if inputs.is_multiple_of(CHECKED_EVERY) {
        coordinator.runtime.block_on(async {
            let served = timeout(SERVES_WITHIN, coordinator.grants()).await;
            served.expect("the coordinator answers");
        });
    }
}

impl Coordinator {
    /// Takes a lock and gives it back.
    async fn grants(&self) {
        let endpoint = format!("http://{}", self.address);
        let mut client = LockServiceClient::connect(endpoint)
            .await
            .expect("it accepts");
        let request = v1::AcquireRequest {
            name: "wire".to_owned(),
            ttl: Some(prost_types::Duration {
                seconds: 600,
                nanos: 0,
            }),
            ..v1::AcquireRequest::default()
        };
        let granted = client
            .acquire(request)
            .await
            .expect("it serves")
            .into_inner();
        assert_eq!(
            granted.outcome(),
            v1::AcquireOutcome::Granted,
            "{granted:?}"
        );
        let request = v1::ReleaseRequest {
            name: "wire".to_owned(),
            owner_id: granted.owner_id,
        };
        let released = client
            .release(request)
            .await
            .expect("it serves")
            .into_inner();
        assert!(released.released);
    }
}

/// Returns a frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len())
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Sends frames whose lengths are right.
fn frames(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let mut bytes = [PREFACE, &frame(4, 0, 0, &[])].concat();
    for _ in 0..16 {
        if u.is_empty() {
            break;
        }
        let kind = u.int_in_range(0..=10)?;
        let stream = *u.choose(&[1, 0, 1, 3, 2, u32::MAX])?;
        let flags = *u.choose(&[4, 5, 0, 1, 0xff])?;
        let length = u.int_in_range(0..=32)?;
        let payload = match kind {
            1 if u.ratio(3, 4)? => headers(u)?,
            _ => u.bytes(length.min(u.len()))?.to_vec(),
        };
        bytes.extend(frame(kind, flags, stream, &payload));
    }
    connect(&bytes);
    Ok(())
}

/// Returns the headers of a call, none of them compressed.
fn headers(u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    let path = format!("/leasehold.v1.{}", u.choose(&METHODS)?);
    let mut all: Vec<(&str, &str)> = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":path", &path),
        (":authority", "a"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    if u.ratio(1, 4)? {
        let name = u.choose(&[
            "grpc-timeout",
            "grpc-encoding",
            "authorization",
            "traceparent",
            "x",
        ])?;
        all.push((name, <&str>::arbitrary(u)?));
    }
    let mut block = Vec::new();
    for (name, value) in all {
        let value = &value.as_bytes()[..value.len().min(126)];
        block.push(0);
        for text in [name.as_bytes(), value] {
            block.push(u8::try_from(text.len()).unwrap_or_default());
            block.extend(text);
        }
    }
    Ok(block)
}

/// Calls a method with any messages, some of which are a session's in order.
fn call(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let mut bytes = [PREFACE, &frame(4, 0, 0, &[]), &frame(1, 4, 1, &headers(u)?)].concat();
    let open = v1::SessionRequest {
        request_id: 1,
        request: Some(v1::session_request::Request::Open(
            v1::SessionOpen::default(),
        )),
        ..v1::SessionRequest::default()
    };
    if u.ratio(1, 2)? {
        bytes.extend(frame(0, 0, 1, &grpc(0, &open.encode_to_vec())));
    }
    for _ in 0..8 {
        if u.is_empty() {
            break;
        }
        let length = u.int_in_range(0..=64)?;
        let message = if u.ratio(3, 4)? {
            message(u, 0)?
        } else {
            u.bytes(length.min(u.len()))?.to_vec()
        };
        let compressed = u8::from(u.ratio(1, 16)?);
        let mut body = grpc(compressed, &message);
        if u.ratio(1, 16)? {
            // The length is wrong.
            let at = 1 + u.choose_index(4)?;
            body[at] = u.arbitrary()?;
        }
        let ends = u8::from(u.ratio(1, 8)?);
        bytes.extend(frame(0, ends, 1, &body));
    }
    if u.ratio(1, 4)? {
        bytes.extend(frame(3, 0, 1, &[0, 0, 0, 8]));
    }
    connect(&bytes);
    Ok(())
}

/// Returns a message with its heading of gRPC.
fn grpc(compressed: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len())
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    [&[compressed], &length[..], message].concat()
}

/// Returns any fields, encoded as protobuf does: their numbers are those that messages have, their kinds may be others.
fn message(u: &mut Unstructured<'_>, depth: usize) -> arbitrary::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for _ in 0..u.int_in_range(1..=4)? {
        let number = u.int_in_range(1..=15_u8)?;
        if u.ratio(1, 3)? {
            bytes.push(number << 3);
            let value = match u.int_in_range(0..=3)? {
                0 => u.arbitrary()?,
                1 => *u.choose(&[u64::MAX, 1 << 63, 1 << 32, 1 << 31, 1 << 53, 999_999_999])?,
                _ => u.int_in_range(0..=12)?,
            };
            encode_varint(value, &mut bytes);
            continue;
        }
        let contents = match u.int_in_range(0..=if depth < 3 { 7 } else { 3 })? {
            0 => vec![b'a'; usize::from(u.int_in_range(0..=18_u8)?)],
            1 => vec![0xff; *u.choose(&[1, 16, 513, 4_097])?],
            2 => <&[u8]>::arbitrary(u)?.to_vec(),
            3 => u
                .choose(&["a", "b", "", "00000000-0000-0000-0000-000000000001"])?
                .as_bytes()
                .to_vec(),
            _ => message(u, depth + 1)?,
        };
        bytes.push(number << 3 | 2);
        encode_varint(contents.len() as u64, &mut bytes);
        bytes.extend(contents);
    }
    Ok(bytes)
}

/// Reads the bytes as each kind of message whose fields are checked, and converts it.
fn convert_messages(bytes: &[u8]) {
    let (store, limits) = &*CHECKS;
    let bounds = FieldBounds {
        store,
        ttl: &BOUNDS,
        max_wait: Duration::from_secs(3600),
        limits,
    };
    if let Ok(request) = v1::SessionRequest::decode(bytes) {
        let heading = convert::request::heading(&request);
        let _ = (heading.id, heading.kind.as_str());
        if let Some(v1::session_request::Request::Open(open)) = &request.request {
            let mut resumptions = Resumptions::default();
            let _ = convert::client_name("client_name", &open.client_name);
            if let Ok(ttl) = convert::ttl("ttl", open.ttl, &BOUNDS) {
                let _ = convert::disconnect_grace("grace", open.disconnect_grace, ttl);
            }
            if resumptions
                .add(open.resume.clone(), request.request_id, 100, bounds)
                .is_ok()
            {
                assert_eq!(resumptions.finish(&Granted::Everything).0.len(), open.resume.len());
            }
        }
        if let Err(refusal) = convert::request::request(request, bounds, Closer::Client) {
            let answer = convert::session::refused(1, refusal);
            assert!(answer.encoded_len() < 1 << 20);
        }
    }
    if let Ok(request) = v1::AcquireRequest::decode(bytes) {
        let _ = convert::lock_name("name", &request.name, store);
        let _ = convert::ttl("ttl", request.ttl, &BOUNDS);
        let _ = convert::value("value", &request.value);
    }
    if let Ok(request) = v1::RequestReleaseRequest::decode(bytes) {
        let _ = convert::release_request(&request);
        let _ = convert::asked_holder("fencing_token", request.fencing_token);
    }
    if let Ok(request) = v1::ForceReleaseRequest::decode(bytes) {
        let _ = request.only.map(convert::forced_one);
    }
    if let Ok(request) = v1::EndSessionRequest::decode(bytes) {
        let _ = convert::session_id("session_id", &request.session_id);
    }
    if let Ok(request) = v1::ListLocksRequest::decode(bytes) {
        let _ = convert::page_size("page_size", request.page_size, 1_000);
    }
}
