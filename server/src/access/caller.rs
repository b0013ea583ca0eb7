//! Caller of a request.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use tonic::Extensions;

use super::identity::Identity;
use crate::network;

/// Caller of a request, found in the request's extensions. Clones are cheap.
#[derive(Clone, Default)]
pub struct Caller {
    /// Its address or IPv6 network, if it is known and the caller has shown no identity.
    address: Option<IpAddr>,
    identity: Option<Arc<Identity>>,
}

impl Caller {
    /// Returns the caller at this address that has shown no identity.
    #[must_use]
    pub fn anonymous(peer: SocketAddr) -> Self {
        Self {
            address: Some(network::of(peer.ip())),
            identity: None,
        }
    }

    pub(super) fn known(identity: Identity) -> Self {
        Self {
            address: None,
            identity: Some(Arc::new(identity)),
        }
    }

    /// Returns the caller in a request's extensions; an anonymous one without an address if there is none.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Returns the key of this caller in limits and fair shares: the identity's name, or else the address.
    #[must_use]
    pub fn key(&self) -> Arc<str> {
        match (&self.identity, self.address) {
            (Some(identity), _) => Arc::clone(&identity.name),
            (None, Some(address)) => format!("anonymous {address}").into(),
            (None, None) => "anonymous".into(),
        }
    }

    /// Returns the identity's name, for logs and listings; `None` without an identity.
    #[must_use]
    pub fn identity(&self) -> Option<&str> {
        self.shown().map(|identity| &*identity.name)
    }

    pub(super) fn shown(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Caller").field(&self.key()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_without_an_identity_are_distinguished_by_address_alone() {
        let caller = |text: &str| Caller::anonymous(text.parse().unwrap());
        assert_eq!(&*caller("192.0.2.7:5").key(), "anonymous 192.0.2.7");
        assert_eq!(caller("192.0.2.7:5").key(), caller("192.0.2.7:6").key());
        assert_eq!(
            caller("[::ffff:192.0.2.7]:5").key(),
            caller("192.0.2.7:6").key()
        );
        assert_ne!(caller("192.0.2.7:5").key(), caller("192.0.2.8:5").key());
        let network = caller("[2001:db8::1]:5").key();
        assert_eq!(network, caller("[2001:db8::2]:6").key());
        assert_ne!(network, caller("[2001:db8:0:1::1]:5").key());
        assert_eq!(caller("192.0.2.7:5").identity(), None);
    }

    #[test]
    fn a_request_without_a_caller_is_nobodys() {
        let mut extensions = Extensions::new();
        assert_eq!(&*Caller::of(&extensions).key(), "anonymous");
        extensions.insert(Caller::anonymous("192.0.2.7:5".parse().unwrap()));
        assert_eq!(&*Caller::of(&extensions).key(), "anonymous 192.0.2.7");
    }
}
