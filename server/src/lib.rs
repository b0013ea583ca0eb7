//! The Leasehold coordinator: a gRPC lock server with streaming leases.
//!
//! [`run::run`] is the whole of it as a function: give it a configuration, bound listeners and a shutdown token.
//!
//! - [`access`]: who may do what.
//! - [`config`]: what can be set, from where.
//! - [`listener`]: our own accept loop under tonic, which knows how each connection ended.
//! - [`limits`]: how much anybody may have and ask for.
//! - [`services`]: the gRPC services, thin; [`methods`]: their methods by path.
//! - [`session`]: lease streams, one task each; [`outbox`]: answers on their way to a client that may not read; [`sessions`]: the
//!   list of the sessions, for operators and limits.
//! - [`coordinator`]: what the sessions share: waiters, contended names, clean-up.
//! - [`watch`]: what happens to locks and who leads, for those who watch.
//! - [`convert`] and [`status`]: the only places that know both protobuf and the rules.
//! - [`tls`]: certificates of our own ports, and whose certificates are trusted.
//! - [`follow`]: followers of the configuration and of files while the coordinator runs; [`reload`] checks another
//!   configuration and puts it in force.
//! - [`liveness`]: whether the tasks that it can't do without are there, and move.
//! - [`service_manager`]: what systemd is told.
//! - [`testing`]: a coordinator for the unit tests of programs.
//! - [`audit`]: the audit log, written by a thread of its own.
//! - [`telemetry`] and [`admin_http`]: logs, metrics, and the HTTP port that shows them; [`probe`] asks it; [`page`] is for operators'
//!   browsers.

#![cfg_attr(
    test,
    expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")
)]

pub mod access;
pub mod admin_http;
pub mod admission;
mod alarm;
pub mod audit;
pub mod config;
pub mod connect;
pub mod convert;
pub mod coordinator;
pub mod follow;
pub mod layered;
pub mod limits;
pub mod listener;
pub mod liveness;
pub mod methods;
mod network;
pub mod outbox;
pub mod page;
pub mod probe;
pub mod reload;
pub mod run;
pub mod service_manager;
pub mod services;
pub mod session;
pub mod sessions;
pub mod status;
mod suspension;
pub mod telemetry;
pub mod testing;
pub mod tls;
pub mod watch;

/// Readers of files and tokens by themselves, for the fuzz targets in `tests/fuzz`. No part of the API.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::{
        access::fuzzing::Verifier,
        config::fuzzing::{read_file, read_url},
    };
}

pub use config::Config;
pub use follow::Reload;
pub use liveness::Liveness;
pub use run::{Listeners, run};
