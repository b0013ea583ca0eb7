//! Count of the system calls that coordinators make.
//!
//! A library that they load before the C library counts the calls that go through it, which are those of the runtime and of the
//! standard library. It needs no rights, unlike a tracer, and changes nothing about the order of events.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::PathBuf,
};

use tempfile::TempDir;

use crate::{coordinator::CoordinatorOptions, preload};

/// Names of the counts, by their places in the file that the environment names. A wake-up is a wait that ended because something had come; the
/// runtime also looks now and then while it has tasks to run. Other calls are those by which threads wake one another.
const NAMES: [&str; 4] = ["reads", "writes", "wake-ups", "other calls"];

const CODE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static volatile int64_t *counts;

__attribute__((constructor)) static void find(void) {
    const char *path = getenv("LEASEHOLD_TEST_SYSTEM_CALLS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, 4 * sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) counts = found;
}

enum place { READ, WRITTEN, WAKE_UP, OTHER };

static void count(enum place place) {
    if (counts) __atomic_fetch_add(&counts[place], 1, __ATOMIC_RELAXED);
}

#define COUNTED(place, type, name, parameters, arguments) \
    type name parameters { \
        static type (*real) parameters; \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name); \
        count(place); \
        return real arguments; \
    }

COUNTED(READ, ssize_t, read, (int f, void *b, size_t n), (f, b, n))
COUNTED(READ, ssize_t, readv, (int f, const struct iovec *v, int n), (f, v, n))
COUNTED(READ, ssize_t, recv, (int f, void *b, size_t n, int flags), (f, b, n, flags))
COUNTED(READ, ssize_t, recvfrom, (int f, void *b, size_t n, int flags, struct sockaddr *restrict a, socklen_t *restrict l),
    (f, b, n, flags, a, l))
COUNTED(READ, ssize_t, recvmsg, (int f, struct msghdr *m, int flags), (f, m, flags))
COUNTED(WRITTEN, ssize_t, write, (int f, const void *b, size_t n), (f, b, n))
COUNTED(WRITTEN, ssize_t, writev, (int f, const struct iovec *v, int n), (f, v, n))
COUNTED(WRITTEN, ssize_t, send, (int f, const void *b, size_t n, int flags), (f, b, n, flags))
COUNTED(WRITTEN, ssize_t, sendto, (int f, const void *b, size_t n, int flags, const struct sockaddr *a, socklen_t l),
    (f, b, n, flags, a, l))
COUNTED(WRITTEN, ssize_t, sendmsg, (int f, const struct msghdr *m, int flags), (f, m, flags))
COUNTED(OTHER, int, epoll_ctl, (int f, int op, int g, struct epoll_event *e), (f, op, g, e))

int epoll_wait(int f, struct epoll_event *e, int n, int time) {
    static int (*real)(int, struct epoll_event *, int, int);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "epoll_wait");
    int found = real(f, e, n, time);
    if (found > 0) count(WAKE_UP);
    return found;
}

long syscall(long number, ...) {
    static long (*real)(long, ...);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    count(OTHER);
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(arguments, long);
    va_end(arguments);
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
"#;

/// System calls of all coordinators that were started with it.
#[derive(Debug)]
pub struct SystemCalls {
    _directory: TempDir,
    library: PathBuf,
    counts: PathBuf,
}

impl SystemCalls {
    /// Begins to count.
    ///
    /// # Panics
    ///
    /// If there is no C compiler.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let library = preload::compile(directory.path(), "system_calls", CODE);
        let counts = directory.path().join("counts");
        let file = File::create_new(&counts).expect("a file can be made");
        file.set_len(8 * NAMES.len() as u64)
            .expect("a file can be written");
        Self {
            _directory: directory,
            library,
            counts,
        }
    }

    /// Adds to options that a coordinator started with them is counted.
    pub fn of(&self, options: CoordinatorOptions) -> CoordinatorOptions {
        let text = |path: &PathBuf| path.to_str().expect("the path is text").to_owned();
        options
            .environment("LD_PRELOAD", &text(&self.library))
            .environment("LEASEHOLD_TEST_SYSTEM_CALLS", &text(&self.counts))
    }

    /// Returns the number of calls until now, by their names; none that was never made.
    ///
    /// # Panics
    ///
    /// If none was made: then a coordinator does not load the library.
    pub fn counted(&self) -> BTreeMap<&'static str, u64> {
        let counts = fs::read(&self.counts).expect("a file can be read");
        let counts = counts.chunks_exact(8).map(|bytes| {
            let bytes = bytes.try_into().expect("it has eight bytes");
            u64::from_ne_bytes(bytes)
        });
        let counts = NAMES
            .into_iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0);
        let counts: BTreeMap<_, _> = counts.collect();
        assert!(!counts.is_empty(), "no system call was counted");
        counts
    }
}

impl Default for SystemCalls {
    fn default() -> Self {
        Self::new()
    }
}
