//! History in which every promise is kept.

use serde_json::json;

use crate::history::{History, MS};

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
