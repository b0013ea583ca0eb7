//! One queue for a name over all coordinators: served in the order in which Redis saw the acquires.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod order;
