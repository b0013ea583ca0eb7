use tokio::net::TcpListener;

use super::*;

/// Returns a registry, and a socket to have connections of.
async fn connections(max: usize, max_per_address: usize) -> (Connections, Arc<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let socket = TcpStream::connect(address).await.unwrap();
    let connections = Connections::new();
    connections.bound(max, max_per_address);
    (connections, Arc::new(socket))
}

fn peer(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), 1)
}

/// Returns the setting that keeps a connection of this address out.
fn refused_by(connections: &Connections, address: &str) -> Option<(&'static str, usize)> {
    let full = connections.has_room(peer(address).ip()).err();
    full.map(|full| (full.setting, full.limit))
}

#[tokio::test]
async fn as_many_connections_as_may_be_are_let_in_and_one_that_ends_makes_room() {
    let (connections, socket) = connections(2, 0).await;
    let handles = ["192.0.2.1", "192.0.2.1"].map(|address| {
        assert_eq!(refused_by(&connections, address), None);
        connections.admit(&socket, peer(address))
    });
    let full = Some(("max-connections", 2));
    assert_eq!(refused_by(&connections, "192.0.2.1"), full);
    assert_eq!(refused_by(&connections, "192.0.2.2"), full);
    assert_eq!(connections.len(), 2);
    connections.remove(handles[0].id());
    // It ended once.
    connections.remove(handles[0].id());
    assert_eq!(refused_by(&connections, "192.0.2.2"), None);
    connections.admit(&socket, peer("192.0.2.2"));
    assert_eq!(refused_by(&connections, "192.0.2.2"), full);
}

#[tokio::test]
async fn each_address_and_each_ipv6_network_has_as_many_as_it_may() {
    let (connections, socket) = connections(10, 1).await;
    for (one, same, other) in [
        ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
        ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"),
    ] {
        let handle = connections.admit(&socket, peer(one));
        let full = Some(("max-connections-per-address", 1));
        assert_eq!(refused_by(&connections, one), full);
        assert_eq!(refused_by(&connections, same), full);
        assert_eq!(refused_by(&connections, other), None);
        connections.remove(handle.id());
        assert_eq!(refused_by(&connections, same), None);
    }
    assert!(connections.is_empty());
    assert!(connections.shared.live.lock().by_address.is_empty());
}
