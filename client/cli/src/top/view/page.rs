//! Picture of an open lock: its holders and its queue.

use leasehold_client::{Holder, LockMode, LockView, Waiter};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::{Paragraph, Row, Wrap},
};

use super::{Column, Theme, in_sight, table};
use crate::{
    show::text,
    top::{input::Now, lock_page::LockPage},
};

const HOLDERS: [Column; 6] = [
    ("HOLDER", Constraint::Fill(3)),
    ("TOKEN", Constraint::Length(17)),
    ("HELD FOR", Constraint::Length(8)),
    ("TTL LEFT", Constraint::Length(10)),
    ("COORDINATOR", Constraint::Fill(2)),
    ("SESSION", Constraint::Fill(2)),
];
const WAITERS: [Column; 6] = [
    ("PLACE", Constraint::Length(5)),
    ("WAITER", Constraint::Fill(3)),
    ("WANTS", Constraint::Length(9)),
    ("WAITING", Constraint::Length(8)),
    ("COORDINATOR", Constraint::Fill(2)),
    ("SESSION", Constraint::Fill(2)),
];

pub(super) fn draw_page(
    page: &LockPage,
    theme: Theme,
    now: Now,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let name = text::escaped(&page.name);
    let lock = match &page.view {
        None => return frame.render_widget(Paragraph::new(format!("Lock {name}")), area),
        Some(Err(why)) => {
            let text = format!("Lock {name} could not be looked at: {}", text::escaped(why));
            let text = Paragraph::new(text).style(theme.alarm());
            return frame.render_widget(text.wrap(Wrap { trim: false }), area);
        }
        Some(Ok(lock)) => lock,
    };
    let room = area.height.saturating_sub(1);
    let holders = (lock.holders.len() as u16 + 1).min((room / 2).max(2));
    let [title, above, below] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(holders),
        Constraint::Min(0),
    ])
    .areas(area);
    frame.render_widget(Line::styled(about(lock), theme.head()), title);
    draw_holders(page, lock, theme, now, frame, above);
    draw_waiters(page, lock, theme, now, frame, below);
}

fn about(lock: &LockView) -> String {
    let name = text::escaped(&lock.name);
    let token = text::token(lock.fencing_token);
    let state = match (lock.mode, lock.holders.is_empty()) {
        (_, true) => match lock.closed_for {
            Some(left) => format!("closed for {}", text::duration(left)),
            None => "free".to_owned(),
        },
        (Some(LockMode::Semaphore), false) => {
            let limit = lock.limit.unwrap_or_default();
            format!("{} of {limit} permits taken", lock.permits_taken)
        }
        (mode, false) => mode.map_or("held".into(), |mode| mode.to_string()),
    };
    format!(
        "Lock {name}: {state}, {} holding, {} waiting, newest token {token}",
        lock.holder_count, lock.waiter_count
    )
}

fn draw_holders(
    page: &LockPage,
    lock: &LockView,
    theme: Theme,
    now: Now,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let row = |holder: &Holder| {
        [
            text::holder(holder),
            text::token(holder.fencing_token),
            text::or_dash(text::age(holder.acquired_at, now.wall)),
            holder.ttl.map_or("never ends".into(), text::duration),
            text::escaped(&holder.coordinator),
            text::escaped(&holder.session_id),
        ]
    };
    let rows = lock.holders.iter().map(row);
    parties(rows, page.holder(), HOLDERS, theme, frame, area);
}

fn draw_waiters(
    page: &LockPage,
    lock: &LockView,
    theme: Theme,
    now: Now,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let row = |waiter: &Waiter| {
        [
            waiter.position.to_string(),
            text::waiter(waiter),
            waiter.mode.map_or("-".into(), |mode| mode.to_string()),
            text::or_dash(text::age(waiter.waiting_since, now.wall)),
            text::escaped(&waiter.coordinator),
            text::escaped(&waiter.session_id),
        ]
    };
    let rows = lock.waiters.iter().map(row);
    parties(rows, page.waiter(), WAITERS, theme, frame, area);
}

/// Draws holders or waiters, with the chosen one among them in sight.
fn parties<const N: usize>(
    rows: impl ExactSizeIterator<Item = [String; N]>,
    chosen: Option<usize>,
    columns: [Column; N],
    theme: Theme,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let rows =
        in_sight(rows, chosen.unwrap_or(0), area).map(|(at, cells)| match chosen == Some(at) {
            true => Row::new(cells).style(theme.chosen()),
            false => Row::new(cells),
        });
    frame.render_widget(table(rows, columns, theme), area);
}
