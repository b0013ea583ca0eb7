//! Replicas that have to acknowledge grants and renewals before they count: `--min-replicas`.

mod count;
mod ended;
mod site;
mod stopped;
