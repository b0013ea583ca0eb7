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
#[derive(Clone)]
pub struct Caller(Who);

#[derive(Clone)]
enum Who {
    /// A caller without an identity, and its address or IPv6 network, if known.
    Anonymous(Option<IpAddr>),
    /// A caller that has authenticated.
    Known(Arc<Identity>),
}

impl Caller {
    /// Returns the caller at this address that has shown no identity.
    #[must_use]
    pub fn anonymous(peer: SocketAddr) -> Self {
        Self(Who::Anonymous(Some(network::of(peer.ip()))))
    }

    pub(super) fn known(identity: Identity) -> Self {
        Self(Who::Known(Arc::new(identity)))
    }

    /// Returns the caller in a request's extensions; an anonymous one without an address if there is none.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        let caller = extensions.get().cloned();
        caller.unwrap_or(Self(Who::Anonymous(None)))
    }

    /// Returns the key of this caller in limits and fair shares: the identity's name, or else the address.
    #[must_use]
    pub fn key(&self) -> Arc<str> {
        match &self.0 {
            Who::Anonymous(Some(address)) => format!("anonymous {address}").into(),
            Who::Anonymous(None) => "anonymous".into(),
            Who::Known(identity) => Arc::clone(&identity.name),
        }
    }

    /// Returns the identity's name, for logs and listings; `None` without an identity.
    #[must_use]
    pub fn identity(&self) -> Option<&str> {
        self.shown().map(|identity| &*identity.name)
    }

    pub(super) fn shown(&self) -> Option<&Identity> {
        match &self.0 {
            Who::Anonymous(_) => None,
            Who::Known(identity) => Some(identity),
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Caller").field(&self.key()).finish()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
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
