use std::{io::Write as _, path::Path};

use super::*;

fn parse(url: &str) -> Result<RedisTarget, StoreUrlError> {
    RedisTarget::parse(url, None)
}

#[test]
fn every_part_is_read() {
    let target = parse("redis://worker:hunter2@redis.example:7000/5").unwrap();
    assert_eq!(target.address().to_string(), "redis.example:7000");
    assert_eq!(target.database(), 5);
    let login = |target: &RedisTarget| {
        let login = target.login().unwrap();
        (login.user.clone(), login.password.to_string())
    };
    let expected = (Some("worker".into()), "hunter2".to_owned());
    assert_eq!(login(&target), expected);
    assert!(!target.uses_tls());
    assert_eq!(
        target.to_string(),
        "redis://worker:***@redis.example:7000/5"
    );
    assert_eq!(
        format!("{target:?}"),
        "RedisTarget(redis://worker:***@redis.example:7000/5)"
    );
}

#[test]
fn omitted_parts_have_defaults() {
    for url in [
        "redis://127.0.0.1",
        "redis://127.0.0.1/",
        "redis://127.0.0.1:6379/0",
        "REDIS://@127.0.0.1",
    ] {
        let target = parse(url).unwrap();
        assert_eq!(target.address().to_string(), "127.0.0.1:6379", "{url}");
        assert_eq!(target.database(), 0, "{url}");
        assert!(target.login().is_none(), "{url}");
    }
    let target = parse("redis://:hunter2@localhost").unwrap();
    assert_eq!(target.login().unwrap().user, None);
    assert_eq!(&*target.login().unwrap().password, "hunter2");
    assert_eq!(target.to_string(), "redis://:***@localhost:6379/0");
}

#[test]
fn user_and_password_are_decoded() {
    let target = parse("redis://us%40er:p%2Fa%23s%25s%3A%20%C3%A9@h").unwrap();
    assert_eq!(target.login().unwrap().user.as_deref(), Some("us@er"));
    assert_eq!(&*target.login().unwrap().password, "p/a#s%s: é");
    // A colon in the password needs no encoding: the first one ends the user.
    assert_eq!(
        &*parse("redis://u:a:b@h").unwrap().login().unwrap().password,
        "a:b"
    );
}

#[test]
fn ipv6_hosts_lose_their_brackets_and_get_them_back() {
    let target = parse("redis://[::1]:7000").unwrap();
    assert_eq!(&*target.address().host, "::1");
    assert_eq!(target.address().to_string(), "[::1]:7000");
    assert_eq!(target.to_string(), "redis://[::1]:7000/0");
}

