//! Servers that refuse the login, or must not be used: each reason has its name, and none shows a password.

use std::{
    fs,
    future::ready,
    io::{self, Write},
    sync::{Arc, Mutex},
};

use leasehold_store::redis::status::DownCause;
use leasehold_tests::wait;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket},
    sync::mpsc,
    time::timeout,
};
use tracing::{
    Dispatch,
    subscriber::{DefaultGuard, NoSubscriber},
};

use crate::{
    common::{PATIENCE, until_up},
    store::server::{Server, link_to, run, until_down, until_up_after},
};

const PASSWORD: &str = "hunter2";

/// Dials `url` and returns why both the commands and the subscription are down.
async fn refusals(url: &str) -> [(DownCause, String); 2] {
    let (messages, _received) = mpsc::channel(1);
    let link = link_to(url);
    let listening = link.subscribe(b"c".to_vec(), messages, Some);
    let commands = until_down(&mut link.status()).await;
    let subscription = until_down(&mut listening.status()).await;
    for (_, reason) in [&commands, &subscription] {
        assert!(!reason.contains(PASSWORD), "{reason}");
    }
    [commands, subscription]
}

#[tokio::test]
async fn a_refused_login_is_told_apart() {
    let mut server = Server::start();
    let port = server.port();
    let link = link_to(&format!("redis://:{PASSWORD}@127.0.0.1:{port}"));
    let (cause, reason) = until_down(&mut link.status()).await;
    assert_eq!(cause, DownCause::Login, "{reason}");
    assert!(reason.contains("has no password"), "{reason}");

    server.admin::<()>("CONFIG SET requirepass correct");
    for (login, expected) in [
        (format!(":{PASSWORD}@"), "refused the user or password"),
        (
            format!("worker:{PASSWORD}@"),
            "refused the user or password",
        ),
        (String::new(), "wants a password"),
    ] {
        for (cause, reason) in refusals(&format!("redis://{login}127.0.0.1:{port}")).await {
            assert_eq!(cause, DownCause::Login, "{reason}");
            assert!(cause.needs_operator());
            assert!(reason.contains(expected), "{reason}");
        }
    }
}

#[tokio::test]
async fn a_server_that_repeats_the_password_is_not_quoted() {
    // "unknown command 'AUTH', with args beginning with: 'hunter2'"
    let server = Server::start_with(&[
        "--rename-command",
        "AUTH",
        "",
        "--rename-command",
        "HELLO",
        "",
    ]);
    let refused = refusals(&format!("redis://:{PASSWORD}@127.0.0.1:{}", server.port())).await;
    assert_eq!(refused[0].0, DownCause::CommandMissing, "{refused:?}");
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_named() {
    let server = Server::start();
    let link = link_to(&format!("{}/99", server.url()));
    let (cause, reason) = until_down(&mut link.status()).await;
    assert_eq!(cause, DownCause::Database, "{reason}");
    assert!(reason.contains("SELECT"), "{reason}");
}

#[tokio::test]
async fn a_replica_is_refused_and_its_master_named() {
    let mut server = Server::start();
    server.admin::<()>("REPLICAOF 127.0.0.2 1");
    let link = server.link();
    let (cause, reason) = until_down(&mut link.status()).await;
    assert_eq!(cause, DownCause::NotMaster, "{reason}");
    assert!(reason.contains("127.0.0.2"), "{reason}");
}

#[tokio::test]
async fn a_replica_and_a_node_of_a_cluster_are_found_by_a_user_who_may_not_ask() {
    for (arguments, words, expected) in [
        (&[][..], "REPLICAOF 127.0.0.2 1", DownCause::NotMaster),
        (
            &["--cluster-enabled", "yes"],
            "CLUSTER ADDSLOTS 0",
            DownCause::WrongKind,
        ),
    ] {
        let mut server = Server::start_with(arguments);
        server.admin::<()>(&format!(
            "ACL SETUSER worker on >{PASSWORD} ~* &* +@all -role -info"
        ));
        server.admin::<()>(words);
        let link = link_to(&format!(
            "redis://worker:{PASSWORD}@127.0.0.1:{}",
            server.port()
        ));
        let (cause, reason) = until_down(&mut link.status()).await;
        assert_eq!(cause, expected, "{reason}");
    }
}

#[tokio::test]
async fn a_server_that_is_full_is_told_from_a_wrong_password() {
    let mut server = Server::start();
    server.admin::<()>("CONFIG SET requirepass correct");
    server.admin::<()>("CONFIG SET maxclients 1");
    let link = link_to(&format!("redis://:correct@127.0.0.1:{}", server.port()));
    let (cause, reason) = until_down(&mut link.status()).await;
    // The server hangs up right after its answer, so that the answer itself can get lost.
    assert!(
        matches!(cause, DownCause::Full | DownCause::Lost),
        "{cause:?}: {reason}"
    );
    server.admin::<()>("CONFIG SET maxclients 100");
    until_up(&mut link.status()).await;
}

#[tokio::test]
async fn a_disk_that_fails_breaks_no_connection_and_is_logged_once() {
    let log = Log::default();
    let _guard = log.collect();
    let mut server = Server::start();
    let mut save = redis::cmd("CONFIG");
    save.arg("SET").arg("save").arg("1 1");
    save.exec(&mut server.connection()).unwrap();
    let (messages, _received) = mpsc::channel(1);
    let link = link_to(&server.url());
    let listening = link.subscribe(b"c".to_vec(), messages, Some);
    let mut statuses = [link.status(), listening.status()];
    let mut before = Vec::new();
    for status in &mut statuses {
        until_up(status).await;
        before.push(status.borrow().clone());
    }
    // No snapshot can be written any more. Three pings of each connection are refused.
    fs::remove_dir_all(server.directory()).unwrap();
    server.admin::<()>("SET changed 1");
    wait::until("pings to be refused", PATIENCE, || {
        let info = server.admin::<String>("INFO commandstats");
        let pings = info.lines().find(|line| line.starts_with("cmdstat_ping:"));
        let refused = pings.and_then(|line| {
            let (_, number) = line.split_once("rejected_calls=")?;
            number.split(',').next()?.parse::<u32>().ok()
        });
        ready(if refused >= Some(9) {
            Ok(())
        } else {
            Err(refused)
        })
    })
    .await;
    let after: Vec<_> = statuses.map(|status| status.borrow().clone()).into();
    assert_eq!(after, before);
    assert_eq!((log.count("is down"), log.count("MISCONF")), (0, 1));
    // A coordinator that starts now says the same.
    until_up(&mut link_to(&server.url()).status()).await;
}

#[tokio::test]
async fn nobody_there_and_nobody_answering_are_two_things() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    // The kernel accepts for it, but nobody ever answers.
    let silent = refusals(&format!("redis://{}", listener.local_addr().unwrap())).await;
    // A listener that is dropped listens on in a process that another test is about to start.
    let bound = TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = refusals(&format!("redis://{}", bound.local_addr().unwrap())).await;
    for (cause, reason) in silent {
        assert_eq!(cause, DownCause::TimedOut, "{reason}");
        assert!(reason.contains("500 ms, during the login"), "{reason}");
    }
    for (cause, reason) in nobody {
        assert_eq!(cause, DownCause::Unreachable, "{reason}");
    }
}

