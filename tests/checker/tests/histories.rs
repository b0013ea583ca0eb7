//! Histories with a planted violation of each kind, all of which are found, and clean ones, in which nothing is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use leasehold_checker::{Limits, Story, Verdict, check, checks::Kind, parse, report, timeline};
use serde_json::{Value, json};

/// A history that is written line by line. Times are in milliseconds.
#[derive(Default)]
struct History {
    lines: Vec<Value>,
    sequence: u64,
}

const MS: u64 = 1000;

impl History {
    fn line(&mut self, at: u64, kind: &str, mut fields: Value) {
        let record = fields.as_object_mut().unwrap();
        record.insert("at".to_owned(), json!(at * MS));
        record.insert("kind".to_owned(), json!(kind));
        self.lines.push(fields);
    }

    fn asked(&mut self, at: u64, client: &str, ask: u64, lock: &str, mode: &str) {
        let fields = json!({"client": client, "ask": ask, "lock": lock, "mode": mode});
        self.line(at, "asked", fields);
    }

    fn asked_permits(&mut self, at: u64, client: &str, ask: u64, permits: u64) {
        let fields = json!({"client": client, "ask": ask, "lock": "pool", "mode": "permits", "permits": permits, "limit": 4});
        self.line(at, "asked", fields);
    }

    /// The guard is good for five seconds.
    fn granted(&mut self, at: u64, client: &str, ask: u64, token: i64) {
        let fields =
            json!({"client": client, "ask": ask, "token": token, "until": (at + 5000) * MS});
        self.line(at, "granted", fields);
    }

    fn extended(&mut self, at: u64, client: &str, ask: u64) {
        let fields = json!({"client": client, "ask": ask, "until": (at + 5000) * MS});
        self.line(at, "extended", fields);
    }

    fn about(&mut self, at: u64, kind: &str, client: &str, ask: u64) {
        self.line(at, kind, json!({"client": client, "ask": ask}));
    }

    fn lost(&mut self, at: u64, client: &str, ask: u64) {
        let fields = json!({"client": client, "ask": ask, "why": "expired"});
        self.line(at, "lost", fields);
    }

    fn ended(&mut self, at: u64, client: &str, ask: u64) {
        let fields = json!({"client": client, "ask": ask, "outcome": "timed_out"});
        self.line(at, "ended", fields);
    }

    fn wrote(&mut self, at: u64, client: &str, lock: &str, token: i64, accepted: bool) {
        self.sequence += 1;
        let fields = json!({"client": client, "lock": lock, "token": token, "accepted": accepted, "sequence": self.sequence});
        self.line(at, "write", fields);
    }

    /// An acquire that is granted and released, from `begin` to `end`.
    fn cycle(&mut self, begin: u64, end: u64, client: &str, ask: u64, lock: &str, token: i64) {
        self.asked(begin, client, ask, lock, "exclusive");
        self.granted(begin + 1, client, ask, token);
        self.about(end, "releasing", client, ask);
        let fields = json!({"client": client, "ask": ask, "held": true});
        self.line(end + 1, "released", fields);
    }

    fn fault(&mut self, begin: u64, end: u64, effects: &Value) {
        let mut fields = json!({"fault": begin, "what": "a fault", "target": "something"});
        let record = fields.as_object_mut().unwrap();
        record.extend(effects.as_object().unwrap().clone());
        self.line(begin, "fault_began", fields);
        self.line(end, "fault_ended", json!({"fault": begin}));
    }

    fn watched(&mut self, at: u64, watcher: &str, event: &str, token: i64) {
        let fields = json!({"watcher": watcher, "lock": "x", "event": event, "token": token});
        self.line(at, "watched", fields);
    }

    fn left(&mut self, at: u64, keys: &[&str]) {
        self.line(at, "left", json!({"keys": keys}));
    }

    fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn check(&self) -> Verdict {
        let lines = parse("history", &self.text()).unwrap();
        let story = Story::tell(lines.clone()).unwrap();
        let verdict = check(&story, Limits::default());
        // Neither may fail, whatever the history is.
        report::summary(&lines, &story, &verdict);
        timeline::draw(&story, &verdict.violations);
        verdict
    }

