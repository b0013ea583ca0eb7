//! Rights of one caller, followed for as long as a call or a stream lives.

use std::{
    future::pending,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::sync::watch;

use super::{
    Caller,
    policy::Policy,
    rules::{Granted, Permission, Place},
};
use crate::status::{Reason, Refusal};

/// Longest rest until an identity expires: that is by the wall clock, which may be set meanwhile.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// What a caller may do, as it was looked at last.
#[derive(Clone, Debug)]
pub struct Rights {
    caller: Caller,
    granted: Granted,
    policies: watch::Receiver<Arc<Policy>>,
}

impl Rights {
    pub(super) fn of(
        caller: Caller,
        policies: watch::Receiver<Arc<Policy>>,
    ) -> Result<Self, Refusal> {
        let mut rights = Self {
            caller,
            granted: Granted::Only(Vec::new()),
            policies,
        };
        rights.look_again()?;
        Ok(rights)
    }

    /// Who it is.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// What it may do.
    #[must_use]
    pub fn granted(&self) -> &Granted {
        &self.granted
    }

    /// Refuses what it may not do on a name.
    ///
    /// # Errors
    ///
    /// When the permission is missing. Nothing but the name tells one refusal from another.
    pub fn check(&self, permission: Permission, place: Place, name: &str) -> Result<(), Refusal> {
        check_granted(&self.granted, permission, place, name)
    }

    /// Looks at what is in force now.
    ///
    /// # Errors
    ///
    /// When the caller is nobody any more.
    pub fn look_again(&mut self) -> Result<(), Refusal> {
        let policy = Arc::clone(&self.policies.borrow_and_update());
        self.granted = policy.granted(&self.caller, SystemTime::now())?;
        Ok(())
    }

    /// Waits until it may be that the caller may do something else, and looks; for ever if that never comes. May be dropped at
    /// any point.
    ///
    /// # Errors
    ///
    /// When the caller is nobody any more.
    pub async fn changed(&mut self) -> Result<(), Refusal> {
        let expires = self.policies.borrow().expires(&self.caller);
        tokio::select! {
            biased;
            changed = self.policies.changed() => {
                if changed.is_err() {
                    // The coordinator stops.
                    pending::<()>().await;
                }
            }
            () = expiry(expires) => {}
        }
        self.look_again()
    }

    /// Waits until the caller may not do this any more, if it still may; gives why. May be dropped at any point.
    pub async fn lost(mut self, permission: Permission, place: Place, name: &str) -> Refusal {
        loop {
            if let Err(refusal) = self.check(permission, place, name) {
                return refusal;
            }
            if let Err(refusal) = self.changed().await {
                return refusal;
            }
        }
    }
}

/// As [`Rights::check`].
pub(crate) fn check_granted(
    granted: &Granted,
    permission: Permission,
    place: Place,
    name: &str,
) -> Result<(), Refusal> {
    if granted.permits(permission, place, name) {
        return Ok(());
    }
    Err(denied(permission, name))
}

/// The refusal for want of a permission.
pub(crate) fn denied(permission: Permission, name: &str) -> Refusal {
    let permission = permission.as_str();
    let message = format!(
        "{permission:?} is not permitted on {name:?}; a [[permission]] of the coordinator's configuration has to give it"
    );
    Refusal::new(Reason::PermissionDenied, message)
        .with("permission", permission)
        .with("name", name)
}

async fn expiry(expires: Option<SystemTime>) {
    let Some(expires) = expires else {
        return pending().await;
    };
    while let Ok(rest) = expires.duration_since(SystemTime::now())
        && !rest.is_zero()
    {
        tokio::time::sleep(rest.min(LONGEST_REST)).await;
    }
}