#[tokio::test]
async fn a_server_that_speaks_something_else_is_told_apart() {
    let log = Log::default();
    let _guard = log.collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (dialled, mut dials) = mpsc::unbounded_channel();
    // Answers each connection as HTTP servers do.
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            dialled.send(()).ok();
            tokio::spawn(async move {
                let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(answer).await.unwrap();
                // Until the other side has read it: an end before that could lose it.
                stream.read_to_end(&mut Vec::new()).await.ok();
            });
        }
    });
    let (messages, _received) = mpsc::channel(1);
    let link = link_to(&format!("redis://{address}"));
    let _listening = link.subscribe(b"c".to_vec(), messages, Some);
    let (cause, reason) = until_down(&mut link.status()).await;
    assert_eq!(cause, DownCause::NotRedis, "{reason}");
    assert!(cause.needs_operator());
    let at = format!("Redis at {address} does not speak");
    assert!(
        reason.contains(&at) && reason.contains("check the host and the port"),
        "{reason}"
    );
    for _ in 0..6 {
        timeout(PATIENCE, dials.recv()).await.unwrap().unwrap();
    }
    assert_eq!(log.count("is down"), 1, "one line for all attempts");
}

/// Collects the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Collects what this thread logs. A test's runtime has one thread, so the link's tasks log here too.
    ///
    /// Where there is one subscriber, tracing notes for each event whether the first thread that reaches it has that subscriber,
    /// and that may be the thread of another test. Where there are two, it asks them.
    fn collect(&self) -> (Dispatch, DefaultGuard) {
        let writer = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let second = Dispatch::new(NoSubscriber::default());
        (second, tracing::subscriber::set_default(subscriber))
    }

    fn count(&self, text: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().unwrap())
            .matches(text)
            .count()
    }
}

#[tokio::test]
async fn a_server_that_may_evict_locks_is_warned_of_once() {
    let log = Log::default();
    let _guard = log.collect();
    let mut server = Server::start();
    let url = format!("redis://worker:{PASSWORD}@127.0.0.1:{}", server.port());
    server.admin::<()>(&format!("ACL SETUSER worker on >{PASSWORD} ~* &* +@all"));
    let link = link_to(&url);
    let mut status = link.status();
    let mut epoch = until_up(&mut status).await;
    assert_eq!(log.count("maxmemory-policy"), 0);

    server.admin::<()>("CONFIG SET maxmemory-policy allkeys-lru");
    for _ in 0..2 {
        assert!(server.admin::<u32>("CLIENT KILL TYPE normal SKIPME yes") >= 2);
        epoch = until_up_after(&mut status, epoch + 1).await;
    }
    assert_eq!(log.count("maxmemory-policy allkeys-lru"), 1);

    // Where CONFIG is not permitted, INFO tells.
    server.admin::<()>("ACL SETUSER worker -config");
    server.admin::<()>("CONFIG SET maxmemory-policy volatile-ttl");
    assert!(server.admin::<u32>("CLIENT KILL TYPE normal SKIPME yes") >= 2);
    epoch = until_up_after(&mut status, epoch + 1).await;
    run(&link, "PING").await;
    assert_eq!(log.count("maxmemory-policy volatile-ttl"), 1);
    server.admin::<()>("ACL SETUSER worker -info");
    assert!(server.admin::<u32>("CLIENT KILL TYPE normal SKIPME yes") >= 2);
    until_up_after(&mut status, epoch + 1).await;
    run(&link, "PING").await;
    assert_eq!(log.count("does not tell its maxmemory-policy"), 1);
    assert_eq!(log.count(PASSWORD), 0);
}
