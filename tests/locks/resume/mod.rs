//! Sessions that move: a client resumes the holds and waits of one stream on another, of the same or of another coordinator,
//! and the coordinator of the old stream can't change them any more. On a real Redis.

mod bad_input;
mod candidacies;
mod ended;
mod holds;
mod many;
mod places;
mod untold;
