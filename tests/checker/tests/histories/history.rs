//! Builder of a history, which also checks it and demands the violations that it must have.

use leasehold_checker::{Limits, Story, Verdict, check, checks::Kind, parse, report, timeline};
use serde_json::{Value, json};

/// A history that is written line by line. Times are in milliseconds.
#[derive(Default)]
pub(crate) struct History {
    pub(crate) lines: Vec<Value>,
    pub(crate) sequence: u64,
}

pub(crate) const MS: u64 = 1000;

impl History {
    pub(crate) fn line(&mut self, at: u64, kind: &str, mut fields: Value) {
        let record = fields.as_object_mut().unwrap();
        record.insert("at".to_owned(), json!(at * MS));
        record.insert("kind".to_owned(), json!(kind));
        self.lines.push(fields);
    }

    pub(crate) fn asked(&mut self, at: u64, client: &str, ask: u64, lock: &str, mode: &str) {
        let fields = json!({"client": client, "ask": ask, "lock": lock, "mode": mode});
        self.line(at, "asked", fields);
    }

    pub(crate) fn asked_permits(&mut self, at: u64, client: &str, ask: u64, permits: u64) {
        let fields = json!({"client": client, "ask": ask, "lock": "pool", "mode": "permits", "permits": permits, "limit": 4});
        self.line(at, "asked", fields);
    }

    /// The guard is good for five seconds.
    pub(crate) fn granted(&mut self, at: u64, client: &str, ask: u64, token: i64) {
        let fields =
            json!({"client": client, "ask": ask, "token": token, "until": (at + 5000) * MS});
        self.line(at, "granted", fields);
    }

    pub(crate) fn extended(&mut self, at: u64, client: &str, ask: u64) {
        let fields = json!({"client": client, "ask": ask, "until": (at + 5000) * MS});
        self.line(at, "extended", fields);
    }

    pub(crate) fn about(&mut self, at: u64, kind: &str, client: &str, ask: u64) {
        self.line(at, kind, json!({"client": client, "ask": ask}));
    }

    pub(crate) fn lost(&mut self, at: u64, client: &str, ask: u64) {
        let fields = json!({"client": client, "ask": ask, "why": "expired"});
        self.line(at, "lost", fields);
    }

    pub(crate) fn ended(&mut self, at: u64, client: &str, ask: u64) {
        let fields = json!({"client": client, "ask": ask, "outcome": "timed_out"});
        self.line(at, "ended", fields);
    }

    pub(crate) fn wrote(&mut self, at: u64, client: &str, lock: &str, token: i64, accepted: bool) {
        self.sequence += 1;
        let fields = json!({"client": client, "lock": lock, "token": token, "accepted": accepted, "sequence": self.sequence});
        self.line(at, "write", fields);
    }

    /// An acquire that is granted and released, from `begin` to `end`.
    pub(crate) fn cycle(
        &mut self,
        begin: u64,
        end: u64,
        client: &str,
        ask: u64,
        lock: &str,
        token: i64,
    ) {
        self.asked(begin, client, ask, lock, "exclusive");
        self.granted(begin + 1, client, ask, token);
        self.about(end, "releasing", client, ask);
        let fields = json!({"client": client, "ask": ask, "held": true});
        self.line(end + 1, "released", fields);
    }

    pub(crate) fn fault(&mut self, begin: u64, end: u64, effects: &Value) {
        let mut fields = json!({"fault": begin, "what": "a fault", "target": "something"});
        let record = fields.as_object_mut().unwrap();
        record.extend(effects.as_object().unwrap().clone());
        self.line(begin, "fault_began", fields);
        self.line(end, "fault_ended", json!({"fault": begin}));
    }

    pub(crate) fn watched(&mut self, at: u64, watcher: &str, event: &str, token: i64) {
        let fields = json!({"watcher": watcher, "lock": "x", "event": event, "token": token});
        self.line(at, "watched", fields);
    }

    pub(crate) fn left(&mut self, at: u64, keys: &[&str]) {
        self.line(at, "left", json!({"keys": keys}));
    }

    pub(crate) fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    pub(crate) fn check(&self) -> Verdict {
        let lines = parse("history", &self.text()).unwrap();
        let story = Story::tell(lines.clone()).unwrap();
        let verdict = check(&story, Limits::default());
        // Neither may fail, whatever the history is.
        report::summary(&lines, &story, &verdict);
        timeline::draw(&story, &verdict.violations);
        verdict
    }

    /// Checks it, and demands these kinds of violations.
    pub(crate) fn finds(mut self, expected: &[Kind]) -> Verdict {
        self.left(100_000, &[]);
        let verdict = self.check();
        let kinds: Vec<Kind> = verdict.violations.iter().map(|found| found.kind).collect();
        assert_eq!(kinds, expected, "{:?}", verdict.violations);
        verdict
    }
}
