//! View of the cluster that one node reports.

use std::collections::HashMap;

use redis::Value;

use super::super::{address::Address, handshake::text, keys::SLOTS};

/// View of the cluster by one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    /// The node's own id.
    pub(super) of: String,
    /// The masters that serve slots.
    pub(super) masters: Vec<Master>,
    /// First slot, last slot, and the index of their master.
    pub(super) ranges: Vec<(u16, u16, usize)>,
    /// The other nodes, which can be asked if no master answers.
    pub(super) replicas: Vec<Address>,
}

/// Master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Master {
    /// The id, which it keeps when its address changes; empty if only its address is known.
    pub(super) id: String,
    pub(super) address: Address,
    /// The epoch of its right to its slots.
    pub(super) epoch: u64,
}

impl View {
    /// Parses the replies to `CLUSTER SLOTS`, which has the addresses for clients, and `CLUSTER NODES`, which has the epochs.
    /// `asked` replaces the host of a node that does not know its own. Returns `None` if they are malformed, or inconsistent:
    /// a node may have been added in between.
    pub(super) fn read(slots: Value, nodes: &str, asked: &Address) -> Option<Self> {
        let mut epochs = HashMap::new();
        let mut view = Self::default();
        for line in nodes.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let &[id, _, flags, _, _, _, epoch, ..] = &words[..] else {
                return None;
            };
            if flags.split(',').any(|flag| flag == "myself") {
                id.clone_into(&mut view.of);
            }
            epochs.insert(id.to_owned(), epoch.parse::<u64>().ok()?);
        }
        let mut places = HashMap::new();
        for range in list(slots)? {
            let mut range = list(range)?.into_iter();
            let (first, last) = (slot(range.next()?)?, slot(range.next()?)?);
            let (id, address) = node(range.next()?, asked)?;
            let epoch = *epochs.get(&id)?;
            let place = *places.entry(id.clone()).or_insert_with(|| {
                view.masters.push(Master { id, address, epoch });
                view.masters.len() - 1
            });
            view.ranges.push((first, last, place));
            let replicas = range.filter_map(|replica| Some(node(replica, asked)?.1));
            view.replicas.extend(replicas);
        }
        (!view.of.is_empty()).then_some(view)
    }
}

fn list(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

fn slot(value: Value) -> Option<u16> {
    match value {
        Value::Int(slot) => u16::try_from(slot).ok().filter(|slot| *slot < SLOTS),
        _ => None,
    }
}

/// Parses id and address. An unknown host (`?`, if hostnames are preferred and this node has none) is that of the metadata, if
/// they have one; otherwise, as for a missing host, it is that of the node that was asked.
fn node(value: Value, asked: &Address) -> Option<(String, Address)> {
    let mut fields = list(value)?.into_iter();
    let host = fields.next()?;
    let host = text(&host).filter(|host| !host.is_empty() && *host != "?");
    let port = match fields.next()? {
        Value::Int(port) => u16::try_from(port).ok().filter(|port| *port > 0)?,
        _ => return None,
    };
    let id = text(&fields.next()?)?.to_owned();
    let metadata = fields.next().and_then(list).unwrap_or_default();
    let mut pairs = metadata.chunks_exact(2);
    let ip = pairs.find_map(|pair| text(&pair[1]).filter(|_| text(&pair[0]) == Some("ip")));
    let host = host.or(ip.filter(|ip| !ip.is_empty()));
    let address = match host {
        Some(host) => Address::new(host, port),
        None => Address {
            host: asked.host.clone(),
            port,
        },
    };
    Some((id, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
a 10.0.0.1:7000@17000,host-a myself,master - 0 1 3 connected 0-99 [7->-b]
b 10.0.0.2:7000@17000 master - 0 1 5 connected 100-199 300
c 10.0.0.3:7000@17000 slave a 0 1 3 connected
";

    fn asked() -> Address {
        Address::new("10.9.9.9", 1)
    }

    /// Host, port, id and the address in the metadata.
    type Told<'a> = (&'a str, i64, &'a str, &'a str);

    /// Returns an answer to `CLUSTER SLOTS`, as RESP.
    fn slots(ranges: &[(i64, i64, &[Told<'_>])]) -> Value {
        let bulk = |text: &str| Value::BulkString(text.into());
        let ranges = ranges.iter().map(|(first, last, nodes)| {
            let nodes = nodes.iter().map(|(host, port, id, ip)| {
                let host = match *host {
                    "nil" => Value::Nil,
                    host => bulk(host),
                };
                let metadata = Value::Array(match *ip {
                    "" => Vec::new(),
                    ip => vec![bulk("ip"), bulk(ip)],
                });
                Value::Array(vec![host, Value::Int(*port), bulk(id), metadata])
            });
            let ends = [Value::Int(*first), Value::Int(*last)];
            Value::Array(ends.into_iter().chain(nodes).collect())
        });
        Value::Array(ranges.collect())
    }

    #[test]
    fn a_view_has_masters_with_their_epochs_and_slots() {
        let both = [("10.0.0.1", 7000, "a", ""), ("10.0.0.3", 7000, "c", "")];
        let slots = slots(&[
            (0, 99, &both),
            (100, 199, &[("10.0.0.2", 7000, "b", "")]),
            (300, 300, &[("10.0.0.2", 7000, "b", "")]),
        ]);
        let view = View::read(slots, NODES, &asked()).unwrap();
        let master = |id: &str, host: &str, epoch| Master {
            id: id.to_owned(),
            address: Address::new(host, 7000),
            epoch,
        };
        assert_eq!(view.of, "a");
        let masters = [master("a", "10.0.0.1", 3), master("b", "10.0.0.2", 5)];
        assert_eq!(view.masters, masters);
        assert_eq!(view.ranges, [(0, 99, 0), (100, 199, 1), (300, 300, 1)]);
        assert_eq!(view.replicas, [Address::new("10.0.0.3", 7000)]);
    }

    #[test]
    fn hosts_that_are_left_out_are_found() {
        for (host, ip, expected) in [
            ("nil", "", "10.9.9.9"),
            ("", "", "10.9.9.9"),
            ("?", "10.0.0.7", "10.0.0.7"),
            ("?", "", "10.9.9.9"),
            ("node.example", "10.0.0.7", "node.example"),
        ] {
            let slots = slots(&[(0, 1, &[(host, 7000, "a", ip)])]);
            let view = View::read(slots, NODES, &asked()).unwrap();
            assert_eq!(&*view.masters[0].address.host, expected, "{host:?} {ip:?}");
        }
    }

    #[test]
    fn nonsense_is_not_read() {
        let good = || slots(&[(0, 1, &[("h", 7000, "a", "")])]);
        assert!(View::read(good(), NODES, &asked()).is_some());
        for (slots, nodes) in [
            (Value::Nil, NODES),
            (good(), ""),
            (good(), "a b c\n"),
            (good(), "a h:1@2 myself,master - 0 1 x connected\n"),
            (slots(&[(0, 1, &[("h", 7000, "unknown", "")])]), NODES),
            (slots(&[(0, 1, &[("h", 0, "a", "")])]), NODES),
            (slots(&[(0, 16_384, &[("h", 7000, "a", "")])]), NODES),
            (slots(&[(0, 1, &[])]), NODES),
        ] {
            let view = View::read(slots.clone(), nodes, &asked());
            assert_eq!(view, None, "{slots:?}");
        }
    }
}
