//! Lines of audit logs, read one at a time: a log may be larger than memory.

use std::{
    ffi::OsStr,
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use anyhow::Context;
use flate2::read::MultiGzDecoder;
use serde::Deserialize;

/// Longest line of a log. A name, a client's name and an identity are much shorter.
const LONGEST: usize = 64 * 1024;
/// Size of a reader's buffer.
const BUFFER: usize = 256 * 1024;

/// Line of an audit log. `docs/audit.md` describes the fields.
#[derive(Deserialize, Debug)]
pub(super) struct Line {
    pub(super) time: String,
    pub(super) event: String,
    pub(super) why: Option<String>,
    pub(super) lock: Option<String>,
    pub(super) election: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) permits: Option<u32>,
    pub(super) token: Option<i64>,
    pub(super) client: Option<String>,
    pub(super) identity: Option<String>,
    pub(super) session: Option<String>,
    pub(super) waited_ms: Option<f64>,
    pub(super) held_ms: Option<f64>,
    pub(super) action: Option<String>,
    pub(super) waiter: Option<u64>,
    pub(super) peer: Option<String>,
    pub(super) effect: Option<bool>,
    pub(super) reason: Option<String>,
    pub(super) permission: Option<String>,
    pub(super) lines: Option<u64>,
    pub(super) coordinator: String,
}

/// Something that has lines.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    File(PathBuf),
    Stdin,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Stdin => f.write_str("standard input"),
        }
    }
}

impl Source {
    /// Returns these files with their rotated ones, each once.
    ///
    /// # Errors
    ///
    /// If a folder can't be read, or if there is neither the file nor a rotated one.
    pub(super) fn all(files: &[PathBuf]) -> anyhow::Result<Vec<Self>> {
        let mut all = Vec::new();
        for file in files {
            if file == Path::new("-") {
                all.push(Self::Stdin);
            } else {
                let rotated = rotated(file);
                all.extend(rotated.with_context(|| {
                    format!(
                        "failed to read {}, which coordinators write only if their setting audit-log names it",
                        file.display()
                    )
                })?);
            }
        }
        all.sort();
        all.dedup();
        Ok(all)
    }

    /// Reads all lines. Returns how many were skipped, because they are broken or `hear` does not know them.
    pub(super) fn read(&self, hear: impl FnMut(Line) -> bool) -> io::Result<u64> {
        match self {
            Self::Stdin => read(io::stdin().lock(), hear),
            Self::File(path) => {
                let file = File::open(path)?;
                if path.extension() == Some(OsStr::new("gz")) {
                    let unzipped = MultiGzDecoder::new(BufReader::new(file));
                    return read(BufReader::with_capacity(BUFFER, unzipped), hear);
                }
                read(BufReader::with_capacity(BUFFER, file), hear)
            }
        }
    }
}

/// Returns a file and those that a rotation has made of it.
fn rotated(file: &Path) -> io::Result<Vec<Source>> {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut found = Vec::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        let other = entry.file_name();
        let rest = other.as_encoded_bytes().strip_prefix(name);
        let is_part = match rest {
            Some([]) => true,
            Some([b'.' | b'-', more @ ..]) => is_number(more),
            _ => false,
        };
        if is_part && !entry.path().is_dir() {
            found.push(Source::File(file.with_file_name(other)));
        }
    }
    if found.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(found)
}

/// Returns whether this is the number or the date of a rotated file, which may be compressed.
fn is_number(text: &[u8]) -> bool {
    let text = text.strip_suffix(b".gz").unwrap_or(text);
    let is_of_date = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'_');
    text.first().is_some_and(u8::is_ascii_digit) && text.iter().all(is_of_date)
}

fn read(mut from: impl BufRead, mut hear: impl FnMut(Line) -> bool) -> io::Result<u64> {
    let mut skipped = 0;
    let mut text = Vec::new();
    loop {
        text.clear();
        let limit = u64::try_from(LONGEST).unwrap_or(u64::MAX);
        if from.by_ref().take(limit).read_until(b'\n', &mut text)? == 0 {
            return Ok(skipped);
        }
        if text.len() == LONGEST && !text.ends_with(b"\n") {
            skip_line(&mut from)?;
            skipped += 1;
        } else if !text.trim_ascii().is_empty() {
            let is_known = serde_json::from_slice(&text).is_ok_and(&mut hear);
            skipped += u64::from(!is_known);
        }
    }
}

/// Skips the rest of a line, however long it is.
fn skip_line(from: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = from.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        from.consume(length);
        if end.is_some() || length == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::{fs, io::Write};

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn events(text: &[u8]) -> (Vec<String>, u64) {
        let mut events = Vec::new();
        let skipped = read(text, |line| {
            let is_known = line.event != "unknown";
            events.push(line.event);
            is_known
        });
        (events, skipped.unwrap())
    }

    #[test]
    fn broken_and_unknown_lines_are_skipped_and_counted() {
        let mut text = b"{\"time\":\"t\",\"event\":\"granted\",\"coordinator\":\"c\"}\n\n{\"time\":\"t\",\"ev\nnothing\n".to_vec();
        text.extend(std::iter::repeat_n(b'x', 2 * LONGEST));
        text.extend(b"\n{\"time\":\"t\",\"event\":\"unknown\",\"coordinator\":\"c\"}\n");
        // The last line has no end: it is being written.
        text.extend(b"{\"time\":\"t\",\"event\":\"released\",\"more\":[1],\"coordinator\":\"c\"}");
        let (events, skipped) = events(&text);
        assert_eq!(events, ["granted", "unknown", "released"]);
        assert_eq!(skipped, 4);
    }

    #[test]
    fn a_file_is_read_with_its_rotated_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let line = |event: &str| {
            format!("{{\"time\":\"t\",\"event\":\"{event}\",\"coordinator\":\"c\"}}\n")
        };
        for name in [
            "audit.log",
            "audit.log.1",
            "audit.log-20260131",
            "audit.log.old",
            "audit.log.1.bak",
            "other.log",
        ] {
            fs::write(path(name), line(name)).unwrap();
        }
        let zipped = File::create(path("audit.log.2.gz")).unwrap();
        let mut zipped = GzEncoder::new(zipped, Compression::fast());
        zipped.write_all(line("zipped").as_bytes()).unwrap();
        zipped.finish().unwrap();
        let mut events = Vec::new();
        for source in Source::all(&[path("audit.log"), path("audit.log.1")]).unwrap() {
            let skipped = source.read(|line| {
                events.push(line.event);
                true
            });
            assert_eq!(skipped.unwrap(), 0, "{source}");
        }
        events.sort();
        let expected = ["audit.log", "audit.log-20260131", "audit.log.1", "zipped"];
        assert_eq!(events, expected);
        assert!(Source::all(&[path("none.log")]).is_err());
    }
}
