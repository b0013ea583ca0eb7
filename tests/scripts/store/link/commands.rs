//! Batches of commands over a link without faults.

use std::time::Duration;

use leasehold_core::mode::Mode;
use leasehold_store::redis::link::LinkOptions;
use redis::{ErrorKind, ServerErrorKind, Value};
use tokio::{runtime::Handle, sync::mpsc, task::JoinSet, time::timeout};

use crate::{
    common::{self, PATIENCE, acquire, connect, options, until_up},
    store::server::{
        Server, bulk, carries_messages, command, link_to, run, script, until_up_after,
    },
};

#[tokio::test]
async fn each_command_has_a_reply_or_an_error_of_its_own() {
    let server = Server::start();
    let link = server.link();
    until_up(&mut link.status()).await;
    let mut nested = command("EVAL");
    nested
        .arg("return {1, redis.pcall('LPUSH', 'key', 'x'), 'end'}")
        .arg(0);
    let batch = vec![
        command("SET key value"),
        command("LPUSH key x"),
        command("GET key"),
        nested,
        command("NONSENSE"),
    ];
    let items = link.execute(0, batch).await.unwrap().items;

    assert_eq!(items.len(), 5);
    assert_eq!(items[0], Ok(Value::Okay));
    assert_eq!(items[1].as_ref().unwrap_err().code(), Some("WRONGTYPE"));
    assert_eq!(items[2], Ok(bulk("value")));
    let Ok(Value::Array(parts)) = &items[3] else {
        panic!("{items:?}")
    };
    assert_eq!((&parts[0], &parts[2]), (&Value::Int(1), &bulk("end")));
    assert!(
        matches!(&parts[1], Value::ServerError(error) if error.code() == "WRONGTYPE"),
        "{parts:?}"
    );
    assert_eq!(items[4].as_ref().unwrap_err().code(), Some("ERR"));
    assert_eq!(link.execute(0, Vec::new()).await.unwrap().items, Vec::new());
}

