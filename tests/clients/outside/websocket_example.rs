//! Example of `docs/http.md`, in Node's WebSocket, which is that of browsers.

use std::{
    fs,
    process::{Command, Stdio},
    time::Duration,
};

use leasehold_tests::{ChildProcess, Coordinator, RawSession, raw::PROMPT};
use rustix::process::Signal;

use crate::skipped;

const TTL: Duration = Duration::from_secs(30);

/// Returns Node with the documentation's example, whose last line is replaced by this; `None` if there is no Node with a WebSocket.
fn node(coordinator: &Coordinator, last_line: Option<&str>) -> Option<Command> {
    // Node 22 has it without the flag, and still knows the flag.
    const FLAG: &str = "--experimental-websocket";
    let mut probe = Command::new("node");
    let probe = probe
        .args([FLAG, "--eval", "new WebSocket"])
        .output()
        .ok()?;
    let complaint = String::from_utf8(probe.stderr).unwrap();
    if complaint.contains("bad option") || complaint.contains("ReferenceError") {
        return None;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/http.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, block) = page.split_once("<!-- websocket -->\n```js\n").unwrap();
    let (script, _) = block.split_once("\n```").unwrap();
    let (definition, call) = script.rsplit_once("\n\n").unwrap();
    let endpoint = coordinator.endpoint().replace("http://", "ws://");
    let definition = definition.replace("ws://127.0.0.1:7420", &endpoint);
    let script = format!("{definition}\n{}", last_line.unwrap_or(call));
    let mut command = Command::new("node");
    command
        .args([FLAG, "--input-type=module", "--eval", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    Some(command)
}

#[tokio::test]
async fn the_example_of_the_documentation_holds_a_lock_until_its_work_is_done() {
    let coordinator = Coordinator::in_process();
    let Some(mut command) = node(&coordinator, None) else {
        return skipped("there is no `node` with a WebSocket");
    };
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = tokio::time::timeout(PROMPT * 2, output).await.unwrap();
    let output = output.unwrap().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said} {:?}", output.stderr);
    assert!(said.starts_with("held with token "), "{said}");
    assert!(said.ends_with(" and lost: false\n"), "{said}");
    let mut next = RawSession::open(&coordinator.endpoint(), TTL).await;
    next.acquire("nightly").await;
}

#[tokio::test]
async fn a_page_that_is_killed_releases_its_lock_at_once() {
    let coordinator = Coordinator::in_process();
    let forever = "setInterval(() => {}, 1000); await hold('a', async () => { console.log('held'); await new Promise(() => {}); });";
    let Some(command) = node(&coordinator, Some(forever)) else {
        return skipped("there is no `node` with a WebSocket");
    };
    let mut child = ChildProcess::spawn("node", command);
    let mut lines = child.take_lines();
    lines.expect("held", PROMPT).await;
    let mut waiter = RawSession::open(&coordinator.endpoint(), TTL).await;
    let id = waiter.ask("a", None).await;
    waiter.queued(id).await;
    child.signal(Signal::KILL);
    waiter.granted(id, PROMPT).await;
}