    /// Checks it, and demands these kinds of violations.
    fn finds(mut self, expected: &[Kind]) -> Verdict {
        self.left(100_000, &[]);
        let verdict = self.check();
        let kinds: Vec<Kind> = verdict.violations.iter().map(|found| found.kind).collect();
        assert_eq!(kinds, expected, "{:?}", verdict.violations);
        verdict
    }
}

#[test]
fn a_clean_history_has_no_violation() {
    let mut history = History::default();
    let run = json!({"seed": 1, "store": "single", "minutes": 1.0});
    history.line(0, "run", run);
    // Three clients in order, the second one granted as soon as the first one begins to release.
    history.asked(10, "a", 1, "x", "exclusive");
    history.granted(11, "a", 1, 100);
    history.asked(1200, "b", 1, "x", "exclusive");
    history.asked(2500, "c", 1, "x", "exclusive");
    history.wrote(2600, "a", "x", 100, true);
    history.about(3000, "releasing", "a", 1);
    history.granted(3000, "b", 1, 101);
    history.wrote(3100, "b", "x", 101, true);
    history.wrote(3200, "a", "x", 100, false);
    // It is suspended and resumed, extended, and lost at its deadline.
    history.about(4000, "suspended", "b", 1);
    let resumed = json!({"client": "b", "ask": 1, "until": 9000 * MS});
    history.line(4500, "resumed", resumed);
    history.extended(5000, "b", 1);
    history.lost(10_000, "b", 1);
    history.fault(9000, 9500, &json!({"stops": ["b"]}));
    history.granted(10_050, "c", 1, 102);
    history.line(11_000, "killed", json!({"client": "c"}));
    history.cycle(11_001, 12_000, "d", 1, "x", 103);
    // Waits that end without a grant.
    history.asked(20_000, "d", 2, "x", "exclusive");
    history.granted(20_001, "d", 2, 110);
    history.asked(20_100, "e", 1, "x", "exclusive");
    history.ended(20_500, "e", 1);
    history.about(21_000, "releasing", "d", 2);
    // Shared holds together, and permits up to the limit.
    history.asked(30_000, "a", 2, "y", "shared");
    history.asked(30_000, "b", 2, "y", "shared");
    history.granted(30_001, "a", 2, 200);
    history.granted(30_001, "b", 2, 201);
    history.about(30_500, "releasing", "a", 2);
    history.about(30_600, "releasing", "b", 2);
    for (ask, permits, token) in [(3, 1, 300), (4, 3, 301)] {
        history.asked_permits(31_000, "a", ask, permits);
        history.granted(31_001, "a", ask, token);
        history.about(31_500, "releasing", "a", ask);
    }
    history.line(32_000, "finished", json!({"client": "a"}));
    let verdict = history.finds(&[]);
    assert!(verdict.excused.is_empty() && verdict.ordered_pairs > 0);
}

#[test]
fn two_holders_at_once_are_found() {
    for (first, second) in [
        ("exclusive", "exclusive"),
        ("exclusive", "shared"),
        ("shared", "exclusive"),
    ] {
        let mut history = History::default();
        history.asked(10, "a", 1, "x", first);
        history.asked(20, "b", 1, "x", second);
        history.granted(30, "a", 1, 1);
        history.granted(40, "b", 1, 2);
        history.about(41, "releasing", "a", 1);
        history.about(50, "releasing", "b", 1);
        let verdict = history.finds(&[Kind::Overlap]);
        let sentence = &verdict.violations[0].sentence;
        let names = [
            "\"x\"",
            "a (acquire 1, token 1)",
            "b (acquire 1, token 2)",
            "1000 µs",
            "0.040000 s",
        ];
        for name in names {
            assert!(sentence.contains(name), "{sentence}");
        }
    }
}

#[test]
fn a_hold_that_is_resumed_after_another_grant_is_found() {
    let mut history = History::default();
    history.asked(10, "a", 1, "x", "exclusive");
    history.granted(11, "a", 1, 1);
    history.about(1000, "suspended", "a", 1);
    history.cycle(1100, 3000, "b", 1, "x", 2);
    let resumed = json!({"client": "a", "ask": 1, "until": 9000 * MS});
    history.line(2000, "resumed", resumed);
    history.about(4000, "releasing", "a", 1);
    history.finds(&[Kind::Overlap]);
}

#[test]
fn a_hold_ends_at_its_deadline() {
    let mut history = History::default();
    history.asked(10, "a", 1, "x", "exclusive");
    history.granted(11, "a", 1, 1);
    history.cycle(5012, 6000, "b", 1, "x", 2);
    history.lost(5300, "a", 1);
    history.fault(2000, 3000, &json!({"disturbs": ["a"]}));
    history.finds(&[]);
}

