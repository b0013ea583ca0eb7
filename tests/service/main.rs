//! Calls of the API in every protocol and from every client: what one coordinator answers, refuses and keeps.

mod access;
mod connect;
mod e2e;
