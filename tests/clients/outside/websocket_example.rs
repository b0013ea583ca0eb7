//! Example of `docs/http.md`, in Node's WebSocket, which is that of browsers.

use std::{fs, process::Command, time::Duration};

use leasehold_tests::{Coordinator, RawSession, raw::PROMPT};

use crate::skipped;

const TTL: Duration = Duration::from_secs(30);

/// Returns Node with the documentation's example; `None` if there is no Node with a WebSocket.
fn node(coordinator: &Coordinator) -> Option<Command> {
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
    let endpoint = coordinator.endpoint().replace("http://", "ws://");
    let script = script.replace("ws://127.0.0.1:7420", &endpoint);
    let mut command = Command::new("node");
    command.args([FLAG, "--input-type=module", "--eval", &script]);
    Some(command)
}

#[tokio::test]
async fn the_example_of_the_documentation_holds_a_lock_until_its_work_is_done() {
    let coordinator = Coordinator::in_process();
    let Some(mut command) = node(&coordinator) else {
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