#[test]
fn an_overlap_is_excused_by_lost_data_or_leases_alone_and_only_at_its_time() {
    let overlap = |history: &mut History| {
        history.cycle(1000, 4000, "a", 1, "x", 1);
        history.cycle(2000, 5000, "b", 1, "x", 2);
    };
    for (begin, end, effects, excused) in [
        (1500, 4000, json!({"loses_data": true}), true),
        (1500, 4000, json!({"cuts_leases": true}), true),
        (1500, 1600, json!({"cuts_leases": true}), false),
        // The holder of before was not told in time.
        (1500, 1600, json!({"loses_data": true}), false),
        (100, 200, json!({"loses_data": true}), false),
        (2500, 2600, json!({"loses_data": true}), false),
        (
            1500,
            1600,
            json!({"disturbs": ["*"], "stops": ["*"]}),
            false,
        ),
        // Not for so long.
        (1500, 2600, json!({"resets": ["*"]}), false),
    ] {
        let mut history = History::default();
        overlap(&mut history);
        history.fault(begin, end, &effects);
        let expected: &[Kind] = if excused { &[] } else { &[Kind::Overlap] };
        let verdict = history.finds(expected);
        assert_eq!(verdict.excused.len(), usize::from(excused));
    }
}

#[test]
fn a_moment_is_excused_by_a_reset_of_the_older_holder() {
    for (client, excused) in [("a", true), ("b", false), ("*", true)] {
        let mut history = History::default();
        history.cycle(1000, 2010, "a", 1, "x", 1);
        history.cycle(2000, 5000, "b", 1, "x", 2);
        history.fault(1999, 2000, &json!({"resets": [client]}));
        let expected: &[Kind] = if excused { &[] } else { &[Kind::Overlap] };
        history.finds(expected);
    }
}

#[test]
fn permits_above_the_limit_are_found() {
    let mut history = History::default();
    for (ask, permits, token) in [(1, 2, 1), (2, 2, 2), (3, 1, 3)] {
        history.asked_permits(10, "a", ask, permits);
        history.granted(10 + ask, "a", ask, token);
        history.about(100, "releasing", "a", ask);
    }
    let verdict = history.finds(&[Kind::Limit]);
    let sentence = &verdict.violations[0].sentence;
    assert!(sentence.starts_with("5 permits of \"pool\""), "{sentence}");
}

#[test]
fn a_token_that_does_not_rise_is_found() {
    for token in [99, 100] {
        let mut history = History::default();
        history.cycle(10, 20, "a", 1, "x", 100);
        history.cycle(30, 40, "b", 1, "x", token);
        // Lost data are no excuse.
        history.fault(25, 26, &json!({"loses_data": true, "disturbs": ["*"]}));
        history.finds(&[Kind::Token]);
    }
}

#[test]
fn tokens_of_other_locks_and_of_acquires_at_once_may_be_in_any_order() {
    let mut history = History::default();
    history.cycle(10, 20, "a", 1, "x", 100);
    history.cycle(30, 40, "b", 1, "y", 50);
    history.asked(50, "a", 2, "z", "shared");
    history.asked(51, "b", 2, "z", "shared");
    history.granted(52, "a", 2, 8);
    history.granted(53, "b", 2, 7);
    history.about(60, "releasing", "a", 2);
    history.about(60, "releasing", "b", 2);
    history.finds(&[]);
}

#[test]
fn an_old_write_that_was_accepted_is_found() {
    let mut history = History::default();
    history.cycle(10, 20, "a", 1, "x", 100);
    history.cycle(30, 40, "b", 1, "x", 101);
    history.wrote(35, "b", "x", 101, true);
    history.wrote(36, "a", "x", 100, true);
    history.finds(&[Kind::OldWrite]);
}

#[test]
fn a_write_that_was_refused_without_need_is_found() {
    let mut history = History::default();
    history.cycle(10, 20, "a", 1, "x", 100);
    history.wrote(15, "a", "x", 100, false);
    history.finds(&[Kind::RefusedWrite]);
}

