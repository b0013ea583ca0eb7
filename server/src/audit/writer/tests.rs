use std::{fs, sync::mpsc, thread};

use leasehold_core::{
    id::FencingToken,
    mode::Mode,
    name::{ClientName, LockName},
};
use serde_json::Value;
use tempfile::TempDir;

use super::{
    super::event::{EndKind, Facts, Why},
    *,
};

const NOW: StoreTime = StoreTime::from_micros(1_764_144_000_123_456);

fn facts(token: i64) -> Facts {
    Facts {
        name: LockName::parse("a \"quoted\" name").unwrap(),
        is_election: false,
        mode: Mode::Exclusive,
        permits: None,
        token: Some(FencingToken::new(token)),
        client_name: ClientName::parse("worker").unwrap(),
        identity: Some("token:ci".into()),
        session: None,
        granted_at: Some(NOW),
        waited: Some(Duration::from_micros(1_500)),
    }
}

fn granted(token: i64) -> Stamped {
    (NOW, Event::Granted(facts(token)))
}

/// An audit log in a folder of its own.
struct Log {
    writer: Writer,
    counters: Counters,
    reopen: Arc<AtomicBool>,
    path: PathBuf,
    folder: TempDir,
}

impl Log {
    fn open() -> Self {
        Self::open_in(tempfile::tempdir().unwrap())
    }

    fn open_in(folder: TempDir) -> Self {
        let path = folder.path().join("audit.log");
        let (counters, reopen) = (Counters::default(), Arc::new(AtomicBool::new(false)));
        let (counted, asked) = (counters.clone(), Arc::clone(&reopen));
        let writer = Writer::open(&path, "here-1".into(), counted, asked).unwrap();
        Self {
            writer,
            counters,
            reopen,
            path,
            folder,
        }
    }

    /// Writes grants of these tokens.
    fn write<const N: usize>(&mut self, tokens: [i64; N]) {
        let mut grants = tokens.map(granted).into();
        self.writer.write_all(&mut grants, NOW);
    }

