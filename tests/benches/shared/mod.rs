//! Parts of the benchmarks `rivals` and `scaling`: the driver, the stage, the drawings and the tables.

pub(crate) mod chart;
pub(crate) mod crowd;
pub(crate) mod cycles;
pub(crate) mod handoff;
pub(crate) mod machine;
pub(crate) mod marks;
pub(crate) mod parts;
pub(crate) mod stage;
pub(crate) mod stream;
pub(crate) mod table;
