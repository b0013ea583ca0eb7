//! Fuzz target `session`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| leasehold_fuzz::session::run(data));
