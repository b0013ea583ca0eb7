//! A wall clock that a test steps or stops, and a disk that it slows down, for the Redis servers that it starts.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tempfile::TempDir;

use crate::{preload, redis_server::RedisOptions};

/// The library that servers load. Redis takes the time of its commands and of expiry from `gettimeofday`.
///
/// The file that the environment names has three numbers: the microseconds by which the clock is ahead; if it is not 0, the time at
/// which it stands still (µs since 1970); and the microseconds that each write to disk takes longer.
const CODE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static volatile int64_t *state;

__attribute__((constructor)) static void find(void) {
    const char *path = getenv("LEASEHOLD_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, 3 * sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) state = found;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int result = syscall(SYS_gettimeofday, now, zone);
    if (result != 0 || !now || !state) return result;
    int64_t at = now->tv_sec * 1000000LL + now->tv_usec;
    if (state[1]) at = state[1];
    at += state[0];
    now->tv_sec = at / 1000000;
    now->tv_usec = at % 1000000;
    return result;
}

static void wait_for_disk(void) {
    if (state && state[2] > 0) usleep(state[2]);
}

int fsync(int file) {
    wait_for_disk();
    return syscall(SYS_fsync, file);
}

int fdatasync(int file) {
    wait_for_disk();
    return syscall(SYS_fdatasync, file);
}
"#;

/// The wall clock of some servers. It runs with this machine's until the test steps it; their monotonic clocks are left alone.
#[derive(Debug)]
pub struct WallClock {
    directory: TempDir,
    library: PathBuf,
    state: File,
}

impl WallClock {
    /// Makes a clock that tells this machine's time.
    ///
    /// # Panics
    ///
    /// If there is no C compiler.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let library = preload::compile(directory.path(), "clock", CODE);
        let state = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(state(&directory))
            .expect("a file can be made");
        let clock = Self {
            directory,
            library,
            state,
        };
        clock.set(0, 0);
        clock.set(1, 0);
        clock.set(2, 0);
        clock
    }

    /// Adds to options that a server started with them goes by this clock.
    pub fn of(&self, options: RedisOptions) -> RedisOptions {
        let text = |path: &PathBuf| path.to_str().expect("the path is text").to_owned();
        options
            .environment("LD_PRELOAD", &text(&self.library))
            .environment("LEASEHOLD_TEST_CLOCK", &text(&state(&self.directory)))
    }

    /// Steps the clock to so many microseconds ahead of this machine's; behind it, if negative.
    pub fn set_ahead(&self, micros: i64) {
        self.set(0, micros);
    }

    /// Has each fsync take so much longer; below a second.
    pub fn delay_syncs(&self, by: Duration) {
        self.set(2, i64::try_from(by.as_micros()).unwrap_or(i64::MAX));
    }

    /// Stops the clock at a time, in microseconds since 1970.
    pub fn stop_at(&self, micros: i64) {
        self.set(1, micros);
    }

    fn set(&self, number: u64, value: i64) {
        self.state
            .write_all_at(&value.to_ne_bytes(), 8 * number)
            .expect("the clock's file can be written");
    }
}

impl Default for WallClock {
    fn default() -> Self {
        Self::new()
    }
}

fn state(directory: &TempDir) -> PathBuf {
    directory.path().join("clock")
}

/// This machine's wall clock, in microseconds since 1970.
///
/// # Panics
///
/// If that was before 1970.
pub fn machine_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    micros(since.expect("it is after 1970"))
}

/// Returns a duration in microseconds.
///
/// # Panics
///
/// If it is longer than 292 000 years.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).expect("the duration is in range")
}