#[test]
fn a_write_with_a_token_of_nobody_is_found() {
    let mut history = History::default();
    history.cycle(10, 20, "a", 1, "x", 100);
    history.wrote(15, "b", "x", 100, true);
    history.finds(&[Kind::StrangeWrite]);
}

#[test]
fn an_acquire_without_end_is_found() {
    let mut history = History::default();
    history.asked(10, "a", 1, "x", "exclusive");
    history.finds(&[Kind::Endless]);
}

#[test]
fn a_hold_without_end_is_found() {
    let mut history = History::default();
    history.asked(10, "a", 1, "x", "exclusive");
    history.granted(11, "a", 1, 1);
    history.finds(&[Kind::Forgotten]);
}

#[test]
fn a_waiter_that_was_overtaken_is_found() {
    // The one who was overtaken is granted later, times out later, or has no end.
    for end in ["granted", "ended", "killed"] {
        let mut history = History::default();
        history.cycle(10, 3000, "a", 1, "x", 1);
        history.asked(100, "b", 1, "x", "exclusive");
        history.asked(1200, "c", 1, "x", "exclusive");
        history.granted(3000, "c", 1, 2);
        history.about(5000, "releasing", "c", 1);
        match end {
            "granted" => {
                history.granted(5000, "b", 1, 3);
                history.about(5001, "releasing", "b", 1);
            }
            "ended" => history.ended(5000, "b", 1),
            _ => history.line(5000, "killed", json!({"client": "b"})),
        }
        let verdict = history.finds(&[Kind::Overtaken]);
        let sentence = &verdict.violations[0].sentence;
        assert!(sentence.starts_with("c (acquire 1"), "{sentence}");
    }
}

#[test]
fn a_waiter_that_a_fault_disturbed_may_be_overtaken() {
    for (client, excused) in [("b", true), ("c", false), ("*", true)] {
        let mut history = History::default();
        history.cycle(10, 3000, "a", 1, "x", 1);
        history.asked(100, "b", 1, "x", "exclusive");
        history.asked(1200, "c", 1, "x", "exclusive");
        history.granted(3000, "c", 1, 2);
        history.about(5000, "releasing", "c", 1);
        history.granted(5000, "b", 1, 3);
        history.about(5001, "releasing", "b", 1);
        history.fault(2000, 2100, &json!({"disturbs": [client]}));
        let expected: &[Kind] = if excused { &[] } else { &[Kind::Overtaken] };
        history.finds(expected);
    }
}

#[test]
fn queues_have_no_common_order() {
    for (queue, expected) in [("one", &[Kind::Overtaken][..]), ("another", &[][..])] {
        let mut history = History::default();
        history.cycle(10, 3000, "a", 1, "x", 1);
        for (at, client, queue) in [(100, "b", "one"), (1200, "c", queue)] {
            let fields = json!({"client": client, "ask": 1, "lock": "x", "mode": "exclusive", "queue": queue});
            history.line(at, "asked", fields);
        }
        history.granted(3000, "c", 1, 2);
        history.about(5000, "releasing", "c", 1);
        history.granted(5000, "b", 1, 3);
        history.about(5001, "releasing", "b", 1);
        history.finds(expected);
    }
}

#[test]
fn a_client_that_a_fault_disturbed_may_have_joined_another_queue() {
    for (queue, excused) in [("one", true), ("", false)] {
        let mut history = History::default();
        history.cycle(10, 3000, "a", 1, "x", 1);
        for (at, client) in [(100, "b"), (1200, "c")] {
            let fields = json!({"client": client, "ask": 1, "lock": "x", "mode": "exclusive", "queue": queue});
            history.line(at, "asked", fields);
        }
        history.granted(3000, "c", 1, 2);
        history.about(5000, "releasing", "c", 1);
        history.granted(5000, "b", 1, 3);
        history.about(5001, "releasing", "b", 1);
        history.fault(1100, 1300, &json!({"disturbs": ["c"]}));
        let expected: &[Kind] = if excused { &[] } else { &[Kind::Overtaken] };
        history.finds(expected);
    }
}

#[test]
fn a_loss_that_was_told_late_is_found() {
    for (stopped, expected) in [("a", &[][..]), ("b", &[Kind::ToldLate][..])] {
        let mut history = History::default();
        history.asked(10, "a", 1, "x", "exclusive");
        history.granted(11, "a", 1, 1);
        history.lost(6000, "a", 1);
        let effects = json!({"stops": [stopped], "disturbs": ["a"]});
        history.fault(4000, 5900, &effects);
        history.finds(expected);
    }
}

