//! Permissions: of callers at coordinators, and of the store's user at Redis.

use std::time::Duration;

use leasehold_server::access::tokens::new_token;
use leasehold_store::{
    TlsFiles,
    examine::{Place, examine, facts::Facts},
};
use leasehold_tests::{Coordinator, RedisServer};

use super::site::doctor;

const PAGE: &str = include_str!("../../../docs/deployment.md");

#[test]
fn the_caller_sees_what_its_permissions_allow() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let made = ["ops", "some", "none"].map(|name| new_token(name).unwrap());
    let (tokens, lines): (Vec<_>, Vec<_>) = made
        .iter()
        .map(|made| made.trim_end().split_once('\n').unwrap())
        .unzip();
    let tables = "[[permission]]\nidentities = [\"token:ops\"]\nallow = [\"inspect\"]\nlocks = [\"\"]\n\
        [[permission]]\nidentities = [\"token:some\"]\nallow = [\"acquire\", \"inspect\"]\nlocks = [\"a/\"]\nelections = [\"b\"]\n";
    let arguments = [
        "--token-file".to_owned(),
        write("tokens", &(lines.join("\n") + "\n")),
        "--config".to_owned(),
        write("config", tables),
    ];
    let coordinator = Coordinator::process().arguments(arguments).start();
    for (token, expected, code) in [
        (tokens[0], &[][..], 0),
        (tokens[1], &[("permissions", "note")], 0),
        (tokens[2], &[("permissions", "warning")], 6),
        ("unknown", &[("coordinator-refuses", "error")], 77),
    ] {
        let file = write("token", token.trim());
        let told = doctor(&coordinator.endpoint(), None, &["--token-file", &file]);
        assert_eq!((&told.kinds()[..], told.code), (expected, code), "{told:?}");
        if token == tokens[1] {
            let row = &told.document["coordinators"][0];
            assert_eq!(row["identity"], "token:some");
            let expected = serde_json::json!([
                {"permission": "acquire", "locks": ["a/"], "elections": ["b"]},
                {"permission": "inspect", "locks": ["a/"], "elections": ["b"]},
            ]);
            assert_eq!(row["permissions"], expected);
        }
    }
}

/// Returns the rules of the store's user, as the page on deployment has them.
fn rules() -> Vec<&'static str> {
    let line = PAGE
        .lines()
        .find(|line| line.starts_with("user leasehold "));
    let (_, rules) = line.unwrap().split_once(" resetchannels ").unwrap();
    rules.split(' ').collect()
}

fn set_user(redis: &RedisServer, rules: &[&str]) {
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg("leasehold").arg(rules);
    command.exec(&mut redis.connection()).unwrap();
}

async fn examined(redis: &RedisServer, database: &str) -> Facts {
    let place = Place {
        url: redis.url().replace("redis://", "redis://leasehold:secret@") + database,
        tls: TlsFiles::default(),
        key_prefix: "lock:".to_owned(),
        acknowledged: true,
        timeout: Duration::from_secs(5),
    };
    examine(&place).await.unwrap()
}

#[tokio::test]
async fn each_rule_of_the_page_is_missed() {
    let redis = RedisServer::start();
    let rules = rules();
    let all = [&["reset", "on", ">secret"], &rules[..]].concat();
    set_user(&redis, &all);
    let before = examined(&redis, "").await;
    let report = before.servers[0].report.as_ref().unwrap();
    assert_eq!(report.refused, []);
    assert!(
        report.clock.is_some() && report.maxmemory_policy.is_some(),
        "{report:?}"
    );
    let mut tried = 0;
    for rule in rules {
        // Connections of the doctor end without it.
        if rule == "+unsubscribe" {
            continue;
        }
        let others: Vec<_> = all.iter().copied().filter(|other| *other != rule).collect();
        set_user(&redis, &others);
        let facts = examined(&redis, "").await;
        let missed = match &facts.servers[0].report {
            Err(trouble) => vec![trouble.reason.clone()],
            Ok(report) => report
                .refused
                .iter()
                .map(|refusal| refusal.rule.clone())
                .collect(),
        };
        let is_named = match rule {
            "+ping" | "+select" => missed[0].to_ascii_lowercase().contains(&rule[1..]),
            "+@hash" => {
                missed.contains(&"+hget".to_owned()) && missed.contains(&"+hdel".to_owned())
            }
            "+@sortedset" => missed.contains(&"+zadd".to_owned()),
            // Every channel that it covers is missed.
            "&lh:*" => missed.contains(&rule.to_owned()),
            rule => missed == [rule],
        };
        assert!(is_named, "{rule}: {missed:?}");
        tried += 1;
    }
    assert!(tried > 30, "{tried}");
}

#[tokio::test]
async fn the_channel_of_another_database_is_named() {
    let redis = RedisServer::start();
    set_user(
        &redis,
        &[&["reset", "on", ">secret"], &rules()[..]].concat(),
    );
    let facts = examined(&redis, "/3").await;
    let report = facts.servers[0].report.as_ref().unwrap();
    let [refusal] = &report.refused[..] else {
        panic!("{report:?}");
    };
    assert_eq!(refusal.rule, "&lh:watching:3");
}

#[test]
fn what_coordinators_lack_in_redis_is_an_error() {
    let redis = RedisServer::options().append_only().start();
    let all = [&["reset", "on", ">secret"], &rules()[..]].concat();
    set_user(&redis, &all);
    let store = redis.url().replace("redis://", "redis://leasehold:secret@");
    let coordinator = Coordinator::process().store(&store).start();
    let endpoint = coordinator.endpoint();
    assert_eq!(doctor(&endpoint, Some(&store), &[]).kinds(), []);
    set_user(&redis, &["-wait", "-client|setname"]);
    let told = doctor(&endpoint, Some(&store), &[]);
    assert_eq!(told.kinds(), [("redis-permission", "note")]);
    assert_eq!(told.code, 0);
    set_user(&redis, &["-pexpire", "-getex"]);
    let told = doctor(&endpoint, Some(&store), &[]);
    let kinds = [("redis-permission", "error"), ("redis-permission", "note")];
    assert_eq!(told.kinds(), kinds);
    let what = told.finding("redis-permission")["what"].as_str().unwrap();
    assert!(what.ends_with("lacks +getex +pexpire"), "{what}");
}
