//! Tests of the Redis fixtures, against real servers.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{net::Ipv4Addr, net::SocketAddr};

use leasehold_tests::{Cluster, Masters, RedisServer, Replicas, Sentinels};

fn set(server: &RedisServer, key: &str, value: &str) -> redis::RedisResult<()> {
    redis::cmd("SET")
        .arg(key)
        .arg(value)
        .exec(&mut server.connection())
}

fn get(server: &RedisServer, key: &str) -> Option<String> {
    redis::cmd("GET")
        .arg(key)
        .query(&mut server.connection())
        .unwrap()
}

#[test]
fn replicas_follow_their_master() {
    let redis = Replicas::start(2);
    set(redis.server(0), "key", "value").unwrap();
    redis.wait_in_step(0, 2);
    for index in 1..=2 {
        assert_eq!(get(redis.server(index), "key").as_deref(), Some("value"));
    }
}

#[test]
fn sentinels_fail_over_and_the_old_master_comes_back_as_a_replica() {
    let mut redis = Sentinels::options()
        .redis_password("one")
        .sentinel_password("two")
        .start();
    assert_eq!(redis.kill_master(), 0);
    let new = redis.wait_failed_over(0);
    assert_ne!(new, 0);
    set(redis.redis().server(new), "key", "value").unwrap();
    redis.redis_mut().server_mut(0).restart();
    redis.redis().wait_in_step(new, 2);
    assert_eq!(
        get(redis.redis().server(0), "key").as_deref(),
        Some("value")
    );
}

#[test]
fn an_isolated_master_goes_on_serving_others_until_it_rejoins() {
    let redis = Sentinels::options().redis_password("one").start();
    redis.isolate(0);
    let new = redis.wait_failed_over(0);
    set(redis.redis().server(0), "key", "old").unwrap();
    set(redis.redis().server(new), "key", "new").unwrap();
    assert_eq!(get(redis.redis().server(0), "key").as_deref(), Some("old"));
    redis.rejoin(0);
    redis.redis().wait_in_step(new, 2);
    assert_eq!(get(redis.redis().server(0), "key").as_deref(), Some("new"));
}

#[test]
fn a_cluster_fails_over_by_itself_and_when_told() {
    let mut cluster = Cluster::options().password("secret").start();
    let slot = cluster.slot_of("key");
    let master = cluster.master_of(slot);
    let replica = cluster.replica_of(master).unwrap();
    cluster.fail_over(replica);
    cluster.wait_until_ok();
    assert_eq!(cluster.master_of(slot), replica);
    set(cluster.node(replica), "key", "value").unwrap();
    cluster.kill(replica);
    cluster.wait_until_ok();
    assert_eq!(cluster.master_of(slot), master);
    cluster.restart(replica);
    cluster.wait_until_ok();
    assert_eq!(cluster.replica_of(master), Some(replica));
    cluster.pause(master);
    cluster.wait_until_ok();
    assert_eq!(cluster.master_of(slot), replica);
    cluster.resume(master);
    cluster.wait_until_ok();
    assert_eq!(cluster.master_of(slot), replica);
}

#[test]
fn a_slot_moves_with_its_keys() {
    let cluster = Cluster::start();
    let slot = cluster.slot_of("{tag}");
    let from = cluster.master_of(slot);
    let to = (from + 1) % 3;
    for key in 0..300 {
        set(cluster.node(from), &format!("{{tag}}{key}"), "value").unwrap();
    }
    cluster.begin_move(slot, from, to);
    assert_eq!(cluster.move_keys(slot, from, to, 10), 10);
    cluster.move_key(b"{tag}299", from, to);
    assert_eq!(
        cluster.keys_of(slot, to).len() + cluster.keys_of(slot, from).len(),
        300
    );
    let moved = &cluster.keys_of(slot, to)[0];
    let error = get_raw(cluster.node(from), moved).unwrap_err();
    assert_eq!(error.code(), Some("ASK"), "{error}");
    while cluster.move_keys(slot, from, to, 100) > 0 {}
    cluster.end_move(slot, from, to);
    assert_eq!(cluster.master_of(slot), to);
    assert_eq!(cluster.keys_of(slot, to).len(), 300);
    cluster.move_slot(slot, to, from);
    assert_eq!(cluster.keys_of(slot, from).len(), 300);
}

fn get_raw(server: &RedisServer, key: &[u8]) -> redis::RedisResult<String> {
    redis::cmd("GET").arg(key).query(&mut server.connection())
}

#[test]
fn masters_come_back_empty_or_old() {
    let mut masters = Masters::start(3);
    set(masters.server(1), "key", "old").unwrap();
    let old = masters.save(1);
    set(masters.server(1), "key", "new").unwrap();
    assert_eq!(get(masters.server(0), "key"), None);
    masters.restart_from(1, &old);
    assert_eq!(get(masters.server(1), "key").as_deref(), Some("old"));
    masters.restart_empty(1);
    assert_eq!(get(masters.server(1), "key"), None);
    masters.kill(1);
    assert!(!masters.server(1).is_running());
    masters.restart(1);
    assert_eq!(get(masters.server(1), "key"), None);
    masters.pause(2);
    assert!(!masters.server(2).is_running());
    masters.resume(2);
    assert!(masters.server(2).is_running());
    let hosts: Vec<SocketAddr> = masters
        .hosts()
        .split(',')
        .map(|host| host.parse().unwrap())
        .collect();
    assert_eq!(hosts.len(), 3);
    assert!(hosts.iter().all(|host| host.ip() == Ipv4Addr::LOCALHOST));
}
