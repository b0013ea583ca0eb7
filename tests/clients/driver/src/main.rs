//! Driver of the Rust client for the conformance runner. It does what the lines on its standard input ask, through the client's
//! public interface (only the clock is none of it), and reports what the client says: `docs/conformance.md` describes both. One thread runs the client and the
//! driver, so that `block_ms` blocks everything.

mod acquire;
mod body;
mod connect;
mod election;
mod failure;
mod hold;
mod output;
mod request;
mod state;
mod world;

use std::{io::BufRead, sync::Arc, thread, time::Duration};

use leasehold_client::simulation;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::{failure::Failed, output::answer, request::Request, world::World};

/// What this driver can do besides what every driver can.
const CAPABILITIES: [&str; 9] = [
    "cancel",
    "cancel_body",
    "suspended_event",
    "cleanup",
    "backoff",
    "tls",
    "clock",
    "skew_clock",
    "block",
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let world = Arc::new(World::default());
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        let request: Request = serde_json::from_str(&line)?;
        // Tasks of one thread begin in the order in which they were spawned.
        tokio::spawn(serve(Arc::clone(&world), request));
    }
    // Without the runtime's own shutdown, which would release what is held.
    std::process::exit(0)
}

/// Returns the lines of standard input, read by a thread of their own.
fn lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

async fn serve(world: Arc<World>, request: Request) {
    let (id, op) = (request.id, request.op.clone());
    let done = match op.as_str() {
        "hello" => Ok(hello()),
        "connect" => connect::connect(&world, &request).await,
        "close" => connect::close(&world, &request).await,
        "cancel" => world.cancel(&request),
        // These answer themselves: the answer has its place among the events of the handle.
        "acquire" => return acquire::acquire(&world, request).await,
        "campaign" => return election::campaign(&world, request).await,
        "body" => return body::body(&world, request).await,
        "lead" => return election::lead(&world, request).await,
        "observe" => election::observe(&world, &request),
        "finish" | "fail" => body::end(&world, &request),
        "state" => hold::state(&world, &request),
        "clock" => Ok(json!({ "clock_ns": simulation::read_clock().to_string() })),
        "skew_clock" => {
            simulation::skew_clock(Duration::from_millis(request.ms));
            Ok(json!({}))
        }
        "block_ms" => hold::block(&world, &request),
        "release" | "resign" => hold::release(&world, &request).await,
        "set_value" | "proclaim" => hold::set_value(&world, &request).await,
        "downgrade" => hold::downgrade(&world, &request).await,
        _ => Err(Failed::new("unsupported")),
    };
    answer(id, done);
}

fn hello() -> Value {
    json!({
        "protocol": 1,
        "library": "leasehold-client",
        "version": env!("CARGO_PKG_VERSION"),
        "capabilities": CAPABILITIES,
    })
}
