//! Certificates of replicas that would take over for a master. Coordinators connect to such a replica only after a fail-over,
//! when a certificate that has expired keeps all of them out.

use std::time::Duration;

use futures_util::future::join_all;

use super::super::{address::Address, dial::shown_certificate, url::Access};
use crate::examine::facts::StandbyFacts;

/// Looks at the certificates of replicas, by a handshake alone. Leaves out those that can't be reached from here, which their
/// master knows better.
pub(in crate::redis) async fn standbys(
    access: &Access,
    addresses: impl IntoIterator<Item = Address>,
    patience: Duration,
) -> Vec<StandbyFacts> {
    let looked = addresses.into_iter().map(|address| async move {
        let target = access.target(&address).ok()?;
        let expires = shown_certificate(&target, patience).await.ok()?;
        Some(StandbyFacts {
            server: target.label(),
            certificate_expires: expires?,
        })
    });
    join_all(looked).await.into_iter().flatten().collect()
}