#[test]
fn a_hold_that_outlived_its_deadline_is_found() {
    let mut history = History::default();
    history.cycle(10, 6000, "a", 1, "x", 1);
    history.finds(&[Kind::ToldLate]);
}

#[test]
fn a_watcher_whose_events_contradict_each_other_is_found() {
    for events in [
        [("granted", 2), ("ended", 2), ("granted", 1)],
        [("granted", 2), ("granted", 2), ("ended", 2)],
        [("granted", 2), ("ended", 2), ("ended", 2)],
        [("ended", 3), ("granted", 3), ("granted", 4)],
    ] {
        let mut history = History::default();
        for (at, (event, token)) in (10..).zip(events) {
            history.watched(at, "a", event, token);
        }
        let lines = history.lines.clone();
        history.finds(&[Kind::Disordered]);
        let mut history = History { lines, sequence: 0 };
        history.fault(5, 20, &json!({"loses_data": true}));
        history.finds(&[]);
    }
}

#[test]
fn a_watcher_that_saw_the_end_of_a_hold_that_stood_is_found() {
    for (at, held, expected) in [
        (400, true, &[Kind::Disordered][..]),
        (400, false, &[][..]),
        (600, true, &[][..]),
    ] {
        let mut history = History::default();
        history.asked(10, "a", 1, "x", "exclusive");
        history.granted(11, "a", 1, 1);
        history.watched(12, "w", "granted", 1);
        history.watched(at, "w", "ended", 1);
        history.about(500, "releasing", "a", 1);
        let fields = json!({"client": "a", "ask": 1, "held": held});
        history.line(501, "released", fields);
        history.fault(5, 700, &json!({"loses_data": true}));
        let lines = history.lines.clone();
        history.finds(expected);
        // It was at a master that was replaced, and has left that.
        let mut history = History { lines, sequence: 0 };
        history.line(at + 10, "watch_gap", json!({"watcher": "w"}));
        history.finds(&[]);
    }
}

#[test]
fn a_release_that_was_sent_again_does_not_say_whether_the_hold_stood() {
    for (disturbed, expected) in [("a", &[][..]), ("b", &[Kind::Disordered][..])] {
        let mut history = History::default();
        history.asked(10, "a", 1, "x", "exclusive");
        history.granted(11, "a", 1, 1);
        history.watched(12, "w", "granted", 1);
        history.watched(400, "w", "ended", 1);
        history.about(1600, "releasing", "a", 1);
        let fields = json!({"client": "a", "ask": 1, "held": true});
        history.line(1700, "released", fields);
        history.fault(399, 401, &json!({"forces": true}));
        history.fault(300, 1650, &json!({"disturbs": [disturbed]}));
        history.finds(expected);
    }
}

#[test]
fn a_watcher_that_missed_a_release_is_found() {
    for (saw, held, expected) in [
        (false, true, &[Kind::Missed][..]),
        (false, false, &[]),
        (true, true, &[]),
    ] {
        let mut history = History::default();
        history.line(0, "watch_ready", json!({"watcher": "w"}));
        history.asked(20_000, "a", 1, "x", "exclusive");
        history.granted(20_001, "a", 1, 1);
        history.watched(20_002, "w", "granted", 1);
        history.about(20_500, "releasing", "a", 1);
        let fields = json!({"client": "a", "ask": 1, "held": held});
        history.line(20_501, "released", fields);
        if saw {
            history.watched(20_502, "w", "ended", 1);
        }
        history.finds(expected);
    }
}

#[test]
fn a_watcher_that_missed_an_event_is_found_unless_it_knows_of_a_gap() {
    for (ready, gap, expected) in [
        (true, None, &[Kind::Missed][..]),
        (true, Some(29_000), &[][..]),
        (false, None, &[][..]),
    ] {
        let mut history = History::default();
        for watcher in ["a", "b"] {
            if ready || watcher == "b" {
                history.line(10, "watch_ready", json!({"watcher": watcher}));
            }
            history.watched(20_000, watcher, "granted", 1);
        }
        history.watched(30_000, "b", "ended", 1);
        if let Some(at) = gap {
            history.line(at, "watch_gap", json!({"watcher": "a"}));
        }
        history.finds(expected);
    }
}

