//! Standard error without a reader: it delays nothing, and ends nothing.

use std::{
    io::{self, PipeReader, PipeWriter, Write},
    process::Stdio,
};

use leasehold_tests::{ChildProcess, Coordinator};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::{LIMIT, leasehold, served};

/// Returns a pipe that has no room left.
fn full() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

#[tokio::test]
async fn a_reader_that_has_stalled_does_not_keep_the_command_alive() {
    let (_coordinator, endpoint, client) = served().await;
    for (tool, name) in [
        (&["run", "a"][..], "a"),
        (&["elect", "e", "--once"][..], "e"),
    ] {
        let (_reader, writer) = full();
        let script = "trap '' TERM; echo ready; while :; do sleep 0.01; done";
        let mut command = leasehold(&endpoint, &[tool, &["--", "sh", "-c", script]].concat());
        command.stdout(Stdio::piped()).stderr(writer);
        let mut child = ChildProcess::spawn("leasehold", command);
        let mut lines = child.take_lines();
        lines.expect("ready", LIMIT).await;
        client.admin().force_release(name).await.unwrap();
        assert_eq!(child.wait(LIMIT).await.code(), Some(70), "{name}");
        // With the last process of the group.
        while lines.next(LIMIT).await.is_some() {}
    }
}

#[test]
fn a_reader_that_is_gone_does_not_change_how_it_ends() {
    let coordinator = Coordinator::in_process();
    for (args, code) in [
        (&["run", "a", "--", "/nonexistent/command"][..], 127),
        (&["release", "a"], 64),
        (&["leader", "e", "--endpoint", "http://127.0.0.1:1"], 69),
    ] {
        let (_, writer) = io::pipe().unwrap();
        let mut command = leasehold(&coordinator.endpoint(), args);
        let ended = command.stderr(writer).status().unwrap();
        assert_eq!(ended.code(), Some(code), "{args:?}");
    }
}