#[tokio::test]
async fn login_and_database_are_used() {
    let mut server = Server::start();
    server.admin::<()>("CONFIG SET requirepass hunter2");
    server.admin::<()>("ACL SETUSER worker on >p/w# ~* &* +@all");
    for login in [":hunter2", "default:hunter2", "worker:p%2Fw%23"] {
        let url = format!("redis://{login}@127.0.0.1:{}/3", server.port());
        let link = link_to(&url);
        carries_messages(&link).await;
        run(&link, "SET key value").await;
        assert_eq!(
            server
                .admin::<String>("INFO keyspace")
                .matches("db3:keys=1")
                .count(),
            1
        );
        server.admin::<()>("FLUSHALL");
        assert!(!format!("{link} {link:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn a_user_without_dangerous_commands_suffices() {
    let mut server = Server::start();
    server.admin::<()>("ACL SETUSER worker on >secret ~* &* +@all -@dangerous");
    let url = format!("redis://worker:secret@{}", server.address());
    let (store, _wake_ups) = connect(options(&url)).await;
    let acquired = store.execute(common::command("x", "here", acquire(1, Mode::Exclusive)));
    acquired.await.unwrap();
}

#[tokio::test]
async fn an_emptied_script_cache_is_filled_again() {
    let mut server = Server::start();
    let append = "return redis.call('RPUSH', KEYS[1], ARGV[1])";
    let length = "return redis.call('LLEN', KEYS[1])";
    let scripts = vec![script(append), script(length)];
    let link = server.link_with(LinkOptions {
        scripts,
        ..LinkOptions::default()
    });
    until_up(&mut link.status()).await;
    let sha = |text: &str| redis::Script::new(text).get_hash().to_owned();
    let batch = || {
        vec![
            command(&format!("EVALSHA {} 1 list a", sha(append))),
            command("RPUSH list b"),
            command(&format!("EVALSHA {} 0", "0".repeat(40))),
            command(&format!("EVALSHA {} 1 list", sha(length))),
        ]
    };
    let is_unknown = |item: &redis::RedisResult<Value>| {
        item.as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
    };

    let items = link.execute(0, batch()).await.unwrap().items;
    assert_eq!(
        (&items[0], &items[1], &items[3]),
        (&Ok(Value::Int(1)), &Ok(Value::Int(2)), &Ok(Value::Int(2)))
    );
    assert!(is_unknown(&items[2]), "{items:?}");

    server.admin::<()>("DEL list");
    server.admin::<()>("SCRIPT FLUSH");
    let items = link.execute(0, batch()).await.unwrap().items;
    // Each ran once; those with a lost script after the rest of the batch.
    assert_eq!(
        (&items[0], &items[1], &items[3]),
        (&Ok(Value::Int(2)), &Ok(Value::Int(1)), &Ok(Value::Int(2)))
    );
    assert!(is_unknown(&items[2]), "{items:?}");
    assert_eq!(server.admin::<Vec<String>>("LRANGE list 0 -1"), ["b", "a"]);
}

#[tokio::test]
async fn a_shard_keeps_to_one_connection_and_its_order() {
    let mut server = Server::start();
    let link = server.link();
    until_up(&mut link.status()).await;
    let mut ids = Vec::new();
    for shard in 0..4 {
        ids.push(
            link.execute(shard, vec![command("CLIENT ID")])
                .await
                .unwrap()
                .items
                .remove(0)
                .unwrap(),
        );
    }
    assert_eq!((&ids[0], &ids[1]), (&ids[2], &ids[3]));
    assert_ne!(ids[0], ids[1]);

    // On this single-threaded runtime, tasks are first polled in the order in which they were spawned.
    let mut tasks = JoinSet::new();
    for number in 0..1000 {
        let link = link.clone();
        tasks.spawn(async move {
            link.execute(7, vec![command(&format!("RPUSH list {number}"))])
                .await
                .unwrap()
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().items.remove(0).unwrap();
    }
    assert_eq!(
        server.admin::<Vec<u32>>("LRANGE list 0 -1"),
        (0..1000).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn an_abandoned_batch_disturbs_no_other() {
    let server = Server::start();
    let link = server.link();
    until_up(&mut link.status()).await;
    for number in 0..1000_u64 {
        let batch = vec![command(&format!("ECHO abandoned-{number}"))];
        _ = timeout(Duration::from_micros(number % 100), link.execute(0, batch)).await;
        assert_eq!(
            run(&link, &format!("ECHO {number}")).await,
            bulk(&number.to_string())
        );
    }
}

#[tokio::test]
async fn messages_arrive_and_the_subscription_comes_back() {
    let mut server = Server::start();
    let (messages, mut received) = mpsc::channel(2);
    let link = server.link_with(LinkOptions::default());
    let listening = link.subscribe(b"wake:\xff".to_vec(), messages, Some);
    until_up(&mut link.status()).await;
    let mut subscribed = listening.status();
    let epoch = until_up(&mut subscribed).await;
    let mut check = async |payload: &[u8]| {
        let mut publish = command("PUBLISH");
        publish.arg(b"wake:\xff").arg(payload);
        let reached = link
            .execute(0, vec![publish])
            .await
            .unwrap()
            .items
            .remove(0);
        assert_eq!(reached, Ok(Value::Int(1)));
        assert_eq!(
            timeout(PATIENCE, received.recv()).await.unwrap().unwrap(),
            payload
        );
    };
    check(b"\x00\xfe").await;
    check(b"").await;
    assert_eq!(server.admin::<u32>("CLIENT KILL TYPE pubsub"), 1);
    until_up_after(&mut subscribed, epoch).await;
    check(b"subscribed again").await;
}

#[tokio::test]
async fn a_connection_that_is_marked_bad_is_replaced_once() {
    let server = Server::start();
    // The news alone must wake the connection's task, not its next ping.
    let ping_interval = Duration::from_secs(60);
    let link = server.link_with(LinkOptions {
        ping_interval,
        ..LinkOptions::default()
    });
    let mut status = link.status();
    let epoch = until_up(&mut status).await;
    let id = async || link.execute(1, vec![command("CLIENT ID")]).await.unwrap();
    let before = id().await;
    link.mark_bad(before.connection, "another nonce");
    let refused = link.execute(1, vec![command("PING")]).await.unwrap_err();
    assert!(
        !refused.may_have_happened() && refused.to_string().contains("another nonce"),
        "{refused}"
    );
    run(&link, "PING").await;
    let epoch = until_up_after(&mut status, epoch).await;
    let after = id().await;
    assert_ne!(before.items, after.items);
    assert_ne!(before.connection, after.connection);

    link.mark_bad(before.connection, "said late, of a connection that is gone");
    assert_eq!(id().await.items, after.items);
    assert_eq!(until_up(&mut status).await, epoch);
}

#[tokio::test]
async fn nothing_outlives_the_last_handle() {
    let mut server = Server::start();
    let (messages, mut received) = mpsc::channel(1);
    let tasks_before = Handle::current().metrics().num_alive_tasks();
    let link = server.link_with(LinkOptions::default());
    let listening = link.subscribe(b"c".to_vec(), messages, Some);
    let mut status = link.status();
    until_up(&mut status).await;
    until_up(&mut listening.status()).await;
    let ours = |clients: String| {
        clients
            .lines()
            .filter(|line| line.contains("addr=127.0.0.1:"))
            .count()
    };
    // The connections by which the server was found to be up may still be closing.
    timeout(PATIENCE, async {
        while ours(server.admin("CLIENT LIST")) != 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("the link has three connections");
    assert_eq!(
        Handle::current().metrics().num_alive_tasks(),
        tasks_before + 6
    );

    let clone = link.clone();
    drop(link);
    run(&clone, "PING").await;
    drop(clone);
    drop(listening);
    // Both ends hear of it: our channels close, and Redis sees its clients go.
    assert!(timeout(PATIENCE, received.recv()).await.unwrap().is_none());
    while status.changed().await.is_ok() {}
    timeout(PATIENCE, async {
        while Handle::current().metrics().num_alive_tasks() > tasks_before
            || ours(server.admin("CLIENT LIST")) > 0
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("tasks and connections should be gone");
}
