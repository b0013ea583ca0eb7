//! Output of the commands: tables for people, JSON for programs.

pub(crate) mod election;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod json;
pub(crate) mod lock;
pub(crate) mod table;
pub(crate) mod text;
