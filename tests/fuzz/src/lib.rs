//! Fuzz targets of Leasehold: a module for each, whose `run` takes one input of libFuzzer and panics on a fault. `targets/` has
//! the programs.
//!
//! - [`session`], [`resume`]: hostile clients in a world of the simulation, whose modules are those of `tests/tests/simulation`.
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
    campaigns "../../tests/simulation/campaigns.rs";
    candidates "../../tests/simulation/candidates/mod.rs";
    carrier "../../tests/simulation/carrier.rs";
    check "../../tests/simulation/check.rs";
    client "../../tests/simulation/client/mod.rs";
    contention "../../tests/simulation/contention.rs";
    coordinator "../../tests/simulation/coordinator/mod.rs";
    #[expect(dead_code, reason = "hostile clients have no floors of what happens")]
    coverage "../../tests/simulation/coverage.rs";
    detector "../../tests/simulation/detector.rs";
    dice "../../tests/simulation/dice.rs";
    program "../../tests/simulation/program.rs";
    promises "../../tests/simulation/promises/mod.rs";
    schedule "../../tests/simulation/schedule.rs";
    store "../../tests/simulation/store/mod.rs";
    #[expect(dead_code, reason = "hostile clients take what transitions they like")]
    transitions "../../tests/simulation/transitions/mod.rs";
    watching "../../tests/simulation/watching/mod.rs";
    weather "../../tests/simulation/weather/mod.rs";
    #[expect(dead_code, reason = "the target lives through worlds in its own way")]
    world "../../tests/simulation/world.rs";
}
