//! Messages to systemd.

use std::{os::unix::net::UnixDatagram, time::Instant};

use leasehold_tests::Coordinator;
use rustix::process::Signal;

use super::LIMIT;

/// Returns the next message that is no sign of life.
fn next(socket: &UnixDatagram) -> String {
    let deadline = Instant::now() + LIMIT;
    loop {
        let message = receive(socket);
        if message != "WATCHDOG=1" {
            return message;
        }
        assert!(Instant::now() < deadline, "nothing but signs of life");
    }
}

fn receive(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).expect("a message in time");
    String::from_utf8(buffer[..length].to_vec())
        .unwrap()
        .trim_end()
        .to_owned()
}

#[tokio::test]
async fn it_is_told_when_it_serves_reloads_lives_and_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let mut coordinator = Coordinator::process()
        .environment("NOTIFY_SOCKET", path.to_str().unwrap())
        .environment("WATCHDOG_USEC", "300000")
        .start();
    assert!(next(&socket).starts_with("READY=1\n"));
    assert_eq!(receive(&socket), "WATCHDOG=1");
    for _ in 0..5 {
        assert_eq!(receive(&socket), "WATCHDOG=1");
    }

    coordinator.child().signal(Signal::HUP);
    let reloading = next(&socket);
    let when = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
    assert!(
        when.is_some_and(|when| when.parse::<u64>().is_ok()),
        "{reloading}"
    );
    assert!(next(&socket).starts_with("READY=1\n"));

    coordinator.terminate();
    assert!(next(&socket).starts_with("STOPPING=1\n"));
    assert!(coordinator.child().wait(LIMIT).await.success());
}
