//! `top`: coordinators, the busiest locks and events, live in a terminal. [`model`] is a machine without I/O, which the
//! [`driver`] feeds and [`view`] draws.

mod driver;
mod input;
mod lock_page;
mod locks;
mod model;
mod options;
mod rate;
mod screen;
mod view;

pub(crate) use driver::top;
pub(crate) use options::{HELP, TopOptions};
