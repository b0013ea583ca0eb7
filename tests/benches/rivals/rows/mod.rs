//! The rows of the table.

mod handoffs;
mod held;
mod idle;
mod operations;
mod rates;

use crate::{figures::Row, options::Sizes, peers::Peers, shared::chart::Panel};

/// The names of the rows, in the order of their numbers.
pub(crate) const ROWS: [&str; 7] = [
    "row 1: cycles, one at a time",
    "row 2: cycles, 16 in flight",
    "row 3: one client alone",
    "row 4: hand-offs",
    "row 5: Redis operations",
    "row 6: held locks",
    "row 7: idle sessions",
];

/// Resources that all rows share, and their results for the page beside the table.
pub(crate) struct Bench {
    sizes: Sizes,
    /// The address of the echo server.
    echo: String,
    pub(crate) peers: Peers,
    /// Distributions, to be drawn.
    pub(crate) distributions: Vec<Panel>,
}

impl Bench {
    pub(crate) fn new(sizes: Sizes, echo: String) -> Self {
        Self {
            sizes,
            echo,
            peers: Peers::find(),
            distributions: Vec::new(),
        }
    }

    /// Measures the row of this number.
    pub(crate) async fn row(&mut self, number: u8) -> anyhow::Result<Row> {
        match number {
            1 => rates::one_each(self).await,
            2 => rates::many_each(self).await,
            3 => rates::alone(self).await,
            4 => handoffs::row(self).await,
            5 => operations::row(self).await,
            6 => held::row(self).await,
            _ => idle::row(self).await,
        }
    }
}
