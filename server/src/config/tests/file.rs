//! Files that are wrong, and everything that is wrong at once.

use super::*;

#[track_caller]
pub(super) fn refused_in_file(text: &str, line: usize, column: usize, says: &str) {
    let error = in_file(text).unwrap_err().join("\n");
    let place = format!("leasehold.toml, line {line}, column {column}");
    assert!(error.contains(&place), "no {place:?} in {error:?}");
    assert!(error.contains(says), "no {says:?} in {error:?}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn a_bad_file_is_refused_with_line_and_column() {
    let unit = "expected a duration with its unit";
    let timeout = "unknown setting \"store_timeout\"; did you mean \"store-timeout\"?";
    let whole = "max-sessions: expected a whole number; found a value of type string";
    let text = "listen: expected a string in quotes; found a value of type integer";
    for (file, (line, column), says) in [
        ("name = \"a\"\nlisten = 1\n", (2, 10), text),
        ("store-timeout = 5", (1, 17), unit),
        ("store-timeout = 0.5", (1, 17), unit),
        (
            "# ü\nstore-timeout = \"5\"",
            (2, 17),
            "a duration from 10ms",
        ),
        ("max-sessions = \"5\"", (1, 16), whole),
        ("trace-sample = \"1\"", (1, 16), "a number from 0 to 1"),
        ("trace-sample = 1.1", (1, 16), "a number from 0 to 1"),
        ("max-sessions = 0x0", (1, 16), "from 1 to"),
        ("max-sessions = 99999999999999999999", (1, 16), "expected"),
        ("insecure = \"true\"", (1, 12), "expected true or false"),
        ("\n  store_timeout = \"1s\"", (2, 3), timeout),
        ("max-sesions = 1", (1, 1), "did you mean \"max-sessions\"?"),
        ("[server]\nlisten = \"127.0.0.1:1\"", (1, 2), "\"server\""),
        ("name = \"a\"\nname = \"b\"\n", (2, 1), "duplicate key"),
        ("name = \"a\" name = \"b\"\n", (1, 12), ""),
        ("store = \"redis://:hunter2@h\n", (1, 28), ""),
        ("store = \"http://:hunter2@h\"", (1, 9), "\"memory:\""),
        ("listen", (1, 7), ""),
    ] {
        refused_in_file(file, line, column, says);
    }
    assert_eq!(in_file("max-sessions = 0x10\n").unwrap().max_sessions, 16);
}

#[test]
fn all_errors_are_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leasehold.toml");
    fs::write(&path, "max-sesions = 1\nlisten = 1\nmin-ttl = \"soon\"\n").unwrap();
    let error = refused(
        &["--config", path.to_str().unwrap(), "--max-wait=never"],
        &[("LEASEHOLD_STORE", "nowhere"), ("LEASEHOLD_MAX_TTL", "9s")],
    );
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 5, "{error}");
    for (line, says) in lines.iter().zip([
        "line 1, column 1: unknown setting \"max-sesions\"",
        "line 2, column 10: listen: expected a string",
        "min-ttl (file ",
        "store (environment LEASEHOLD_STORE): expected",
        "max-wait (flag --max-wait): expected",
    ]) {
        assert!(line.contains(says), "no {says:?} in {line:?}");
    }
    // Contradictions too.
    let error = refused(&["--max-ttl=9s", "--min-replicas=1"], &[]);
    assert_eq!(error.lines().count(), 2, "{error}");
}
