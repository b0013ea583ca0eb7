//! Bounds of the model, and its variant.

use super::{PLACE, Places};
use crate::explore::{holds, is_caught};

/// A place that moves once.
fn moves() -> Places {
    Places {
        streams: 2,
        ticks: 2,
        keeps_ticket: false,
    }
}

#[test]
fn a_resumed_place_is_its_new_streams_alone() {
    holds("place", moves());
    let twice = Places {
        streams: 3,
        ..moves()
    };
    holds("place, twice", twice);
}

#[test]
fn a_resume_that_keeps_the_ticket_is_found() {
    let flawed = Places {
        keeps_ticket: true,
        ..moves()
    };
    is_caught("place, keeps the ticket", flawed, PLACE);
}
