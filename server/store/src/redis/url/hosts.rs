//! Lists of servers, `host[:port],host[:port],…`.

use super::{super::address::Address, StoreUrlError};

/// Parses a list; `default_port` is the port of servers that name none.
pub(super) fn parse_list(text: &str, default_port: u16) -> Result<Vec<Address>, StoreUrlError> {
    if text.is_empty() {
        return Err(StoreUrlError::NoHost);
    }
    let mut hosts = Vec::new();
    for (position, text) in (1..).zip(text.split(',')) {
        let host = parse(text, position, default_port)?;
        if hosts.contains(&host) {
            return Err(StoreUrlError::RepeatedHost { position });
        }
        hosts.push(host);
    }
    Ok(hosts)
}

fn parse(text: &str, position: usize, default_port: u16) -> Result<Address, StoreUrlError> {
    let bad_host = || StoreUrlError::BadHost { position };
    // An address in brackets has colons of its own.
    let end_of_address = text.rfind(']').map_or(0, |at| at + 1);
    let (name, port) = match text[end_of_address..].split_once(':') {
        // An address without its brackets, or with one of them.
        Some((_, port)) if port.contains(':') => return Err(bad_host()),
        Some((rest, port)) => (&text[..end_of_address + rest.len()], Some(port)),
        None => (text, None),
    };
    let port = match port {
        Some(port) => parse_port(port).ok_or(StoreUrlError::BadPort { position })?,
        None => default_port,
    };
    let name = match url::Host::parse_opaque(name) {
        // An escape would have to be decoded before the name is looked up; none is ever needed.
        Ok(url::Host::Domain(name)) if !name.is_empty() && !name.contains('%') => {
            // Names are case-insensitive.
            name.to_ascii_lowercase()
        }
        Ok(url::Host::Ipv6(address)) => address.to_string(),
        _ => return Err(bad_host()),
    };
    Ok(Address::new(&name, port))
}

/// Parses a port; `parse` alone would accept a sign as well.
fn parse_port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&port| digits && port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        for (text, expected) in [
            ("a", "a:7"),
            ("a:1,b", "a:1 b:7"),
            ("A.example:65535,127.0.0.1", "a.example:65535 127.0.0.1:7"),
            ("[::1],[2001:DB8::1]:5,h", "[::1]:7 [2001:db8::1]:5 h:7"),
            ("a:1,a:2", "a:1 a:2"),
        ] {
            let hosts = parse_list(text, 7).unwrap();
            let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
            assert_eq!(hosts.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn malformed_hosts_are_refused_with_their_position() {
        use StoreUrlError as E;
        type Check = fn(&StoreUrlError) -> bool;
        let cases: &[(&str, Check)] = &[
            ("", |e| matches!(e, E::NoHost)),
            (",", |e| matches!(e, E::BadHost { position: 1 })),
            ("a,", |e| matches!(e, E::BadHost { position: 2 })),
            ("a,,b", |e| matches!(e, E::BadHost { position: 2 })),
            (":6379", |e| matches!(e, E::BadHost { position: 1 })),
            ("a b", |e| matches!(e, E::BadHost { position: 1 })),
            ("a@b", |e| matches!(e, E::BadHost { position: 1 })),
            ("a%41", |e| matches!(e, E::BadHost { position: 1 })),
            ("[::1", |e| matches!(e, E::BadHost { position: 1 })),
            ("[::1]x:5", |e| matches!(e, E::BadHost { position: 1 })),
            ("::1", |e| matches!(e, E::BadHost { position: 1 })),
            ("a:", |e| matches!(e, E::BadPort { position: 1 })),
            ("a,b:0", |e| matches!(e, E::BadPort { position: 2 })),
            ("a:+1", |e| matches!(e, E::BadPort { position: 1 })),
            ("a:65536", |e| matches!(e, E::BadPort { position: 1 })),
            ("a:1:2", |e| matches!(e, E::BadHost { position: 1 })),
            ("a,b,A:7", |e| matches!(e, E::RepeatedHost { position: 3 })),
        ];
        for (text, expected) in cases {
            match parse_list(text, 7) {
                Err(error) => assert!(expected(&error), "{text:?} gave {error:?}"),
                Ok(hosts) => panic!("{text:?} was read as {hosts:?}"),
            }
        }
    }
}
