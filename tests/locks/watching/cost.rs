//! Cost of watching while there are no watchers: none.

use leasehold_tests::{Site, raw, raw::exclusive, report, wait};
use redis::aio::MultiplexedConnection;

use crate::watching::watch::Watch;

/// Returns the number of calls of a command that Redis has carried out.
async fn calls(redis: &mut MultiplexedConnection, command: &str) -> u64 {
    let mut info = redis::cmd("INFO");
    let info: String = info.arg("commandstats").query_async(redis).await.unwrap();
    let prefix = format!("cmdstat_{command}:calls=");
    info.lines()
        .find_map(|line| line.strip_prefix(&prefix)?.split(',').next()?.parse().ok())
        .unwrap_or(0)
}

async fn channels(redis: &mut MultiplexedConnection) -> usize {
    let mut channels = redis::cmd("PUBSUB");
    let channels: Vec<String> = channels.arg("CHANNELS").query_async(redis).await.unwrap();
    channels.len()
}

async fn connections(redis: &mut MultiplexedConnection) -> usize {
    let list: String = redis::cmd("CLIENT")
        .arg("LIST")
        .query_async(redis)
        .await
        .unwrap();
    list.lines().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_published_and_nothing_subscribed_while_nobody_watches() {
    let site = Site::redis(2).await;
    let mut redis = site.plain().await;
    let mut session = site.session(0).await;
    let before = (channels(&mut redis).await, connections(&mut redis).await);
    let mut cycles = async |redis: &mut MultiplexedConnection| {
        let published = calls(redis, "publish").await;
        for _ in 0..100 {
            let held = session.take_one(exclusive("quiet")).await;
            assert!(session.release(&held).await);
        }
        calls(redis, "publish").await - published
    };
    assert_eq!(cycles(&mut redis).await, 0);

    let watch = Watch::at(&site, 1, "").await;
    assert!(channels(&mut redis).await > before.0);
    let told = cycles(&mut redis).await;
    assert_eq!(told, 200, "one for each grant and each release");
    drop(watch);
    wait::until("nothing of it to be left", raw::PROMPT, || {
        let mut redis = redis.clone();
        async move {
            let now = (channels(&mut redis).await, connections(&mut redis).await);
            if now == before { Ok(()) } else { Err(now) }
        }
    })
    .await;
    assert_eq!(cycles(&mut redis).await, 0);

    // One that observes an election has Redis tell of that alone.
    let mut other = site.session(0).await;
    other.take_one(exclusive("election")).await;
    let request = leasehold_proto::v1::ObserveRequest {
        election: "election".into(),
    };
    let channel = site.at(1).channel().await;
    let mut elections =
        leasehold_proto::v1::election_service_client::ElectionServiceClient::new(channel);
    let mut observing = elections.observe(request).await.unwrap().into_inner();
    assert!(observing.message().await.unwrap().unwrap().leader.is_some());
    assert_eq!(cycles(&mut redis).await, 0);
    let commands = calls(&mut redis, "publish").await;
    report(format!(
        "watched, 100 cycles published {told} times; {commands} in all"
    ));
}

/// Watchers that come and go leave nothing behind, in the coordinator as well.
#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_come_and_go_leave_nothing() {
    let site = Site::redis(2).await;
    let mut redis = site.plain().await;
    let metrics = site.at(0).metrics().await;
    let tasks = metrics.sum("leasehold_tasks");
    let before = (channels(&mut redis).await, connections(&mut redis).await);
    for round in 0..50 {
        let channel = site.at(0).channel().await;
        if round % 2 == 0 {
            Watch::begin(channel, "a/").await;
        } else {
            // Gone before it has read anything.
            Watch::stream(channel, "b/").await;
        }
    }
    wait::until("everything to be as before", raw::PROMPT, || {
        let (mut redis, site) = (redis.clone(), &site);
        async move {
            let metrics = site.at(0).metrics().await;
            let now = (channels(&mut redis).await, connections(&mut redis).await);
            let tasks_now = metrics.sum("leasehold_tasks");
            let watchers = metrics.sum("leasehold_watchers");
            if now == before && watchers == 0.0 && tasks_now <= tasks + 2.0 {
                Ok(())
            } else {
                Err((now, watchers, tasks_now, tasks))
            }
        }
    })
    .await;
}