    /// Returns the numbers of events that were written and dropped.
    fn counted(&self) -> (u64, u64) {
        (self.counters.written.get(), self.counters.dropped.get())
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

fn tokens(path: &Path) -> Vec<i64> {
    let lines = lines(path);
    let tokens = lines.iter().map(|line| line["token"].as_i64().unwrap());
    tokens.collect()
}

#[test]
fn a_line_has_what_is_known() {
    let mut log = Log::open();
    let later = NOW.after(Duration::from_millis(250));
    let ended = Event::Ended(facts(7), EndKind::Released, Why::ClientGone);
    let mut events = vec![granted(7), (later, ended)];
    log.writer.write_all(&mut events, NOW);
    assert_eq!(
        fs::read_to_string(&log.path).unwrap(),
        concat!(
            r#"{"time":"2025-11-26T08:00:00.123456Z","event":"granted","lock":"a \"quoted\" name","mode":"exclusive","#,
            r#""token":7,"client":"worker","identity":"token:ci","waited_ms":1.500,"coordinator":"here-1"}"#,
            "\n",
            r#"{"time":"2025-11-26T08:00:00.373456Z","event":"released","why":"client_gone","lock":"a \"quoted\" name","#,
            r#""mode":"exclusive","token":7,"client":"worker","identity":"token:ci","waited_ms":1.500,"#,
            r#""held_ms":250.000,"coordinator":"here-1"}"#,
            "\n",
        )
    );
    assert_eq!(log.counted(), (2, 0));
}

#[test]
fn a_full_queue_drops_events_and_the_log_tells_how_many() {
    let log = Log::open();
    let queue = Queue::new(2);
    let put: Vec<_> = (1..=5).map(|token| queue.put(granted(token))).collect();
    assert_eq!(put, [true, true, false, false, false]);
    queue.close();
    log.writer.run(&queue, || NOW);
    let lines = lines(&log.path);
    let events = lines.iter().map(|line| line["event"].as_str().unwrap());
    assert!(events.eq(["granted", "granted", "dropped"]));
    assert_eq!(lines[2]["lines"], 3);
    assert_eq!(log.counters.written.get(), 2);
}

#[test]
fn the_log_tells_of_dropped_events_as_soon_as_there_is_room() {
    let log = Log::open();
    let queue = Arc::new(Queue::new(1));
    let (told, tells) = mpsc::channel();
    assert!(queue.put(granted(1)));
    assert!(!queue.put(granted(2)));
    let running = Arc::clone(&queue);
    let thread = thread::spawn(move || {
        // The writer asks for the time before each write: the second write has what was dropped.
        let now = || {
            let _ = told.send(());
            NOW
        };
        log.writer.run(&running, now);
    });
    for _ in 0..2 {
        tells.recv().unwrap();
    }
    queue.close();
    thread.join().unwrap();
    assert_eq!(lines(&log.path)[1]["lines"], 1);
}

#[test]
fn a_full_disk_loses_lines_and_tells_of_them_once_it_works() {
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("audit.log");
    std::os::unix::fs::symlink("/dev/full", full).unwrap();
    let mut log = Log::open_in(folder);
    log.write([1, 2]);
    log.write([3]);
    assert_eq!(log.counted(), (0, 3));
    fs::remove_file(&log.path).unwrap();
    log.reopen.store(true, Ordering::Relaxed);
    log.write([4]);
    let lines = lines(&log.path);
    assert_eq!(lines[0]["event"], "dropped");
    assert_eq!(lines[0]["lines"], 3);
    assert_eq!(lines[1]["token"], 4);
    assert_eq!(lines.len(), 2);
    assert_eq!(log.counted(), (1, 3));
}

#[test]
fn a_file_that_was_moved_is_followed_by_a_new_one() {
    let mut log = Log::open();
    let moved = log.folder.path().join("audit.log.1");
    log.write([1]);
    fs::rename(&log.path, &moved).unwrap();
    // It has looked a moment ago, and goes on with the file that was moved.
    log.write([2]);
    log.reopen.store(true, Ordering::Relaxed);
    log.write([3]);
    assert_eq!((tokens(&moved), tokens(&log.path)), (vec![1, 2], vec![3]));
    // A reload alone begins none.
    log.reopen.store(true, Ordering::Relaxed);
    log.write([4]);
    assert_eq!(tokens(&log.path), [3, 4]);
    // Without one, it looks once a second.
    fs::remove_file(&log.path).unwrap();
    if let Target::File { looked_at, .. } = &mut log.writer.target {
        *looked_at -= LOOK_EVERY;
    }
    log.write([5]);
    assert_eq!(tokens(&log.path), [5]);
}

#[test]
fn the_line_after_a_torn_one_begins_anew() {
    let mut log = Log::open();
    fs::write(&log.path, "{\"time\":").unwrap();
    log.writer.is_torn = true;
    log.write([1]);
    let text = fs::read_to_string(&log.path).unwrap();
    let (torn, rest) = text.split_once('\n').unwrap();
    assert_eq!(torn, "{\"time\":");
    assert!(serde_json::from_str::<Value>(rest).is_ok(), "{rest}");
}

#[test]
fn a_log_that_cannot_be_written_is_a_fault_and_a_missing_one_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: PathBuf| Config {
        audit_log: Some(path),
        ..Config::default()
    };
    assert_eq!(check(&Config::default()), None);
    assert_eq!(check(&at("-".into())), None);
    let path = folder.path().join("audit.log");
    assert_eq!(check(&at(path.clone())), None);
    assert!(!path.exists(), "the check created a file");
    assert!(check(&at(folder.path().to_owned())).is_some());
    let fault = check(&at(folder.path().join("none/audit.log"))).unwrap();
    assert!(fault.contains("(audit-log)"), "{fault}");
}
