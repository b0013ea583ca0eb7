//! Readers of what Redis replies and publishes, for the fuzz target `redis_reply`. No part of the API.

use std::sync::Arc;

use leasehold_core::{
    deadlock::Publication,
    id::CoordinatorId,
    name::LockName,
    time::{Moment, StoreTime},
};
use redis::{RedisError, Value};

use super::{
    address::Address,
    blocked::Board,
    cluster, decode, ended, errors, handshake,
    keys::{Channels, Keys},
    replies, reroute,
    server_clock::ServerClock,
    telling, wake_up,
};

/// Reads a reply in the place of each reply that a server gives. Returns the reasons why it was refused.
///
/// # Panics
///
/// If a publication of blocked waits is not read back as it was written.
pub fn read_reply(reply: &Value, nonce: u64, commands: usize) -> Vec<String> {
    let mut refused = Vec::new();
    if let Err(garbled) = decode::decode(reply.clone(), nonce, commands) {
        refused.push(garbled.reason().to_owned());
    }
    if let Err(error) = ended::decode(reply.clone()) {
        refused.push(error.to_string());
    }
    let board = Board::new(CoordinatorId::new("c0"));
    if let Err(error) = board.take(&Arc::new(Publication::default()), reply.clone()) {
        refused.push(error.to_string());
    }
    replies::each_error(std::slice::from_ref(reply), &mut |error| {
        let _ = (replies::unfit(error), crate::cause::words(error));
    });
    if let Value::ServerError(error) = reply {
        if let Ok(name) = LockName::parse("a") {
            refused.push(errors::server_error(&name, error).to_string());
        }
        let error = RedisError::from(error.clone());
        refused.push(errors::call_error(&error).to_string());
        let _ = reroute::Refusal::of_call(&error);
    }
    let _ = handshake::run_id(reply);
    let _ = handshake::config_value(reply.clone());
    let clock = ServerClock::default();
    clock.observe_reply(
        reply.clone(),
        Moment::from_micros(1),
        Moment::from_micros(2),
    );
    let _ = clock
        .at(Moment::from_micros(u64::MAX))
        .map(StoreTime::as_micros);
    refused
}

/// Reads bytes in the place of each message that scripts publish, and of each text in a reply.
pub fn read_published(bytes: &[u8]) {
    let keys = Keys::new("lock:");
    let channels = Channels::of_database(0);
    let _ = wake_up::parse(bytes, &keys);
    let _ = telling::subject(bytes, &channels, &keys);
    let _ = telling::is_for_feed(bytes, &channels.everything());
    if let Some(lock) = telling::lock_of(bytes) {
        assert!(lock.len() <= bytes.len());
    }
    let _ = telling::read(bytes, None, &keys);
    let _ = super::blocked::read(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Address::read(text, &Address::new("127.0.0.1", 6379));
    }
}

/// Reads replies in the place of those with which a node describes its cluster. Returns the reason if they are refused.
pub fn read_cluster(slots: &Value, nodes: &Value) -> Option<String> {
    cluster::read_view(slots, nodes)
}
