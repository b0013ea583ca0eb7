//! Tests of the pictures, without a terminal.

use std::time::Duration;

use crossterm::event::KeyCode;
use leasehold_client::LockWatchEvent;
use ratatui::{Terminal, backend::TestBackend};

use super::*;
use crate::top::{
    input::{Input, made},
    locks::Sort,
};

/// Returns what a screen of this size shows.
fn picture(model: &mut Model, width: u16, height: u16, coloured: bool) -> TestBackend {
    let now = made::now();
    model.arrange(now);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw(model, Theme { coloured }, now, frame))
        .unwrap();
    terminal.backend().clone()
}

fn lines(backend: &TestBackend) -> Vec<String> {
    let width = usize::from(backend.buffer().area.width);
    let cells = backend.buffer().content();
    let rows = cells.chunks(width);
    let row = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect();
    rows.map(row).collect()
}

fn model(locks: usize) -> Model {
    let mut model = Model::new(Sort::Waiters);
    let now = made::now();
    for number in 0..locks {
        let since = now.wall - Duration::from_secs(90);
        let view = made::held(&format!("orders/{number}"), "worker", since, number as u64);
        model.update(now, Input::Watched(LockWatchEvent::Lock(view)));
    }
    model.update(now, Input::Watched(LockWatchEvent::Ready));
    model
}

#[test]
fn the_hottest_locks_are_shown_at_any_size() {
    for (width, height) in [(80, 24), (200, 60), (40, 10)] {
        let mut model = model(10_000);
        let shown = lines(&picture(&mut model, width, height, true)).join("\n");
        assert!(shown.contains("10000 held"), "{shown}");
        assert!(shown.contains("orders/9999"), "{shown}");
        assert!(!shown.contains("orders/0 "), "{shown}");
        model.update(made::now(), Input::Key(KeyCode::End));
        let shown = lines(&picture(&mut model, width, height, true)).join("\n");
        assert!(shown.contains("orders/0 "), "{shown}");
    }
    // However small, it does not fail.
    for size in [(1, 1), (10, 3), (3, 40)] {
        picture(&mut model(3), size.0, size.1, true);
    }
}

#[test]
fn the_first_rows_at_80_by_24() {
    let shown = lines(&picture(&mut model(2), 80, 24, true));
    let totals = "2 held, 1 waiting, 0.0 grants/s ";
    assert!(shown[0].starts_with(totals), "{shown:?}");
    let mut rows = shown.iter();
    let row = rows.find(|row| row.starts_with("orders/1 ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    let expected = ["orders/1", "exclusive", "worker", "1m", "30s", "1", "0.0"];
    assert_eq!(cells, expected);
}

#[test]
fn the_question_names_the_holder() {
    let mut model = model(1);
    let now = made::now();
    model.arrange(now);
    model.update(now, Input::Key(KeyCode::Enter));
    let view = made::held("orders/0", "cron on host 7", now.wall, 0);
    model.update(now, Input::Looked("orders/0".into(), Ok(view)));
    let shown = lines(&picture(&mut model, 80, 24, true)).join("\n");
    let head = "Lock orders/0: exclusive, 1 holding";
    assert!(shown.contains(head), "{shown}");
    model.update(now, Input::Key(KeyCode::Char('x')));
    for (width, height) in [(80, 24), (40, 20)] {
        let shown = lines(&picture(&mut model, width, height, true)).join("\n");
        let question = "Take orders/0 from cron on host 7?";
        assert!(shown.contains(question), "{shown}");
        assert!(shown.contains("y: yes"), "{shown}");
    }
}

#[test]
fn without_colours_there_are_none() {
    let mut model = model(3);
    let is_coloured = |model: &mut Model, coloured| {
        let picture = picture(model, 80, 24, coloured);
        let mut cells = picture.buffer().content().iter();
        cells.any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(is_coloured(&mut model, true));
    assert!(!is_coloured(&mut model, false));
}
