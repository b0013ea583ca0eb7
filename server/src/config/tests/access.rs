//! Settings of identities, and tables of permissions.

use super::*;

const TABLE: &str = "[[permission]]\nidentities = [\"token:ci\", \"jwt:*\"]\nallow = [\"acquire\"]\nlocks = [\"build/\"]\n";

#[test]
fn tables_of_permissions_are_read() {
    let text = format!(
        "token-file = \"t\"\n{TABLE}\n{}",
        TABLE.replace("locks", "elections")
    );
    let config = in_file(&text).unwrap();
    assert_eq!(config.permissions.len(), 2);
    let granted: Granted = Rules::new(&config.permissions).of("jwt:anybody");
    assert!(granted.permits(Permission::Acquire, Place::Lock, "build/1"));
    assert!(granted.permits(Permission::Acquire, Place::Election, "build/1"));
    assert!(!granted.permits(Permission::Inspect, Place::Either, "build/1"));
}

#[test]
fn tables_of_permissions_are_printed_as_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leasehold.toml");
    fs::write(
        &path,
        format!(
            "token-file = \"t\"\n{TABLE}elections = [\"a\", \"b\\u0022\"]\nmax-hold = \"90m\"\n"
        ),
    )
    .unwrap();
    let text = printed(&["--config", path.to_str().unwrap(), "--print-config"], &[]);
    let config = in_file(&text).unwrap();
    assert_eq!(config.permissions.len(), 1);
    let bound = Duration::from_secs(90 * 60);
    assert_eq!(config.permissions[0].max_hold, Some(bound));
    let served = served(&["--config", path.to_str().unwrap()], &[]);
    assert_eq!(config.permissions, served.permissions);
}

#[test]
fn an_error_in_a_table_has_its_place() {
    let all = "[\"token:ci\", \"jwt:*\"]";
    let fields = "unknown field `lock`, expected one of `identities`, `allow`";
    for ((line, column), from, to, says) in [
        ((2, 15), "token:", "", "\"cert:\", \"token:\" or \"jwt:\""),
        ((2, 27), "\"jwt:*\"", "7", "a string in `identities`"),
        ((2, 14), all, "[]", "identities: expected at least one"),
        ((2, 14), all, "\"jwt:*\"", "a sequence in `identities`"),
        ((3, 10), "acq", "aq", "\"inspect\" or \"administer\""),
        ((4, 1), "locks", "lock", fields),
        ((1, 1), "locks = [\"build/\"]\n", "", "locks or elections"),
        ((1, 1), "allow = [\"acquire\"]\n", "", "field `allow`"),
    ] {
        refused_in_file(&TABLE.replace(from, to), line, column, says);
    }
    let bounded = |allow: &str, max_hold: &str| {
        let table = TABLE.replace("\"acquire\"", allow);
        format!("{table}max-hold = {max_hold}\n")
    };
    for (allow, max_hold, says) in [
        ("\"acquire\"", "\"soon\"", "a duration from 1s to 365d"),
        ("\"acquire\"", "\"500ms\"", "a duration from 1s"),
        ("\"acquire\"", "60", "expected a string in `max-hold`"),
        ("\"inspect\"", "\"1h\"", "needs \"acquire\" in allow"),
    ] {
        refused_in_file(&bounded(allow, max_hold), 5, 12, says);
    }
    refused_in_file("permission = 3\n", 1, 14, "[[permission]]");
    refused_in_file("permission = [3]\n", 1, 15, "[[permission]]");
}

#[test]
fn contradictions_about_identities_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("leasehold.toml");
    fs::write(&path, TABLE).unwrap();
    let path = path.to_str().unwrap();
    let error = refused(&["--config", path], &[]);
    assert!(error.contains("[[permission]]"), "{error}");
    assert!(error.contains("token-file"), "{error}");
    let accepted = served(&["--config", path, "--token-file=t"], &[]);
    assert_eq!(accepted.permissions.len(), 1);

    for (args, lacks) in [
        (&["--jwt-keys=k", "--jwt-issuer=i"][..], "jwt-audience"),
        (&["--jwt-keys=k", "--jwt-audience=a"][..], "jwt-issuer"),
        (&["--jwt-issuer=i"][..], "jwt-keys"),
        (&["--jwt-audience=a"][..], "jwt-keys"),
    ] {
        let error = refused(args, &[]);
        assert!(error.contains(lacks), "{error}");
    }
    served(&["--jwt-keys=k", "--jwt-issuer=i", "--jwt-audience=a"], &[]);
    assert!(refused(&["--token-file="], &[]).contains("the path of a file"));
}

#[test]
fn a_new_token_is_printed_with_its_line() {
    let printed = printed(&["new-token", "ci"], &[]);
    let mut lines = printed.lines();
    assert!(lines.next().unwrap().starts_with("lh_"));
    assert!(lines.next().unwrap().starts_with("ci sha256:"));
    assert_eq!(lines.next(), None);
    assert!(refused(&["new-token", "c i"], &[]).contains("without spaces"));
    assert!(refused(&["new-token"], &[]).contains("NAME"));
}
