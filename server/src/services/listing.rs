//! The locks of a listing, looked at.
//!
//! A page may have a thousand names, and each look is a command to the store. All at once they would be ahead of everybody's
//! renewals, and those of many listings in a row for seconds: so the looks of all listings together share a small part of the way.

use std::sync::Arc;

use futures_util::future::join_all;
use leasehold_core::{command::Op, name::LockName, view::NameView};
use tokio::sync::Semaphore;

use super::names::{seen, unexpected};
use crate::{
    coordinator::Coordinator,
    status::{Reason, Refusal},
};

/// Most waiters that are shown of a name.
pub(super) const SHOWN_WAITERS: usize = 100;
/// Number of names that are looked at in one go.
const SLICE: usize = 4;
/// Most such slices that are on their way to the store, for all listings together. A lock with very many holders and large values
/// takes Redis milliseconds.
const SLICES: usize = 1;

/// The part of the way to the store that listings have.
#[derive(Clone, Debug)]
pub struct Listings(Arc<Semaphore>);

impl Default for Listings {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SLICES)))
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
        for slice in names.chunks(SLICE) {
            let part = Arc::clone(&self.0).acquire_owned().await;
            let (coordinator, slice, op) = (coordinator.clone(), slice.to_vec(), op.clone());
            let looked = tokio::spawn(async move {
                let _part = part;
                let looks = slice
                    .iter()
                    .map(|name| seen(&coordinator, name, op.clone()));
                join_all(looks).await
            });
            for view in looked.await.map_err(|_| unexpected("view"))? {
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
}