#[test]
fn malformed_urls_are_refused_by_name() {
    use StoreUrlError as E;
    type Check = fn(&StoreUrlError) -> bool;
    let cases: &[(&str, Check)] = &[
        ("", |e| matches!(e, E::Malformed(_))),
        ("localhost", |e| matches!(e, E::Malformed(_))),
        ("localhost:6379", |e| matches!(e, E::Scheme { .. })),
        ("http://localhost", |e| matches!(e, E::Scheme { .. })),
        ("valkey://localhost", |e| matches!(e, E::Scheme { .. })),
        ("redis+sentinel://localhost", |e| {
            matches!(e, E::Scheme { .. })
        }),
        ("unix:///run/redis.sock", |e| matches!(e, E::Scheme { .. })),
        ("redis:", |e| matches!(e, E::NoHost)),
        ("redis:localhost", |e| matches!(e, E::NoHost)),
        ("redis://", |e| matches!(e, E::NoHost)),
        ("redis:///5", |e| matches!(e, E::NoHost)),
        ("redis://:6379", |e| matches!(e, E::Malformed(_))),
        ("redis://h:0", |e| matches!(e, E::PortZero)),
        ("redis://h:65536", |e| matches!(e, E::Malformed(_))),
        ("redis://h:port", |e| matches!(e, E::Malformed(_))),
        ("redis://[::1", |e| matches!(e, E::Malformed(_))),
        ("redis://h/-1", |e| matches!(e, E::BadDatabase)),
        ("redis://h/+1", |e| matches!(e, E::BadDatabase)),
        ("redis://h/1/2", |e| matches!(e, E::BadDatabase)),
        ("redis://h/1/", |e| matches!(e, E::BadDatabase)),
        ("redis://h/one", |e| matches!(e, E::BadDatabase)),
        ("redis://h/2147483648", |e| matches!(e, E::BadDatabase)),
        ("redis://h/99999999999999999999", |e| {
            matches!(e, E::BadDatabase)
        }),
        ("redis://h?db=3", |e| matches!(e, E::UnknownParameter)),
        ("redis://h/?protocol=resp3", |e| {
            matches!(e, E::UnknownParameter)
        }),
        ("rediss://h/#insecure", |e| matches!(e, E::Fragment)),
        ("redis://user@h", |e| matches!(e, E::UserWithoutPassword)),
        ("redis://user:@h", |e| matches!(e, E::UserWithoutPassword)),
        ("redis://u:50%@h", |e| {
            matches!(e, E::BadEncoding { part: "password" })
        }),
        ("redis://u:%zz@h", |e| {
            matches!(e, E::BadEncoding { part: "password" })
        }),
        ("redis://%ff:pass@h", |e| {
            matches!(e, E::BadEncoding { part: "user" })
        }),
        ("redis://h\n", |e| matches!(e, E::ControlCharacter)),
        ("redis://:a\tb@h", |e| matches!(e, E::ControlCharacter)),
    ];
    for (url, expected) in cases {
        let error = parse(url)
            .err()
            .unwrap_or_else(|| panic!("{url:?} was accepted"));
        assert!(expected(&error), "{url:?} gave {error:?}");
    }
}

#[test]
fn no_error_shows_a_piece_of_the_password() {
    // However a password spills over into the other parts of a URL.
    for url in [
        "redis://:hunter/2hunter@h",
        "redis://u:1/2hunter@h/3",
        "redis://u:1?2hunter@h",
        "redis://u:1#2hunter@h",
        "redis://:hunter#2@h",
        "redis://hunter@h",
        "redis://u:hunter%2@h",
        "redis://u:hunter\n@h",
        "redis://u:hunter@h:0",
        "redis://u:hunter@h/db",
        "redis://u:hunter@",
        "hunter@h",
    ] {
        let error = parse(url)
            .err()
            .unwrap_or_else(|| panic!("{url:?} was accepted"));
        assert!(
            !format!("{error} {error:?}").contains("hunter"),
            "{url:?} gave {error} {error:?}"
        );
    }
}

#[test]
fn a_ca_file_is_checked_at_once() {
    let refused = |url: &str, path: &Path| RedisTarget::parse(url, Some(path)).err().unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(
        refused("redis://h", file.path()),
        StoreUrlError::CaWithoutTls
    ));
    assert!(matches!(
        refused("rediss://h", file.path()),
        StoreUrlError::CaUnusable { .. }
    ));
    file.write_all(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    assert!(matches!(
        refused("rediss://h", file.path()),
        StoreUrlError::CaUnusable { .. }
    ));
    let missing = file.path().with_extension("missing");
    let error = refused("rediss://h", &missing);
    assert!(matches!(&error, StoreUrlError::FileUnreadable { .. }));
    assert!(
        error.to_string().contains(missing.to_str().unwrap()),
        "{error}"
    );

    let ca = rcgen::generate_simple_self_signed(vec!["h".to_owned()]).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(ca.cert.pem().as_bytes()).unwrap();
    let target = RedisTarget::parse("rediss://:hunter2@h/1", Some(file.path())).unwrap();
    assert_eq!(target.to_string(), "rediss://:***@h:6379/1");
    assert!(target.uses_tls());
}
