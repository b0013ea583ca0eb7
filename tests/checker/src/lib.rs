//! Checker of histories: what clients, registers and the harness of a torture run wrote, compared with what Leasehold promises.
//!
//! It shares no code with what it checks. `HISTORY.md` beside the manifest has the format, and what is demanded of a history.

pub mod checks;
pub mod history;
pub mod report;
pub mod story;
pub mod timeline;

pub use checks::{Limits, Verdict, Violation, check};
pub use history::{Line, Record, parse, read};
pub use story::Story;
