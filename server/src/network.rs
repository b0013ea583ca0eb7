//! The unit by which limits count peers that show no identity: an IPv4 address, or the /64 network of an IPv6 address.

use std::net::{IpAddr, Ipv6Addr};

/// Bits of an IPv6 address that name its network. A host that has one address of a network usually has all of them.
const NETWORK: u32 = 64;

/// Returns what stands for this address where limits count: itself, or the first address of its IPv6 network. An IPv4 address
/// that is mapped into IPv6 is the IPv4 address.
#[must_use]
pub(crate) fn of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let host = u128::MAX >> NETWORK;
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !host))
        }
        address @ IpAddr::V4(_) => address,
    }
}
