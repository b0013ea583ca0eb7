//! The rows of the table, and the growth of their costs.

pub(crate) mod growth;
pub(crate) mod handoffs;
pub(crate) mod held;
pub(crate) mod idle;
pub(crate) mod operations;
pub(crate) mod rates;

use crate::{chart::Panel, options::Sizes, peers::Peers};

/// Resources that all rows share, and their results for the page beside the table.
pub(crate) struct Bench {
    pub(crate) sizes: Sizes,
    /// The address of the echo server.
    pub(crate) echo: String,
    pub(crate) peers: Peers,
    /// Distributions, to be drawn.
    pub(crate) distributions: Vec<Panel>,
    /// Of the largest run of row 6 and both of row 7, for the growth.
    pub(crate) held: Option<held::Held>,
    pub(crate) idle: Vec<idle::Idle>,
}

impl Bench {
    pub(crate) fn new(sizes: Sizes, echo: String) -> Self {
        Self {
            sizes,
            echo,
            peers: Peers::find(),
            distributions: Vec::new(),
            held: None,
            idle: Vec::new(),
        }
    }
}
