//! Drawing of a violation as a page of its own.

use leasehold_checker::{Limits, Story, check, parse, timeline};
use serde_json::json;

use crate::history::History;

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
