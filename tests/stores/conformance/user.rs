//! Redis user that `docs/deployment.md` gives coordinators: the permissions written there must suffice.

use std::{collections::BTreeSet, fs, path::Path};

use leasehold_tests::{Cluster, RedisServer, wait};

use crate::conformance::site::{LATE, Site};

/// Its name and password.
pub(crate) const LOGIN: &str = "leasehold:password";

const DOCUMENT: &str = include_str!("../../../docs/deployment.md");

/// Makes it on a server.
pub(crate) fn make(server: &RedisServer, in_cluster: bool) {
    let (name, password) = LOGIN.split_once(':').unwrap();
    let mut set = redis::cmd("ACL");
    set.arg("SETUSER").arg(name);
    for rule in rules(in_cluster) {
        match rule {
            "#SHA256-OF-THE-PASSWORD" => set.arg(format!(">{password}")),
            rule => set.arg(rule),
        };
    }
    set.exec(&mut server.connection()).unwrap();
}

/// Returns the documented rules of the user, with those that a cluster needs in addition.
fn rules(in_cluster: bool) -> Vec<&'static str> {
    let mut rules: Vec<&str> = line("user ").split(' ').skip(2).collect();
    if in_cluster {
        rules.extend(line("+").split(' '));
    }
    rules
}

/// Returns the one line of a block in the document's section that begins so.
fn line(beginning: &str) -> &'static str {
    let (_, section) = DOCUMENT.split_once("\n## The user of Redis\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let blocks = section.split("```").skip(1).step_by(2).map(str::trim);
    let lines: Vec<&str> = blocks.filter(|line| line.starts_with(beginning)).collect();
    assert_eq!(lines.len(), 1, "blocks that begin with {beginning}");
    lines[0]
}

/// Asserts that no client asked a server for anything that the user may not do, or that needs a login.
pub(crate) fn was_enough(server: &RedisServer) {
    let mut log = redis::cmd("ACL");
    log.arg("LOG");
    let refused: Vec<redis::Value> = log.query(&mut server.connection()).unwrap();
    assert!(refused.is_empty(), "{refused:?}");
}

/// Moves a slot of a cluster, so that a coordinator is redirected.
pub(crate) async fn while_a_slot_moves(site: &Site, cluster: &Cluster) {
    const NAME: &str = "moved";
    let slot = cluster.slot_of(&format!("lock:{NAME}"));
    let from = cluster.master_of(slot);
    let to = (from + 1) % 3;
    let mut session = site.session(0).await;
    cluster.begin_move(slot, from, to);
    let asked = session.ask(NAME, Some(LATE * 2)).await;
    let mut new = cluster.node(to).connection();
    let mut info = redis::cmd("INFO");
    info.arg("commandstats");
    wait::until("a coordinator to ask the new master", LATE, || {
        let told: String = info.query(&mut new).unwrap();
        let came = told.contains("cmdstat_asking:");
        async move { came.then_some(()).ok_or(told) }
    })
    .await;
    cluster.end_move(slot, from, to);
    let locks = session.granted_all(asked, LATE).await;
    assert!(session.release(&locks[0]).await);
    session.close().await;
}

/// Checks every command of the scripts against the document, including those that a script rarely runs.
#[test]
fn every_command_of_the_scripts_is_in_the_document() {
    let redis = RedisServer::start();
    let mut allowed = BTreeSet::new();
    for rule in rules(true) {
        if let Some(category) = rule.strip_prefix("+@") {
            let mut list = redis::cmd("ACL");
            list.arg("CAT").arg(category);
            let commands: Vec<String> = list.query(&mut redis.connection()).unwrap();
            allowed.extend(commands);
        } else if let Some(command) = rule.strip_prefix('+') {
            allowed.insert(command.to_owned());
        }
    }
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/store/lua");
    let mut named = BTreeSet::new();
    for folder in [scripts.clone(), scripts.join("quorum")] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "lua") {
                named.extend(commands(&fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(named.len() > 25, "{named:?}");
    let missing: Vec<&String> = named.difference(&allowed).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Returns the commands that a script calls: `call('HGET', …)`, and the like.
fn commands(script: &str) -> BTreeSet<String> {
    let quoted = script.split("('").skip(1);
    let words = quoted.filter_map(|rest| Some(rest.split_once('\'')?.0));
    let is_command =
        |word: &&str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    words.filter(is_command).map(str::to_lowercase).collect()
}
