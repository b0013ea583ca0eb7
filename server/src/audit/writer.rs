//! Thread that writes the audit log. Nobody waits for it: while it can't write, lines are lost and counted.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold_core::time::StoreTime;
use prometheus_client::metrics::counter::Counter;

use super::{
    event::Event,
    queue::{Queue, Stamped},
};
use crate::config::{Config, unreadable};

/// Path that stands for standard output.
const STDOUT: &str = "-";
/// Time between two looks whether the file was moved.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Most bytes of lines in one write.
const CHUNK: usize = 256 * 1024;
/// Mode of a new file: names of locks and clients are not everybody's business.
const MODE: u32 = 0o640;

/// Counters of the audit log.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Lines that were written.
    pub written: Counter,
    /// Lines that were dropped.
    pub dropped: Counter,
}

/// Destination of the lines.
#[derive(Debug)]
enum Target {
    Stdout,
    File {
        path: PathBuf,
        open: Opened,
        looked_at: Instant,
    },
}

#[derive(Debug)]
struct Opened {
    file: File,
    /// Device and inode.
    place: (u64, u64),
}

/// Writer of the lines.
#[derive(Debug)]
pub(super) struct Writer {
    target: Target,
    coordinator: Arc<str>,
    counters: Counters,
    /// Set from outside if the file is to be opened anew.
    reopen: Arc<AtomicBool>,
    /// Lines that were dropped and that the log does not tell of yet.
    untold: u64,
    is_failing: bool,
    /// Whether the file ends within a line.
    is_torn: bool,
    buffer: Vec<u8>,
}

impl Writer {
    /// Opens the log.
    ///
    /// # Errors
    ///
    /// If the file can't be opened.
    pub(super) fn open(
        path: &Path,
        coordinator: Arc<str>,
        counters: Counters,
        reopen: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let target = if path == Path::new(STDOUT) {
            Target::Stdout
        } else {
            Target::File {
                open: Opened::at(path)?,
                path: path.to_owned(),
                looked_at: Instant::now(),
            }
        };
        Ok(Self {
            target,
            coordinator,
            counters,
            reopen,
            untold: 0,
            is_failing: false,
            is_torn: false,
            buffer: Vec::new(),
        })
    }

    /// Writes what comes, until the queue is closed and empty.
    pub(super) fn run(mut self, queue: &Queue, now: impl Fn() -> StoreTime) {
        let mut events = Vec::new();
        loop {
            let taken = queue.take(&mut events);
            self.write_all(&mut events, now());
            if taken.dropped > 0 {
                self.untold += taken.dropped;
                self.write_all(&mut events, now());
            }
            if taken.is_last {
                return;
            }
        }
    }

    /// Writes a line for each event, and first one that tells of dropped lines, if there are any.
    pub(super) fn write_all(&mut self, events: &mut Vec<Stamped>, now: StoreTime) {
        self.follow();
        if self.untold > 0 {
            self.encode(&Event::Dropped(self.untold), now);
            if self.flush(0) {
                self.untold = 0;
            }
        }
        let mut lines = 0;
        for (at, event) in events.drain(..) {
            self.encode(&event, at);
            lines += 1;
            if self.buffer.len() >= CHUNK {
                self.flush(std::mem::take(&mut lines));
            }
        }
        if lines > 0 {
            self.flush(lines);
        }
    }

    fn encode(&mut self, event: &Event, at: StoreTime) {
        event.encode(at, &self.coordinator, &mut self.buffer);
    }

    /// Writes the buffer, in which so many lines count. Returns whether all of it was written.
    fn flush(&mut self, lines: u64) -> bool {
        if self.is_torn {
            self.buffer.insert(0, b'\n');
        }
        let (written, error) = self.target.write(&self.buffer);
        let (done, rest) = self.buffer.split_at(written);
        let ends = rest.iter().filter(|byte| **byte == b'\n').count();
        let lost = u64::try_from(ends).map_or(lines, |ends| ends.min(lines));
        let is_complete = rest.is_empty();
        if written > 0 {
            self.is_torn = !done.ends_with(b"\n");
        }
        self.buffer.clear();
        self.counters.written.inc_by(lines - lost);
        self.counters.dropped.inc_by(lost);
        self.untold += lost;
        match error {
            Some(error) if !self.is_failing => {
                self.is_failing = true;
                tracing::error!(
                    %error,
                    "failed to write the audit log (audit-log); its lines are lost until that works again"
                );
            }
            None if std::mem::take(&mut self.is_failing) => {
                tracing::info!(lost = self.untold, "the audit log is written again");
            }
            _ => {}
        }
        is_complete
    }

    /// Opens the file anew if it was moved or removed, or if that was asked for.
    fn follow(&mut self) {
        let is_asked = self.reopen.swap(false, Ordering::Relaxed);
        let Target::File {
            path,
            open,
            looked_at,
        } = &mut self.target
        else {
            return;
        };
        if !is_asked && looked_at.elapsed() < LOOK_EVERY {
            return;
        }
        *looked_at = Instant::now();
        let is_there = path
            .metadata()
            .is_ok_and(|found| (found.dev(), found.ino()) == open.place);
        if is_there {
            return;
        }
        match Opened::at(path) {
            Ok(opened) => {
                *open = opened;
                self.is_torn = false;
            }
            Err(error) if !self.is_failing => {
                // The lines go on into the file that was moved.
                tracing::warn!(%error, path = %path.display(), "failed to open the audit log anew");
            }
            Err(_) => {}
        }
    }
}

impl Opened {
    fn at(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(MODE).open(path)?;
        let found = file.metadata()?;
        Ok(Self {
            file,
            place: (found.dev(), found.ino()),
        })
    }
}

impl Target {
    /// Writes bytes. Returns how many were written, and the error that kept the rest from it.
    fn write(&mut self, bytes: &[u8]) -> (usize, Option<io::Error>) {
        let mut stdout = io::stdout();
        let out: &mut dyn Write = match self {
            Self::Stdout => &mut stdout,
            Self::File { open, .. } => &mut open.file,
        };
        let mut written = 0;
        while written < bytes.len() {
            match out.write(&bytes[written..]) {
                Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
                Ok(number) => written += number,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Some(error)),
            }
        }
        (written, out.flush().err())
    }
}

/// Returns the fault of an audit log that can't be written. Creates no file: whoever asks may be another user.
#[must_use]
pub fn check(config: &Config) -> Option<String> {
    let path = config.audit_log.as_deref()?;
    if path == Path::new(STDOUT) {
        return None;
    }
    let opened = OpenOptions::new().append(true).open(path);
    let error = match opened {
        Ok(_) => return None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| *folder != Path::new(""));
            folder?.read_dir().err()?
        }
        Err(error) => error,
    };
    Some(unreadable("audit-log", path, None, error))
}

#[cfg(test)]
mod tests;
