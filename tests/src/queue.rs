//! Queue of a name, read from Redis.

use redis::aio::MultiplexedConnection;

const OWNER_ID_BYTES: usize = 16;
const PLACE_BYTES: usize = 8;

/// Returns the owner ids that wait for the lock `name`, over all coordinators, in the order in which they are to be served: the
/// order in which Redis saw their acquires. Empty if nobody waits.
///
/// This reads the queue's own key, so that no coordinator is asked what a test wants to hold against coordinators.
///
/// # Panics
///
/// If Redis does not answer, the name has more than one queue, or the queue has another format.
pub async fn queue_order(redis: &mut MultiplexedConnection, name: &str) -> Vec<Vec<u8>> {
    let members: Vec<Vec<u8>> = match &queue_keys(redis, name).await[..] {
        [] => return Vec::new(),
        [key] => {
            let mut range = redis::cmd("ZRANGE");
            range.arg(key).arg(0).arg(-1);
            range.query_async(redis).await.expect("Redis answers")
        }
        keys => panic!("{name} has more than one queue: {keys:?}"),
    };
    let mut waiters: Vec<_> = members
        .iter()
        .map(|member| place_and_owner(member))
        .collect();
    waiters.sort_unstable();
    waiters
        .into_iter()
        .map(|(_, owner)| owner.to_vec())
        .collect()
}

/// Splits a member into its place and its owner id. A member is the coordinator's id, a zero byte, the place (big-endian), and
/// the owner id, so that each coordinator's waiters are together.
fn place_and_owner(member: &[u8]) -> (u64, &[u8]) {
    let (rest, owner) = member
        .split_last_chunk::<OWNER_ID_BYTES>()
        .expect("a member ends with an owner id");
    let (coordinator, place) = rest
        .split_last_chunk::<PLACE_BYTES>()
        .expect("a place is before it");
    assert_eq!(coordinator.last(), Some(&0), "a zero byte is before that");
    (u64::from_be_bytes(*place), owner)
}

async fn queue_keys(redis: &mut MultiplexedConnection, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg("lh:*:queue:*");
        scan.arg("COUNT").arg(1_000);
        let (next, keys): (u64, Vec<String>) =
            scan.query_async(redis).await.expect("Redis answers");
        let ending = format!(":queue:lock:{name}");
        found.extend(keys.into_iter().filter(|key| key.ends_with(&ending)));
        cursor = next;
        if cursor == 0 {
            // A scan may show a key twice.
            found.sort();
            found.dedup();
            return found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiters_of_all_coordinators_are_in_the_order_of_their_places() {
        let server = crate::RedisServer::start();
        let mut redis = server.async_connection().await;
        let member = |coordinator: &str, place: u64, owner: u8| {
            let head = [coordinator.as_bytes(), &[0], &place.to_be_bytes()].concat();
            [head, vec![owner; OWNER_ID_BYTES]].concat()
        };
        let mut add = redis::cmd("ZADD");
        add.arg("lh:{a}:queue:lock:mixed");
        for (coordinator, place, owner) in
            [("b", 256, 3), ("a", 255, 2), ("a", 257, 4), ("b", 1, 1)]
        {
            add.arg(0).arg(member(coordinator, place, owner));
        }
        let added: u32 = add.query_async(&mut redis).await.unwrap();
        assert_eq!(added, 4);
        // Another name's.
        let mut other = redis::cmd("ZADD");
        other.arg("lh:{a}:queue:lock:not mixed").arg(0);
        other.arg(member("a", 2, 9));
        let added: u32 = other.query_async(&mut redis).await.unwrap();
        assert_eq!(added, 1);
        let expected: Vec<_> = (1..=4).map(|owner| vec![owner; OWNER_ID_BYTES]).collect();
        assert_eq!(queue_order(&mut redis, "mixed").await, expected);
        assert!(queue_order(&mut redis, "nobody's").await.is_empty());
    }
}
