//! Who may do what.
//!
//! - [`Caller`]: who makes a request; it is in the request's extensions once [`AccessLayer`] has seen it.

mod caller;
mod layer;

pub use caller::Caller;
pub use layer::{AccessLayer, Accessible};
