//! Protected resource: the stock of a shop, kept in Redis.

use std::collections::HashMap;

use leasehold_client::FencingToken;
use redis::{AsyncCommands, RedisResult, Script, aio::MultiplexedConnection};

/// A shop that nobody comes back to is forgotten after this many seconds, should the demonstration be killed.
const FORGOTTEN_AFTER: i64 = 600;

/// A shop, as its workers see it. Everything is in one Redis hash.
#[derive(Clone, Debug)]
pub(crate) struct Shop {
    redis: MultiplexedConnection,
    key: String,
    look: Script,
    sell: Script,
}

/// A write or a read that came with a smaller fencing token than an earlier one: the lock has another holder by now.
#[derive(Debug)]
pub(crate) struct Refused;

/// Sales so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Books {
    pub(crate) stock: i64,
    pub(crate) sold: i64,
    /// Requests that came with too small a fencing token.
    pub(crate) refused: i64,
    /// Sales that were begun and neither done nor refused: the worker died in the middle, or is in it.
    pub(crate) begun: usize,
}

impl Shop {
    /// Returns the shop that is kept under this key.
    pub(crate) fn new(redis: MultiplexedConnection, key: impl Into<String>) -> Self {
        Self {
            redis,
            key: key.into(),
            look: Script::new(include_str!("look.lua")),
            sell: Script::new(include_str!("sell.lua")),
        }
    }

    /// Returns the shop's key, which is also the name of its lock.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Opens it with so many items.
    pub(crate) async fn open(&mut self, stock: i64) -> RedisResult<()> {
        let () = self.redis.del(&self.key).await?;
        let () = self.redis.hset(&self.key, "stock", stock).await?;
        self.redis.expire(&self.key, FORGOTTEN_AFTER).await
    }

    /// Removes every trace of it.
    pub(crate) async fn clear(&mut self) -> RedisResult<()> {
        self.redis.del(&self.key).await
    }

    /// Looks at the stock, as one would without locks.
    pub(crate) async fn look_unprotected(&mut self) -> RedisResult<i64> {
        self.redis.hget(&self.key, "stock").await
    }

    /// Writes the new stock and counts the sale, as one would without locks.
    pub(crate) async fn sell_unprotected(&mut self, stock: i64) -> RedisResult<()> {
        let () = self.redis.hset(&self.key, "stock", stock).await?;
        self.redis.hincr(&self.key, "sold", 1).await
    }

    /// Looks at the stock, as the holder of the lock with this token.
    pub(crate) async fn look(
        &mut self,
        token: FencingToken,
        worker: u32,
    ) -> RedisResult<Result<i64, Refused>> {
        let mut look = self.look.key(&self.key);
        look.arg(token.get()).arg(worker);
        let stock: Option<i64> = look.invoke_async(&mut self.redis).await?;
        Ok(stock.ok_or(Refused))
    }

    /// Writes the new stock and counts the sale, as the holder of the lock with this token.
    pub(crate) async fn sell(
        &mut self,
        token: FencingToken,
        stock: i64,
    ) -> RedisResult<Result<(), Refused>> {
        let mut sell = self.sell.key(&self.key);
        sell.arg(token.get()).arg(stock);
        let sold: bool = sell.invoke_async(&mut self.redis).await?;
        Ok(sold.then_some(()).ok_or(Refused))
    }

    /// Returns the worker that is in the middle of a sale.
    pub(crate) async fn at_the_counter(&mut self) -> RedisResult<Option<u32>> {
        let fields: HashMap<String, String> = self.redis.hgetall(&self.key).await?;
        // Those who died in the middle are still listed; the newest token is that of who is at it.
        let newest = fields.get("token").map(|token| format!("begun:{token}"));
        let worker = newest.and_then(|newest| fields.get(&newest)?.parse().ok());
        Ok(worker)
    }

    /// Returns the sales so far.
    pub(crate) async fn books(&mut self) -> RedisResult<Books> {
        let fields: HashMap<String, String> = self.redis.hgetall(&self.key).await?;
        let number = |field: &str| {
            let text = fields.get(field);
            text.and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        Ok(Books {
            stock: number("stock"),
            sold: number("sold"),
            refused: number("refused"),
            begun: fields.keys().filter(|f| f.starts_with("begun:")).count(),
        })
    }
}
