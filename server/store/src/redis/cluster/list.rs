//! Pages of the names in a cluster, one master after the other.

use leasehold_core::name::Invalid;

use super::{
    super::{address::Address, call::scan},
    router::Router,
};
use crate::store::{Listed, Page};

/// Lists names: see [`LockStore::list`](crate::LockStore::list).
pub(in crate::redis) async fn page(
    router: &Router,
    prefix: &str,
    token: &str,
    size: usize,
) -> Listed {
    let Some(place) = Place::read(token) else {
        return Ok(Err(Invalid("must be what the page before gave".into())));
    };
    // In the order of their addresses: if the token's node is gone, the scan goes on with the next one.
    let masters = router.masters();
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
            None => Err(router.nobody("a hash slot")),
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
    let (names, cursor) = scan(link, &router.common.keys, prefix, cursor, size).await?;
    let next = match (cursor, masters.get(rest + 1)) {
        (0, None) => String::new(),
        (0, Some(next)) => Place::write(&next.address, 0),
        (cursor, _) => Place::write(&node.address, cursor),
    };
    Ok(Ok(Page { names, next }))
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