#[test]
fn keys_that_were_left_are_found() {
    let mut history = History::default();
    history.cycle(10, 20, "a", 1, "x", 1);
    history.left(30, &["lock:x"]);
    let verdict = history.check();
    assert_eq!(verdict.violations.len(), 1);
    assert_eq!(verdict.violations[0].kind, Kind::Left);
    assert!(verdict.violations[0].sentence.contains("lock:x"));
}

#[test]
fn a_history_that_does_not_say_what_was_left_is_no_clean_one() {
    let mut history = History::default();
    history.cycle(10, 20, "a", 1, "x", 1);
    let verdict = history.check();
    assert_eq!(verdict.violations.len(), 1);
    assert_eq!(verdict.violations[0].kind, Kind::Left);
}

#[test]
fn the_drawing_has_the_sentence_and_nothing_from_elsewhere() {
    let mut history = History::default();
    history.cycle(10, 100, "a<1>", 1, "x", 1);
    history.cycle(50, 80, "b", 1, "x", 2);
    history.fault(20, 30, &json!({"disturbs": ["*"]}));
    history.wrote(60, "b", "x", 2, true);
    let lines = parse("history", &history.text()).unwrap();
    let story = Story::tell(lines).unwrap();
    let verdict = check(&story, Limits::default());
    let page = timeline::draw(&story, &verdict.violations);
    assert!(page.contains("was held twice for 29000 µs") && page.contains("a fault something"));
    assert!(page.contains("a&lt;1&gt;") && !page.contains("a<1>"));
    assert!(!page.contains("src=") && !page.contains("href="));
}

#[test]
fn a_torn_last_line_is_dropped_and_any_other_refused() {
    let whole = "{\"at\":1,\"kind\":\"finished\",\"client\":\"a\"}\n";
    let lines = parse("history", &format!("{whole}{{\"at\":2,\"ki")).unwrap();
    assert_eq!(lines.len(), 1);
    let error = parse("history", &format!("{whole}{{\"at\":2,\"ki\n{whole}")).unwrap_err();
    assert!(error.to_string().starts_with("history:2: "), "{error}");
}

#[test]
fn a_contradictory_history_is_refused() {
    let mut history = History::default();
    history.granted(10, "a", 1, 1);
    let lines = parse("history", &history.text()).unwrap();
    let error = Story::tell(lines).unwrap_err();
    assert_eq!(error.to_string(), "a never asked as number 1");
}

#[test]
fn a_client_may_write_a_little_after_the_harness_said_that_it_kills_it() {
    let mut history = History::default();
    history.asked(10, "a", 1, "x", "exclusive");
    history.asked(10, "a", 2, "y", "exclusive");
    history.granted(11, "a", 2, 1);
    history.line(20, "killed", json!({"client": "a"}));
    history.granted(20, "a", 1, 2);
    history.wrote(20, "a", "x", 2, true);
    history.about(20, "releasing", "a", 2);
    history.asked(20, "a", 3, "z", "exclusive");
    history.cycle(21, 30, "b", 1, "x", 3);
    history.finds(&[]);
}

#[test]
fn a_run_that_was_broken_off_is_checked_up_to_there() {
    let mut history = History::default();
    history.asked(10, "a", 1, "x", "exclusive");
    history.granted(11, "a", 1, 100);
    history.asked(20, "b", 1, "x", "exclusive");
    history.line(500, "broken_off", json!({"why": "the harness panicked"}));
    // The processes end a little later, in any order.
    history.granted(501, "b", 1, 101);
    history.asked(502, "b", 2, "x", "exclusive");
    let verdict = history.check();
    assert!(verdict.violations.is_empty(), "{:?}", verdict.violations);

    let mut history = History::default();
    history.cycle(10, 400, "a", 1, "x", 100);
    history.cycle(20, 300, "b", 1, "x", 101);
    history.line(500, "broken_off", json!({"why": "the harness panicked"}));
    let kinds: Vec<Kind> = history
        .check()
        .violations
        .iter()
        .map(|found| found.kind)
        .collect();
    assert_eq!(kinds, [Kind::Overlap]);
}

#[test]
fn who_gets_no_processor_may_tell_late() {
    let late = &[Kind::ToldLate, Kind::Unexplained][..];
    for (process, expected) in [("a", &[][..]), ("harness", &[]), ("b", late)] {
        let mut history = History::default();
        history.asked(0, "a", 1, "x", "exclusive");
        history.granted(0, "a", 1, 100);
        let stalled = json!({"process": process, "since": 4900 * MS});
        history.line(6000, "stalled", stalled);
        history.lost(6010, "a", 1);
        history.finds(expected);
    }
}

