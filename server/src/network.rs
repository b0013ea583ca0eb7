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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_and_each_ipv4_address_is_its_own() {
        let of = |address: &str| of(address.parse().unwrap()).to_string();
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("2001:db8:1:2:ffff:ffff:ffff:ffff"), "2001:db8:1:2::");
        assert_ne!(of("2001:db8:1:3::6"), of("2001:db8:1:2::6"));
    }
}
