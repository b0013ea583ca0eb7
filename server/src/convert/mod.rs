//! Between protobuf and the rules: the one place where fields are checked and answers are put together.
//!
//! - `fields`: single fields; `resume`: what a stream takes over; [`session`]: messages of a session; [`stream`]: the kinds of its
//!   streams.
//! - `answers`, `refusal`: the rules' types for the wire.

mod answers;
mod fields;
mod refusal;
mod resume;
pub mod session;
pub mod stream;

pub use answers::*;
pub use fields::*;
pub use refusal::*;
pub use resume::*;