#[test]
fn a_loss_or_a_refusal_without_a_fault_that_disturbed_the_client_is_found() {
    let refused =
        |client: &str, ask: u64| json!({"client": client, "ask": ask, "outcome": "refused"});
    for (effects, expected) in [
        (json!({"disturbs": ["a"]}), &[][..]),
        (json!({"disturbs": ["*"]}), &[]),
        (
            json!({"disturbs": ["b"]}),
            &[Kind::Unexplained, Kind::Unexplained],
        ),
        // A change of credentials that is done right.
        (json!({}), &[Kind::Unexplained, Kind::Unexplained]),
    ] {
        let mut history = History::default();
        history.fault(500, 1500, &effects);
        history.asked(10, "a", 1, "x", "exclusive");
        history.granted(11, "a", 1, 1);
        history.lost(2000, "a", 1);
        history.asked(2100, "a", 2, "x", "exclusive");
        history.line(2200, "ended", refused("a", 2));
        history.finds(expected);
    }
    // The fault was over for long.
    let mut history = History::default();
    history.fault(10, 20, &json!({"disturbs": ["*"]}));
    history.asked(14_000, "a", 1, "x", "exclusive");
    history.line(14_100, "ended", refused("a", 1));
    history.finds(&[Kind::Unexplained]);
}

#[test]
fn a_hold_without_rights_is_found() {
    let revoked = json!({"revokes": ["a"], "disturbs": ["a"]});
    for (granted, released, expected) in [
        (900, 6900, &[][..]),
        (900, 7100, &[Kind::WithoutRights]),
        (8000, 8100, &[Kind::WithoutRights]),
        (10_100, 10_200, &[]),
    ] {
        let mut history = History::default();
        history.fault(1000, 10_000, &revoked);
        history.cycle(800, 850, "b", 1, "x", 1);
        history.asked(granted, "a", 1, "x", "exclusive");
        history.granted(granted, "a", 1, 2);
        for at in (granted + 1000..released).step_by(1000) {
            history.extended(at, "a", 1);
        }
        history.about(released, "releasing", "a", 1);
        history.finds(expected);
    }
}

#[test]
fn a_holder_that_an_operator_deposed_is_told_within_a_moment() {
    let forced = json!({"forces": true, "disturbs": ["*"]});
    for (next, released, also, expected) in [
        (2000, 2500, None, &[][..]),
        (2000, 4000, None, &[Kind::Overlap]),
        (2000, 4000, Some("a"), &[]),
        (2000, 4000, Some("b"), &[Kind::Overlap]),
        // Nobody asked before the operator was done.
        (2300, 2500, None, &[]),
        (2300, 4000, None, &[Kind::Overlap]),
        (2300, 4000, Some("a"), &[]),
        (2300, 4000, Some("b"), &[Kind::Overlap]),
        (15_000, 15_500, None, &[Kind::Overlap]),
    ] {
        let mut history = History::default();
        history.fault(1900, 2100, &forced);
        history.asked(1000, "a", 1, "x", "exclusive");
        history.granted(1000, "a", 1, 1);
        for at in (2000..released).step_by(1000) {
            history.extended(at, "a", 1);
        }
        history.about(released, "releasing", "a", 1);
        history.cycle(next, released + 1000, "b", 1, "x", 2);
        if let Some(client) = also {
            history.fault(1950, 2200, &json!({"disturbs": [client]}));
        }
        history.finds(expected);
    }
}

#[test]
fn a_hold_that_outlasts_the_clients_connections_is_found() {
    for (released, also, expected) in [
        (2900, None, &[][..]),
        (3500, None, &[Kind::Disconnected]),
        (3500, Some("*"), &[]),
        (3500, Some("b"), &[Kind::Disconnected]),
    ] {
        let mut history = History::default();
        history.fault(
            2000,
            6000,
            &json!({"disconnects": ["a"], "disturbs": ["a"]}),
        );
        history.cycle(1000, released, "a", 1, "x", 1);
        if let Some(clients) = also {
            history.fault(3000, 3200, &json!({"disturbs": [clients]}));
        }
        history.finds(expected);
    }
}
