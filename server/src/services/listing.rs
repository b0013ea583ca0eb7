//! The locks of a listing, looked at.
//!
//! A page may have a thousand names, and each look is a command to the store. All at once they would be ahead of everybody's
//! renewals, and those of many listings in a row for seconds: so the looks of all listings together share a small part of the way.
//! A look also costs Redis more the more holders and waiters there are: a crowd is paid for with a pause.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use leasehold_core::{command::Op, name::LockName, view::NameView};
use tokio::{sync::Mutex, time::sleep};

use super::names::{seen, unexpected};
use crate::{
    coordinator::Coordinator,
    status::{Reason, Refusal},
};

/// Most waiters that are shown of a name.
pub(super) const SHOWN_WAITERS: usize = 100;
/// Number of names that are looked at in one go, and their number after a look at a crowd: one of a hundred takes Redis 3 ms.
const SLICE: usize = 4;
const SLICE_OF_CROWDS: usize = 1;
/// Number of holders and waiters of a name that are shown without a pause. Few locks have more.
const FEW: usize = 4;
/// Pause for each further one: about three times as long as it takes Redis.
const PAUSE: Duration = Duration::from_micros(100);

/// The part of the way to the store that listings have: one slice at a time, of this size.
#[derive(Clone, Debug)]
pub struct Listings(Arc<Mutex<usize>>);

impl Default for Listings {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(SLICE)))
    }
}

impl Listings {
    /// Shows these names as `op` does, a view; `None` for one that is somebody else's key. Slice by slice, between those of other
    /// listings.
    ///
    /// May be dropped at any point; what is on its way then counts until it has arrived.
    ///
    /// # Errors
    ///
    /// The first that the store gives: what is behind it is not looked at.
    pub async fn views(
        &self,
        coordinator: &Coordinator,
        names: &[LockName],
        op: &Op,
    ) -> Result<Vec<Option<NameView>>, Refusal> {
        let mut views = Vec::with_capacity(names.len());
        while views.len() < names.len() {
            for view in self.slice(coordinator, &names[views.len()..], op).await? {
                views.push(match view {
                    Ok(view) => Some(view),
                    // With a name like ours: it is not a lock, and hides none.
                    Err(refusal) if refusal.reason() == Reason::KeyNotALock => None,
                    Err(refusal) => return Err(refusal),
                });
            }
        }
        Ok(views)
    }

    /// Shows one name as `op` does, a view.
    ///
    /// # Errors
    ///
    /// That of the store.
    pub async fn view(
        &self,
        coordinator: &Coordinator,
        name: &LockName,
        op: &Op,
    ) -> Result<NameView, Refusal> {
        let mut views = self
            .slice(coordinator, std::slice::from_ref(name), op)
            .await?;
        views.pop().ok_or_else(|| unexpected("view"))?
    }

    /// Looks at the first of these names in one go, when it is their turn. The next turn comes after the pause for what they show.
    async fn slice(
        &self,
        coordinator: &Coordinator,
        names: &[LockName],
        op: &Op,
    ) -> Result<Vec<Result<NameView, Refusal>>, Refusal> {
        let mut turn = Arc::clone(&self.0).lock_owned().await;
        let names: Vec<_> = names.iter().take(*turn).cloned().collect();
        let (coordinator, op) = (coordinator.clone(), op.clone());
        let looked = tokio::spawn(async move {
            let looks = names
                .iter()
                .map(|name| seen(&coordinator, name, op.clone()));
            let views = join_all(looks).await;
            let crowds = views.iter().flatten().map(crowd).sum();
            *turn = if crowds > 0 { SLICE_OF_CROWDS } else { SLICE };
            if crowds > 0 {
                tokio::spawn(async move {
                    sleep(PAUSE * crowds).await;
                    drop(turn);
                });
            }
            views
        });
        looked.await.map_err(|_| unexpected("view"))
    }
}

/// Returns how many more than a few holders and waiters are shown.
fn crowd(view: &NameView) -> u32 {
    let shown = view.holders.len() + view.waiters.len();
    u32::try_from(shown.saturating_sub(FEW)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::coordinator::tests::site::{Site, acquire, name};

    /// Returns how long a look waits for its turn.
    async fn waits(listings: &Listings, site: &Site, names: usize) -> Duration {
        let began = Instant::now();
        let names = vec![name(); names];
        let op = Op::view(SHOWN_WAITERS);
        let views = listings.views(&site.coordinator, &names, &op).await;
        assert_eq!(views.unwrap().len(), names.len());
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_at_a_crowd_keeps_the_next_ones_waiting() {
        let site = Site::start();
        let listings = Listings::default();
        let few = u8::try_from(FEW).unwrap();
        for number in 1..=few {
            let op = Op::Acquire(acquire(number));
            site.coordinator.execute(&name(), op).await.unwrap();
        }
        assert_eq!(waits(&listings, &site, 10 * SLICE).await, Duration::ZERO);
        for number in few + 1..=few + 10 {
            let op = Op::Acquire(acquire(number));
            site.coordinator.execute(&name(), op).await.unwrap();
        }
        // Nothing was known of the crowd before.
        assert_eq!(waits(&listings, &site, SLICE).await, Duration::ZERO);
        let slice = u32::try_from(SLICE).unwrap();
        assert!(waits(&listings, &site, 1).await >= PAUSE * 10 * slice);
        // From now on one by one, each after the pause for the one before.
        assert!(waits(&listings, &site, SLICE).await >= PAUSE * 10 * slice);
    }
}
