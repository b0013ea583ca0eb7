//! Store on a Redis Cluster.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use leasehold_core::{
    command::Command,
    deadlock::Publication,
    name::{Invalid, LockName},
};
use tokio::sync::{mpsc, watch};

use super::{
    super::{
        address::Address,
        blocked,
        call::scan,
        keys::Keys,
        status::LinkStatus,
        store::WAKE_UPS,
        url::{ClusterUrl, StoreUrlError},
    },
    feed, keeper,
    router::{Common, Router},
};
use crate::{
    feed::Feed,
    measure::Script,
    store::{Answer, Exchanged, Listed, LockStore, Observer, Options, Page, WakeUp},
};

/// Locks on a Redis Cluster. The connections close soon after it is dropped.
pub struct ClusterStore {
    router: Arc<Router>,
    keys: Keys,
    board: blocked::Board,
}

impl ClusterStore {
    /// Starts to connect; commands fail until [`LockStore::status`] says that it is up.
    pub fn open(options: Options) -> Result<(Self, mpsc::Receiver<WakeUp>), StoreUrlError> {
        let url = ClusterUrl::parse(&options.url, options.tls.clone())?;
        let keys = Keys::new(&options.key_prefix);
        let (wake_ups, receiver) = mpsc::channel(WAKE_UPS);
        let board = blocked::Board::new(options.coordinator.clone());
        let common = Common {
            options,
            keys: keys.clone(),
            wake_ups,
        };
        let router = Router::new(url, common);
        tokio::spawn(keeper::run(Arc::downgrade(&router)));
        let store = Self {
            router,
            keys,
            board,
        };
        Ok((store, receiver))
    }

    /// Lists names: see [`LockStore::list`].
    async fn page(&self, prefix: &str, token: &str, size: usize) -> Listed {
        let Some(place) = Place::read(token) else {
            return Ok(Err(Invalid("must be what the page before gave".into())));
        };
        // In the order of their addresses: if the token's node is gone, the scan goes on with the next one.
        let masters = self.router.masters();
        let rest = masters.partition_point(|node| {
            place
                .as_ref()
                .is_some_and(|place| node.address < place.address)
        });
        let Some(node) = masters.get(rest) else {
            return match place {
                Some(_) => Ok(Ok(Page {
                    names: Vec::new(),
                    next: String::new(),
                })),
                None => Err(self.router.nobody("a hash slot")),
            };
        };
        let cursor = place.map_or(0, |place| {
            if place.address == node.address {
                place.cursor
            } else {
                0
            }
        });
        let link = node.lanes.measured_link();
        let (names, cursor) = scan(link, &self.keys, prefix, cursor, size).await?;
        let next = match (cursor, masters.get(rest + 1)) {
            (0, None) => String::new(),
            (0, Some(next)) => Place::write(&next.address, 0),
            (cursor, _) => Place::write(&node.address, cursor),
        };
        Ok(Ok(Page { names, next }))
    }
}

impl LockStore for ClusterStore {
    fn send(&self, command: Command, answer: Answer) {
        let keys = self.keys.of(&command.name);
        self.router.send(command, keys, answer);
    }

    fn list<'a>(&'a self, prefix: &'a str, token: &'a str, size: usize) -> BoxFuture<'a, Listed> {
        Box::pin(self.page(prefix, token, size))
    }

    fn exchange(&self, mine: Arc<Publication>) -> BoxFuture<'_, Exchanged> {
        Box::pin(async move {
            let key = self.keys.blocked();
            let send = async |command| {
                let meter = &self.router.common.options.meter;
                let asked = self.router.execute(self.keys.blocked_slot(), command);
                meter.measure(Script::Blocked, asked).await
            };
            self.board.exchange(&key, mine, send).await
        })
    }

    fn check_name(&self, name: &LockName) -> Result<(), Invalid> {
        self.keys.check(name)
    }

    fn status(&self) -> watch::Receiver<LinkStatus> {
        self.router.status.subscribe()
    }

    fn observe(&self, observer: Observer) {
        self.router.observe(observer);
    }

    fn feed(&self) -> Feed {
        feed::open(&self.router)
    }
}

impl std::fmt::Debug for ClusterStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterStore").finish_non_exhaustive()
    }
}

/// Begin of a page.
struct Place {
    address: Address,
    cursor: u64,
}

impl Place {
    /// Reads a page token: nothing for the first page, `host:port:cursor` for others; `None` if it is neither.
    fn read(token: &str) -> Option<Option<Self>> {
        if token.is_empty() {
            return Some(None);
        }
        let (address, cursor) = token.rsplit_once(':')?;
        let (host, port) = address.rsplit_once(':')?;
        let address = Address::new(host, port.parse().ok()?);
        let cursor = cursor.parse().ok()?;
        (!host.is_empty()).then_some(Some(Self { address, cursor }))
    }

    fn write(address: &Address, cursor: u64) -> String {
        format!("{}:{}:{cursor}", address.host, address.port)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn page_tokens_come_back() {
        assert!(Place::read("").unwrap().is_none());
        for host in ["10.0.0.1", "node.example", "2001:db8::1"] {
            let address = Address::new(host, 7000);
            let place = Place::read(&Place::write(&address, u64::MAX))
                .unwrap()
                .unwrap();
            assert_eq!((place.address, place.cursor), (address, u64::MAX));
        }
        for token in ["1", "a:1", ":1:1", "h:1:x", "h:99999:1", "h:1:-1"] {
            assert!(Place::read(token).is_none(), "{token}");
        }
    }
}
