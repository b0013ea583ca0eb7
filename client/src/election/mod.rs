//! Elections: who leads, by the lock of that name.

mod campaign;
mod leader;
mod leadership;
mod observer;
#[cfg(feature = "simulation")]
pub(crate) mod simulated;

pub use campaign::Election;
pub use leader::{Leader, LeaderChange};
pub use leadership::{Leadership, LeadershipWatch};
pub use observer::Observer;
