//! Fuzz target `redis_reply`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| leasehold_fuzz::redis_reply::run(data));
