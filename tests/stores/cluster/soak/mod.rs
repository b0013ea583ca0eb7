//! Soak tests, which `make test` leaves to `make soak`: fail-overs, nodes that hang and slots that move, under load.

mod failovers;
mod load;
mod outages;
mod resharding;
