//! Rights of one caller, followed for as long as a call or a stream lives.

use std::{
    borrow::Borrow,
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
use crate::{
    audit::Audit,
    status::{Reason, Refusal},
};

/// Longest sleep until an identity expires: expiry is by the wall clock, which may be set meanwhile.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// Rights of a caller, as of the last look.
#[derive(Clone, Debug)]
pub struct Rights {
    caller: Caller,
    granted: Granted,
    policies: watch::Receiver<Arc<Policy>>,
    audit: Audit,
}

impl Rights {
    pub(super) fn of(
        caller: Caller,
        policies: watch::Receiver<Arc<Policy>>,
        audit: Audit,
    ) -> Result<Self, Refusal> {
        let mut rights = Self {
            caller,
            granted: Granted::Only(Vec::new()),
            policies,
            audit,
        };
        rights.look_again()?;
        Ok(rights)
    }

    /// Returns the caller.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns its permissions.
    #[must_use]
    pub fn granted(&self) -> &Granted {
        &self.granted
    }

    /// Checks a permission on a name.
    ///
    /// # Errors
    ///
    /// If the permission is missing. Refusals differ only by the name, so that they reveal nothing about the lock.
    pub fn check(&self, permission: Permission, place: Place, name: &str) -> Result<(), Refusal> {
        let checked = check_granted(&self.granted, permission, place, name);
        checked.inspect_err(|refusal| self.denied(refusal))
    }

    /// Has the audit log tell of a refusal for want of a permission.
    pub fn denied(&self, refusal: &Refusal) {
        self.audit.refused(refusal, self.caller.identity());
    }

    /// Returns a refusal as the caller may read it.
    #[must_use]
    pub fn shown(&self, refusal: Refusal) -> Refusal {
        refusal.shown_to(&self.granted)
    }

    /// Updates the rights to the policy in force.
    ///
    /// # Errors
    ///
    /// If the caller's identity is no longer accepted.
    pub fn look_again(&mut self) -> Result<(), Refusal> {
        let policy = Arc::clone(&self.policies.borrow_and_update());
        self.granted = policy.granted(&self.caller, SystemTime::now())?;
        Ok(())
    }

    /// Waits until the caller's rights may have changed, and updates them; for ever if they never do. May be dropped at any
    /// point.
    ///
    /// # Errors
    ///
    /// If the caller's identity is no longer accepted.
    pub async fn changed(&mut self) -> Result<(), Refusal> {
        let now = SystemTime::now();
        let expires = self.policies.borrow().expires(&self.caller, now);
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

    /// Waits until the caller loses this permission, and returns the refusal. May be dropped at any point.
    pub async fn lost(
        mut self,
        permission: Permission,
        place: Place,
        name: impl Borrow<str>,
    ) -> Refusal {
        loop {
            let checked = check_granted(&self.granted, permission, place, name.borrow());
            if let Err(refusal) = checked {
                return refusal;
            }
            if let Err(refusal) = self.changed().await {
                return refusal;
            }
        }
    }
}

/// Checks a permission, as [`Rights::check`] does.
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

/// Returns the refusal for a missing permission.
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
