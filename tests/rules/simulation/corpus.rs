//! Committed inputs of the fuzz targets, each run once. `make fuzz` searches on from them.

use std::{
    fs, panic,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    config,
    hostile::{Play, play},
    jwt, redis_reply, wire,
};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");

/// Has a target run its inputs.
fn replay(target: &str, run: impl Fn(&[u8])) {
    let files = fs::read_dir(Path::new(CORPUS).join(target)).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort_unstable();
    assert!(files.len() > 50, "only {} inputs", files.len());
    for file in files {
        // The last one is the one that failed.
        eprintln!("tests/fuzz/run replay {target} {}", file.display());
        run(&fs::read(file).unwrap());
    }
}

#[test]
fn requests_of_hostile_clients() {
    replay("session", |data| play(data, Play::Requests));
}

#[test]
fn resumes_of_hostile_clients() {
    replay("resume", |data| play(data, Play::Resumes));
}

#[test]
fn files_of_operators() {
    replay("config", config::run);
}

#[test]
fn tokens() {
    replay("jwt", jwt::run);
}

#[test]
fn replies_of_redis() {
    replay("redis_reply", redis_reply::run);
}

#[test]
fn bytes_on_the_wire() {
    static HAS_PANICKED: AtomicBool = AtomicBool::new(false);
    // A task of the coordinator that panics fails nothing else.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        HAS_PANICKED.store(true, Ordering::Relaxed);
        hook(info);
    }));
    replay("wire", wire::run);
    assert!(!HAS_PANICKED.load(Ordering::Relaxed));
}
