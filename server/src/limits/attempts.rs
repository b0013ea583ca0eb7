//! Budget of failed authentications. Bounds how often one address makes the coordinator check signatures in vain.

use std::{net::IpAddr, sync::Arc, time::Duration};

use super::{Account, Limits};
use crate::{
    network,
    status::{Reason, Refusal},
};

/// Attempts of one address, or of one IPv6 network, to authenticate. Only failed ones count.
#[derive(Debug)]
pub struct Attempts<'a> {
    limits: &'a Limits,
    from: IpAddr,
}

impl Limits {
    /// Returns the attempts of this address to authenticate.
    #[must_use]
    pub fn attempts(&self, from: IpAddr) -> Attempts<'_> {
        Attempts {
            limits: self,
            from: network::of(from),
        }
    }
}

impl Attempts<'_> {
    /// Allows a costly verification.
    ///
    /// # Errors
    ///
    /// If too many attempts have failed recently, with the time after which another one is allowed.
    pub fn allow(&self) -> Result<(), Refusal> {
        let rate = self.rate();
        let wait = self.account().wait(rate, self.limits.now());
        wait.map_or(Ok(()), |wait| Err(too_many(rate, wait)))
    }

    /// Counts a failed attempt.
    ///
    /// # Errors
    ///
    /// If too many have failed recently, with the time after which another one is allowed. This one does not count then.
    pub fn failed(&self) -> Result<(), Refusal> {
        let rate = self.rate();
        let taken = self.account().take(rate, self.limits.now());
        taken.map_err(|wait| too_many(rate, wait))
    }

    fn rate(&self) -> u32 {
        self.limits.config().max_failed_authentications_per_second
    }

    fn account(&self) -> Arc<Account> {
        let key = format!("unidentified {}", self.from);
        self.limits
            .shared
            .accounts
            .of(key.into(), self.limits.now())
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
