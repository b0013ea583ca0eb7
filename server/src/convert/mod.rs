//! Between protobuf and the rules: the one place where fields are checked and answers are put together.
//!
//! - `fields`: single fields; `resume`: what a stream takes over; [`request`] and [`session`]: messages from a
//!   session's client, and to it; [`stream`]: the kinds of its streams.
//! - `answers`, `refusal`: the rules' types for the wire.

mod answers;
mod fields;
mod refusal;
pub mod request;
mod resume;
pub mod session;
pub mod stream;

pub use answers::*;
pub use fields::*;
pub use refusal::*;
pub use resume::*;
