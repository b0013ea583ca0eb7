//! A server that dies, hangs, becomes a replica, or comes back.

use std::time::Duration;

use leasehold_store::redis::{
    link::{Link, LinkOptions},
    status::{DownCause, LinkError},
};
use redis::{Cmd, ErrorKind, ServerErrorKind, Value};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    common::{PATIENCE, until_up},
    store::server::{Server, command, run, script, until_down, until_down_for, until_up_after},
};

/// Longer than a test waits for anything: what is noticed is noticed without a time-out.
const NEVER: Duration = PATIENCE.saturating_mul(3);

/// Asserts that a command fails at once, unsent.
async fn assert_refused_at_once(link: &Link) {
    for shard in 0..2 {
        let refused = link.execute(shard, vec![command("SET refused 1")]);
        let refused = timeout(Duration::ZERO, refused).await;
        let error = refused.expect("nothing is waited for").unwrap_err();
        assert!(
            matches!(error, LinkError::Down { .. }) && !error.may_have_happened(),
            "{error:?}"
        );
    }
}

/// Returns a command that keeps Redis busy for this many microseconds by its own clock, and writes nothing.
fn busy_script(micros: u32) -> Cmd {
    let mut busy = command("EVAL");
    busy.arg(format!(
        "local from = redis.call('TIME') repeat local now = redis.call('TIME') \
         until (now[1] - from[1]) * 1000000 + (now[2] - from[2]) > {micros} return 1"
    ));
    busy.arg(0);
    busy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_missed_at_once_and_found_again() {
    let mut server = Server::start();
    let text = "return redis.call('INCR', KEYS[1])";
    let link = server.link_with(LinkOptions {
        scripts: vec![script(text)],
        command_timeout: NEVER,
        ping_interval: NEVER,
        ..LinkOptions::default()
    });
    let mut status = link.status();
    let mut epoch = until_up(&mut status).await;
    for _ in 0..3 {
        server.kill();
        until_down(&mut status).await;
        // The other connection may not have noticed yet: one command finds out, the next is not even sent.
        for shard in 0..2 {
            let lost = link.execute(shard, vec![command("PING")]);
            timeout(PATIENCE, lost).await.unwrap().unwrap_err();
        }
        assert_refused_at_once(&link).await;

        server.restart();
        epoch = until_up_after(&mut status, epoch).await;
        let evalsha = format!("EVALSHA {} 1 counter", redis::Script::new(text).get_hash());
        assert_eq!(run(&link, &evalsha).await, Value::Int(1));
    }
    server.kill();
    let reason = until_down_for(&mut status, DownCause::Unreachable).await;
    assert!(
        reason.contains(&format!("127.0.0.1:{}", server.port())),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_in_flight_when_the_server_died_are_indeterminate() {
    let mut server = Server::start();
    let link = server.link_with(LinkOptions {
        command_timeout: NEVER,
        ..LinkOptions::default()
    });
    until_up(&mut link.status()).await;
    server.stop();
    let in_flight = tokio::spawn({
        let link = link.clone();
        async move { link.execute(0, vec![command("SET key 1")]).await }
    });
    sleep(Duration::from_millis(100)).await;
    server.kill();
    let error = timeout(PATIENCE, in_flight)
        .await
        .expect("it waits for its time-out");
    let error = error.unwrap().unwrap_err();
    assert!(
        matches!(error, LinkError::Indeterminate { .. }) && error.may_have_happened(),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_costs_one_time_out_and_is_used_again_at_once() {
    let server = Server::start();
    let link = server.link_with(LinkOptions {
        dial_timeout: Duration::from_millis(100),
        ..LinkOptions::default()
    });
    let mut status = link.status();
    let epoch = until_up(&mut status).await;
    server.stop();
    let mut commands = JoinSet::new();
    for shard in 0..8 {
        let link = link.clone();
        commands.spawn(async move { link.execute(shard, vec![command("INCR counter")]).await });
    }
    while let Some(result) = commands.join_next().await {
        let error = result.unwrap().unwrap_err();
        assert!(
            matches!(error, LinkError::Indeterminate { .. }),
            "{error:?}"
        );
    }
    // Four unanswered commands on each connection were enough. Meanwhile the link dials several times.
    for _ in 0..25 {
        assert_refused_at_once(&link).await;
        let (cause, reason) = until_down(&mut status).await;
        assert_eq!(cause, DownCause::TimedOut, "{reason}");
        sleep(Duration::from_millis(20)).await;
    }
    server.cont();
    until_up_after(&mut status, epoch).await;
    run(&link, "INCR counter").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_is_noticed_without_traffic() {
    let server = Server::start();
    let (messages, _received) = mpsc::channel(1);
    let link = server.link_with(LinkOptions::default());
    let listening = link.subscribe(b"c".to_vec(), messages, Some);
    let mut status = link.status();
    let mut subscribed = listening.status();
    let epochs = (until_up(&mut status).await, until_up(&mut subscribed).await);
    server.stop();
    let (cause, reason) = until_down(&mut status).await;
    assert_eq!(cause, DownCause::TimedOut, "{reason}");
    let (cause, reason) = until_down(&mut subscribed).await;
    assert_eq!(cause, DownCause::TimedOut, "{reason}");
    server.cont();
    until_up_after(&mut status, epochs.0).await;
    until_up_after(&mut subscribed, epochs.1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_slow_command_does_not_cost_the_connection() {
    let server = Server::start();
    let command_timeout = Duration::from_secs(1);
    // No pings in between: they would be held up as well.
    let ping_interval = Duration::from_secs(60);
    let link = server.link_with(LinkOptions {
        command_timeout,
        ping_interval,
        ..LinkOptions::default()
    });
    let mut status = link.status();
    let epoch = until_up(&mut status).await;
    // Longer than a command may take here.
    let slow = busy_script(1_200_000);
    let error = link.execute(0, vec![slow]).await.unwrap_err();
    assert!(error.may_have_happened(), "{error:?}");
    run(&link, "PING").await;
    assert_eq!(until_up(&mut status).await, epoch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_becomes_a_replica_is_left_without_doubt() {
    let mut server = Server::start();
    let text = "return {redis.pcall('SET', KEYS[1], 'x')}";
    let link = server.link_with(LinkOptions {
        scripts: vec![script(text)],
        ..LinkOptions::default()
    });
    let mut status = link.status();
    let epoch = until_up(&mut status).await;
    // Nobody is there to be replicated, so it keeps its data and only refuses writes.
    server.admin::<()>("REPLICAOF 127.0.0.1 1");
    let evalsha = format!("EVALSHA {} 1 key", redis::Script::new(text).get_hash());
    let mut commands = JoinSet::new();
    for number in 0..200 {
        let (link, words) = (
            link.clone(),
            if number % 2 == 0 {
                "SET key x"
            } else {
                evalsha.as_str()
            }
            .to_owned(),
        );
        commands.spawn(async move { link.execute(number / 2, vec![command(&words)]).await });
    }
    let mut refusals = 0;
    while let Some(result) = commands.join_next().await {
        match result.unwrap() {
            Err(LinkError::Down { .. }) => {}
            Ok(replies) => match &replies.items[0] {
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly) => {
                    refusals += 1
                }
                Ok(Value::Array(items)) if matches!(&items[0], Value::ServerError(e) if e.code() == "READONLY") =>
                {
                    refusals += 1;
                }
                other => panic!("{other:?}"),
            },
            Err(error) => panic!("{error:?}: a refusal leaves no doubt"),
        }
    }
    assert!(refusals >= 2, "{refusals}");
    assert_refused_at_once(&link).await;
    let (cause, reason) = until_down(&mut status).await;
    assert_eq!(cause, DownCause::NotMaster, "{reason}");

    server.admin::<()>("REPLICAOF NO ONE");
    until_up_after(&mut status, epoch).await;
    run(&link, "SET key x").await;
}

#[tokio::test]
async fn commands_in_flight_behind_a_refusal_still_get_their_replies() {
    let mut server = Server::start();
    let link = server.link_with(LinkOptions {
        connections: 1,
        command_timeout: NEVER,
        ..LinkOptions::default()
    });
    until_up(&mut link.status()).await;
    server.admin::<()>("REPLICAOF 127.0.0.1 1");
    let execute = |batch: Cmd| {
        let link = link.clone();
        tokio::spawn(async move { link.execute(0, vec![batch]).await })
    };
    // Both are on their way before any reply is read. The second is larger than what Redis reads at a time, so that its
    // reply comes in another packet than the refusal, and a second later.
    let mut slow = busy_script(1_000_000);
    slow.arg("x".repeat(1 << 20));
    let (refused, behind) = (execute(command("SET key x")), execute(slow));
    let refused = refused.await.unwrap().unwrap().items.remove(0).unwrap_err();
    assert_eq!(refused.code(), Some("READONLY"));
    assert_refused_at_once(&link).await;
    assert!(!behind.is_finished());
    assert_eq!(behind.await.unwrap().unwrap().items, [Ok(Value::Int(1))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_not_used_before_it_has_read_its_data() {
    // A millisecond for each key, with its clients answered in between.
    let mut server = Server::start_with(&[
        "--key-load-delay",
        "1000",
        "--loading-process-events-interval-bytes",
        "1024",
    ]);
    let mut fill = command("EVAL");
    fill.arg("for i = 1, 2000 do redis.call('SET', 'key' .. i, i) end")
        .arg(0);
    let link = server.link();
    let mut status = link.status();
    let epoch = until_up(&mut status).await;
    link.execute(0, vec![fill])
        .await
        .unwrap()
        .items
        .remove(0)
        .unwrap();
    server.admin::<()>("SAVE");
    server.kill();
    until_down(&mut status).await;
    let loading = tokio::spawn({
        let mut status = link.status();
        async move { until_down_for(&mut status, DownCause::Loading).await }
    });
    server.restart();
    loading.await.unwrap();
    until_up_after(&mut status, epoch).await;
    assert_eq!(run(&link, "DBSIZE").await, Value::Int(2000));
}
