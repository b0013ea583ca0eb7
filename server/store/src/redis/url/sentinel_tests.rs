use std::path::Path;

use super::*;
use crate::redis::address::Address;

fn parse(url: &str) -> Result<SentinelUrl, StoreUrlError> {
    SentinelUrl::parse(url, None)
}

fn server(url: &SentinelUrl) -> RedisTarget {
    url.access.target(&Address::new("h", 1)).unwrap()
}

#[test]
fn every_part_is_read() {
    let url = parse(
        "redis+sentinel://app:hunter2@one,two:7000,[::1]/my.master-1_a/5\
         ?sentinel-user=w%40tch&sentinel-password=hunt=er%263",
    )
    .unwrap();
    let sentinels: Vec<_> = url.sentinels.iter().map(RedisTarget::label).collect();
    let expected = ["one:26379", "two:7000", "[::1]:26379"];
    assert_eq!(
        sentinels,
        expected.map(|at| format!("the sentinel at {at}"))
    );
    assert_eq!(&*url.master, "my.master-1_a");
    assert_eq!(url.access.database, 5);
    let login = url.sentinels[1].login().unwrap();
    assert_eq!(login.user.as_deref(), Some("w@tch"));
    assert_eq!(&*login.password, "hunt=er&3");
    assert_eq!(url.sentinels[1].database(), 0);

    let redis = url.access.target(&Address::new("10.0.0.1", 6380));
    let redis = redis.unwrap();
    assert_eq!(redis.to_string(), "redis://app:***@10.0.0.1:6380/5");
    assert_eq!(&*redis.login().unwrap().password, "hunter2");
    assert_eq!(redis.label(), "Redis at 10.0.0.1:6380");
    let shown = format!("{url:?}");
    assert!(!shown.contains("hunt"), "{shown}");
}

#[test]
fn omitted_parts_have_defaults() {
    for url in ["redis+sentinel://h/m", "REDIS+Sentinel://@h:26379/m/0"] {
        let url = parse(url).unwrap();
        assert_eq!(url.sentinels[0].to_string(), "redis://h:26379/0");
        assert_eq!((&*url.master, url.access.database), ("m", 0));
        assert!(url.sentinels[0].login().is_none());
        assert!(server(&url).login().is_none());
    }
    // The password of one is never tried on the other.
    let url = parse("redis+sentinel://:secret@h/m").unwrap();
    assert!(url.sentinels[0].login().is_none());
    let url = parse("redis+sentinel://h/m?sentinel-password=secret").unwrap();
    assert!(server(&url).login().is_none());
}

#[test]
fn malformed_urls_are_refused_by_name() {
    use StoreUrlError as E;
    type Check = fn(&StoreUrlError) -> bool;
    let cases: &[(&str, Check)] = &[
        ("redis://h/m", |e| matches!(e, E::Scheme { .. })),
        ("valkey+sentinel://h/m", |e| matches!(e, E::Scheme { .. })),
        ("redis+sentinel:h/m", |e| matches!(e, E::NoHost)),
        ("redis+sentinel://", |e| matches!(e, E::NoHost)),
        ("redis+sentinel:///m", |e| matches!(e, E::NoHost)),
        ("redis+sentinel://h,/m", |e| {
            matches!(e, E::BadHost { position: 2 })
        }),
        ("redis+sentinel://h:x/m", |e| {
            matches!(e, E::BadPort { position: 1 })
        }),
        ("redis+sentinel://h,i,h/m", |e| {
            matches!(e, E::RepeatedHost { position: 3 })
        }),
        ("redis+sentinel://h", |e| matches!(e, E::NoMasterName)),
        ("redis+sentinel://h/", |e| matches!(e, E::NoMasterName)),
        ("redis+sentinel://h//5", |e| matches!(e, E::NoMasterName)),
        ("redis+sentinel://h/m%20m", |e| {
            matches!(e, E::BadMasterName)
        }),
        ("redis+sentinel://h/m/x", |e| matches!(e, E::BadDatabase)),
        ("redis+sentinel://h/m/1/2", |e| matches!(e, E::BadDatabase)),
        ("redis+sentinel://h/m#x", |e| matches!(e, E::Fragment)),
        ("redis+sentinel://u@h/m", |e| {
            matches!(e, E::UserWithoutPassword)
        }),
        ("redis+sentinel://u:%2@h/m", |e| {
            matches!(e, E::BadEncoding { .. })
        }),
        ("redis+sentinel://h/m?", |e| {
            matches!(e, E::BadSentinelParameter)
        }),
        ("redis+sentinel://h/m?durable=true", |e| {
            matches!(e, E::BadSentinelParameter)
        }),
        ("redis+sentinel://h/m?sentinel-password=", |e| {
            matches!(e, E::BadSentinelParameter)
        }),
        (
            "redis+sentinel://h/m?sentinel-password=a&sentinel-password=b",
            |e| matches!(e, E::BadSentinelParameter),
        ),
        ("redis+sentinel://h/m?sentinel-password=%zz", |e| {
            matches!(e, E::BadEncoding { .. })
        }),
        ("redis+sentinel://h/m?sentinel-user=u", |e| {
            matches!(e, E::SentinelUserWithoutPassword)
        }),
        ("redis+sentinel://h/m\n", |e| {
            matches!(e, E::ControlCharacter)
        }),
    ];
    for (url, expected) in cases {
        match parse(url) {
            Err(error) => assert!(expected(&error), "{url:?} gave {error:?}"),
            Ok(url) => panic!("{url:?} was accepted"),
        }
    }
    let ca = SentinelUrl::parse("redis+sentinel://h/m", Some(Path::new("ca.pem")));
    assert!(matches!(ca, Err(E::CaWithoutTls)));
}

#[test]
fn no_error_shows_a_piece_of_a_password() {
    // However a password spills over into the other parts of a URL.
    for url in [
        "redis+sentinel://:hunter/2hunter@h/m",
        "redis+sentinel://u:1/2hunter@h/m",
        "redis+sentinel://u:1/2hunter/3@h/m",
        "redis+sentinel://u:1?2hunter@h/m",
        "redis+sentinel://u:1#2hunter@h/m",
        "redis+sentinel://hunter@h/m",
        "redis+sentinel://u:hunter,hunter/m",
        "redis+sentinel://u:hunter@h:0/m",
        "redis+sentinel://h/m?sentinel-password=hunter&hunter",
        "redis+sentinel://h/m?sentinel-pasword=hunter",
        "redis+sentinel://h/m?sentinel-password=hunter%",
        "redis+sentinel://h/m?sentinel-user=hunter",
        "hunter@h/m",
        "hunter@h:1/m",
    ] {
        match parse(url) {
            Err(error) => {
                let shown = format!("{error} {error:?}");
                assert!(!shown.contains("hunter"), "{url:?} gave {shown}");
            }
            Ok(url) => panic!("{url:?} was accepted"),
        }
    }
}
