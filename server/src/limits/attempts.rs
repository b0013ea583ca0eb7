//! Budget of failed authentications. Bounds how often one address makes the coordinator check signatures in vain.

use std::{net::IpAddr, sync::Arc, time::Duration};

use super::{Account, Limits};
use crate::{
    network,
    status::{Reason, Refusal},
};

impl Limits {
    /// Allows a costly verification to this address, or its IPv6 network.
    ///
    /// # Errors
    ///
    /// If too many attempts have failed recently, with the time after which another one is allowed.
    pub fn allow_attempt(&self, from: IpAddr) -> Result<(), Refusal> {
        let (rate, account) = self.unidentified(from);
        let wait = account.wait(rate, self.now());
        wait.map_or(Ok(()), |wait| Err(too_many(rate, wait)))
    }

    /// Counts an attempt of this address, or its IPv6 network, to authenticate that failed.
    ///
    /// # Errors
    ///
    /// If too many have failed recently, with the time after which another one is allowed. This one does not count then.
    pub fn failed_attempt(&self, from: IpAddr) -> Result<(), Refusal> {
        let (rate, account) = self.unidentified(from);
        let taken = account.take(rate, self.now());
        taken.map_err(|wait| too_many(rate, wait))
    }

    fn unidentified(&self, from: IpAddr) -> (u32, Arc<Account>) {
        let rate = self.config().max_failed_authentications_per_second;
        let key = format!("unidentified {}", network::of(from));
        (rate, self.shared.accounts.of(key.into(), self.now()))
    }
}

fn too_many(rate: u32, wait: Duration) -> Refusal {
    Refusal::over(
        Reason::RateLimited,
        ("max-failed-authentications-per-second", rate),
        Some(wait),
        format!(
            "more than {rate} calls a second from this address have shown no valid identity; this one was not checked: try again in {wait:?}"
        ),
    )
}
