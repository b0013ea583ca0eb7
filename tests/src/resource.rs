//! Resource that a lock protects. It refuses writers whose lock has been granted to another client since.

use redis::{RedisResult, Script, aio::ConnectionLike};

/// A Redis list that accepts a value only with a fencing token that is not smaller than any it has seen.
#[derive(Clone, Debug)]
pub struct FencedResource {
    key: String,
    write: Script,
}

impl FencedResource {
    /// Returns the resource kept under `key` (the list) and `key:token` (the largest token seen).
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            // Tokens stay below 2^53, so that Lua's numbers compare them exactly; they are stored as they came.
            write: Script::new(
                "local seen = tonumber(redis.call('GET', KEYS[2]) or '0')
                 if tonumber(ARGV[1]) < seen then return 0 end
                 redis.call('SET', KEYS[2], ARGV[1])
                 redis.call('RPUSH', KEYS[1], ARGV[2])
                 return 1",
            ),
        }
    }

    /// Appends a value; false if the token is too small.
    ///
    /// # Errors
    ///
    /// If Redis can't be reached.
    pub async fn write(
        &self,
        connection: &mut impl ConnectionLike,
        token: i64,
        value: &str,
    ) -> RedisResult<bool> {
        self.write
            .key(&self.key)
            .key(format!("{}:token", self.key))
            .arg(token)
            .arg(value)
            .invoke_async(connection)
            .await
    }

    /// Returns all values that were accepted, in order.
    ///
    /// # Errors
    ///
    /// If Redis can't be reached.
    pub async fn values(&self, connection: &mut impl ConnectionLike) -> RedisResult<Vec<String>> {
        redis::cmd("LRANGE")
            .arg(&self.key)
            .arg(0)
            .arg(-1)
            .query_async(connection)
            .await
    }
}
