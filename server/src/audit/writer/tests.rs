#![expect(clippy::unwrap_used, reason = "tests")]

use std::{fs, sync::mpsc, thread};

use leasehold_core::{
    id::FencingToken,
    mode::Mode,
    name::{ClientName, LockName},
};
use serde_json::Value;

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

fn opened(path: &Path) -> (Writer, Counters, Arc<AtomicBool>) {
    let (counters, reopen) = (Counters::default(), Arc::new(AtomicBool::new(false)));
    let (counted, asked) = (counters.clone(), Arc::clone(&reopen));
    let writer = Writer::open(path, "here-1".into(), counted, asked).unwrap();
    (writer, counters, reopen)
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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let (mut writer, counters, _) = opened(&path);
    let later = NOW.after(Duration::from_millis(250));
    let ended = Event::Ended(facts(7), EndKind::Released, Why::ClientGone);
    writer.write_all(&mut vec![granted(7), (later, ended)], NOW);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
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
    assert_eq!((counters.written.get(), counters.dropped.get()), (2, 0));
}

#[test]
fn a_full_queue_drops_events_and_the_log_tells_how_many() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let (writer, counters, _) = opened(&path);
    let queue = Queue::new(2);
    let put: Vec<_> = (1..=5).map(|token| queue.put(granted(token))).collect();
    assert_eq!(put, [true, true, false, false, false]);
    queue.close();
    writer.run(&queue, || NOW);
    let lines = lines(&path);
    let events = lines.iter().map(|line| line["event"].as_str().unwrap());
    assert_eq!(
        events.collect::<Vec<_>>(),
        ["granted", "granted", "dropped"]
    );
    assert_eq!(lines[2]["lines"], 3);
    assert_eq!(counters.written.get(), 2);
}

#[test]
fn the_log_tells_of_dropped_events_as_soon_as_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let (writer, ..) = opened(&path);
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
        writer.run(&running, now);
    });
    for _ in 0..2 {
        tells.recv().unwrap();
    }
    queue.close();
    thread.join().unwrap();
    assert_eq!(lines(&path)[1]["lines"], 1);
}

#[test]
fn a_full_disk_loses_lines_and_tells_of_them_once_it_works() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let (mut writer, counters, reopen) = opened(&path);
    writer.write_all(&mut vec![granted(1), granted(2)], NOW);
    writer.write_all(&mut vec![granted(3)], NOW);
    assert_eq!((counters.written.get(), counters.dropped.get()), (0, 3));
    fs::remove_file(&path).unwrap();
    reopen.store(true, Ordering::Relaxed);
    writer.write_all(&mut vec![granted(4)], NOW);
    let lines = lines(&path);
    assert_eq!(lines[0]["event"], "dropped");
    assert_eq!(lines[0]["lines"], 3);
    assert_eq!(lines[1]["token"], 4);
    assert_eq!(lines.len(), 2);
    assert_eq!((counters.written.get(), counters.dropped.get()), (1, 3));
}

#[test]
fn a_file_that_was_moved_is_followed_by_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let moved = folder.path().join("audit.log.1");
    let (mut writer, _, reopen) = opened(&path);
    writer.write_all(&mut vec![granted(1)], NOW);
    fs::rename(&path, &moved).unwrap();
    // It has looked a moment ago, and goes on with the file that was moved.
    writer.write_all(&mut vec![granted(2)], NOW);
    reopen.store(true, Ordering::Relaxed);
    writer.write_all(&mut vec![granted(3)], NOW);
    assert_eq!((tokens(&moved), tokens(&path)), (vec![1, 2], vec![3]));
    // A reload alone begins none.
    reopen.store(true, Ordering::Relaxed);
    writer.write_all(&mut vec![granted(4)], NOW);
    assert_eq!(tokens(&path), [3, 4]);
    // Without one, it looks once a second.
    fs::remove_file(&path).unwrap();
    if let Target::File { looked_at, .. } = &mut writer.target {
        *looked_at -= LOOK_EVERY;
    }
    writer.write_all(&mut vec![granted(5)], NOW);
    assert_eq!(tokens(&path), [5]);
}

#[test]
fn the_line_after_a_torn_one_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let (mut writer, ..) = opened(&path);
    fs::write(&path, "{\"time\":").unwrap();
    writer.is_torn = true;
    writer.write_all(&mut vec![granted(1)], NOW);
    let text = fs::read_to_string(&path).unwrap();
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
