//! Fuzz targets of Leasehold: a module for each, whose `run` takes one input of libFuzzer and panics on a fault. `targets/` has
//! the programs.
//!
//! - [`session`], [`resume`]: hostile clients in a world of the simulation, whose modules are those of `tests/rules/simulation`.
//! - [`wire`]: a coordinator that listens, and the conversion of messages.
//! - [`config`], [`jwt`], [`redis_reply`]: readers of files, tokens and replies.

pub mod config;
pub mod jwt;
pub mod redis_reply;
pub mod resume;
pub mod session;
pub mod wire;

mod hostile;

/// Declares the modules of the simulation. They name each other from the root of their crate.
macro_rules! simulation {
    ($($(#[$attribute:meta])* $name:ident $path:literal;)+) => {$(
        $(#[$attribute])*
        #[path = $path]
        mod $name;
    )+};
}

simulation! {
    campaigns "../../rules/simulation/campaigns.rs";
    candidates "../../rules/simulation/candidates/mod.rs";
    carrier "../../rules/simulation/carrier.rs";
    check "../../rules/simulation/check.rs";
    client "../../rules/simulation/client/mod.rs";
    contention "../../rules/simulation/contention.rs";
    coordinator "../../rules/simulation/coordinator/mod.rs";
    #[expect(dead_code, reason = "hostile clients have no floors of what happens")]
    coverage "../../rules/simulation/coverage.rs";
    detector "../../rules/simulation/detector.rs";
    dice "../../rules/simulation/dice.rs";
    program "../../rules/simulation/program.rs";
    promises "../../rules/simulation/promises/mod.rs";
    schedule "../../rules/simulation/schedule.rs";
    store "../../rules/simulation/store/mod.rs";
    #[expect(dead_code, reason = "hostile clients take what transitions they like")]
    transitions "../../rules/simulation/transitions/mod.rs";
    watching "../../rules/simulation/watching/mod.rs";
    weather "../../rules/simulation/weather/mod.rs";
    #[expect(dead_code, reason = "the target lives through worlds in its own way")]
    world "../../rules/simulation/world.rs";
}
