//! Faults: lost locks, silent clients, strangers, and starts and reloads that fail.

use std::time::Duration;

use leasehold_tests::{
    Coordinator, RawSession,
    raw::{connect, exclusive},
    wait,
};
use rustix::process::Signal;
use tokio::io::AsyncWriteExt;

use super::{
    LIMIT,
    load::force_release,
    site::{Site, fresh_token},
};

/// Locks that are deleted, replaced, or taken by an operator.
pub(crate) async fn losses(site: &Site) {
    let mut session = RawSession::open(&site.endpoint(0), Duration::from_secs(10)).await;
    session.keep_alive(Duration::from_millis(200));
    for name in ["deleted", "replaced", "forced"] {
        let lock = session.take_one(exclusive(name)).await;
        site.secrets.add("owner id", lock.owner_id.as_slice());
        let mut redis = site.redis.connection();
        let key = format!("lock:{name}");
        match name {
            "deleted" => redis::cmd("DEL").arg(key).exec(&mut redis).unwrap(),
            "replaced" => redis::cmd("SET")
                .arg(key)
                .arg("somebody")
                .exec(&mut redis)
                .unwrap(),
            _ => force_release(site, name).await,
        }
        let lost = session.lost(LIMIT).await;
        assert_eq!(lost.len(), 1, "{lost:?}");
    }
}

/// Opens a session that sends no heartbeats.
pub(crate) async fn silence(site: &Site) {
    let mut session = RawSession::open(&site.endpoint(1), Duration::from_secs(4)).await;
    let lock = session.take_one(exclusive("silent")).await;
    site.secrets.add("owner id", lock.owner_id.as_slice());
    let status = session.end(LIMIT).await.unwrap_err();
    site.error(&status);
}

/// Connects as clients that speak another protocol, or that bring wrong tokens.
pub(crate) async fn strangers(site: &Site) {
    for at in 0..2 {
        let endpoint = site.endpoint(at);
        let address = endpoint.trim_start_matches("http://");
        let token = fresh_token(&site.secrets);
        for words in [
            format!("GET / HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n"),
            format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{token}"),
        ] {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            stream.write_all(words.as_bytes()).await.unwrap();
            drop(stream);
        }
        // A token in a place where none belongs, and a session that carries one.
        let channel = connect(&endpoint).await;
        let bearer = format!("Bearer {token}");
        for metadata in [
            [("authorization", bearer.as_str())],
            [("authorization", token.as_str())],
            [("traceparent", token.as_str())],
        ] {
            let mut session = RawSession::stream_with(channel.clone(), &metadata)
                .await
                .unwrap();
            session.say_open(LIMIT).await;
            session.trace_as(token.clone());
            let lock = session.take_one(exclusive(&format!("stranger-{at}"))).await;
            site.secrets.add("owner id", lock.owner_id.as_slice());
            assert!(session.release(&lock).await);
        }
    }
}

/// Coordinators that can't start, or not reach their store, with passwords that are wrong.
pub(crate) async fn bad_starts(site: &Site) {
    let password = "hunter2-that-is-wrong";
    site.secrets.add("password", password);
    let url = format!("redis://:{password}@{}", site.redis.address());
    let unready = Coordinator::process()
        .store(&url)
        .arguments(["--log", "trace", "--store-timeout", "200ms"])
        .start_unready();
    wait::until("a complaint about the password", LIMIT, || async {
        let told = unready.readiness().await;
        let is_told = told.is_err() && unready.log().len() > 200;
        is_told.then_some(()).ok_or((told, unready.log()))
    })
    .await;
    site.said(unready.log().as_bytes());
    site.said(format!("{:?}", unready.readiness().await).as_bytes());
    for arguments in [
        ["--require-store", "--store", &url],
        ["--print-config", "--store", &url],
        ["--listen=0.0.0.0:0", "--store", &url],
        ["check-config", "--store", &format!("etcd://:{password}@h")],
        [
            "check-config",
            "--store",
            &format!("redis+sentinel://:{password}@h"),
        ],
        [
            "check-config",
            "--otlp-endpoint",
            &format!("http://u:{password}@h:1"),
        ],
    ] {
        let arguments = [&arguments[..], &["--store-timeout", "50ms"]].concat();
        site.run("leasehold-server", &arguments, None).await;
    }
}

/// Reloads an invalid configuration that has a password in it.
pub(crate) async fn bad_reload(site: &mut Site) {
    let password = "hunter2-of-a-reload";
    site.secrets.add("password", password);
    let right = std::fs::read_to_string(&site.file).unwrap();
    let token = fresh_token(&site.secrets);
    let wrong = format!("store = \"etcd://:{password}@h\"\n{token} = \"{token}\n{right}");
    for text in [wrong, format!("store = \"redis://:{password}@h\"\n{right}")] {
        std::fs::write(&site.file, text).unwrap();
        let complaint = "was not reloaded";
        let before = site.logged(complaint);
        for coordinator in &mut site.coordinators {
            coordinator.child().signal(Signal::HUP);
        }
        site.until_logged(complaint, before).await;
    }
    std::fs::write(&site.file, right).unwrap();
}
