//! Pictures of the model. Nothing here changes anything.

mod page;

use leasehold_client::{CoordinatorStatus, StoreState};
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::Line,
    widgets::{Block, Clear, Paragraph, Row, Table, Wrap},
};

use super::{
    input::{Now, Release, Target},
    model::Model,
};
use crate::show::{colour, text};

/// Head and width of a column.
type Column = (&'static str, Constraint);

const COORDINATORS: [Column; 7] = [
    ("COORDINATOR", Constraint::Fill(2)),
    ("VERSION", Constraint::Length(8)),
    ("UPTIME", Constraint::Length(7)),
    ("STATE", Constraint::Fill(3)),
    ("SESSIONS", Constraint::Length(8)),
    ("LOCKS", Constraint::Length(6)),
    ("WAITERS", Constraint::Length(7)),
];
const LOCKS: [Column; 6] = [
    ("NAME", Constraint::Fill(3)),
    ("MODE", Constraint::Length(9)),
    ("HOLDER", Constraint::Fill(2)),
    ("HELD FOR", Constraint::Length(8)),
    ("WAITERS", Constraint::Length(7)),
    ("GRANTS/S", Constraint::Length(8)),
];
const EVENTS: [Column; 4] = [
    ("TIME (UTC)", Constraint::Length(12)),
    ("EVENT", Constraint::Length(17)),
    ("NAME", Constraint::Fill(3)),
    ("CLIENT", Constraint::Fill(2)),
];
/// Width, in columns of the terminal, below which some of them are left out.
const NARROW: u16 = 60;

const KEYS: &str = "q quit  Enter open  s sort  / filter  ? help";
const PAGE_KEYS: &str = "Esc back  x end the chosen hold or wait  ? help  q quit";

const HELP: &str = "\
up, down, PgUp, PgDn, End   choose a lock
Home                        follow the first lock
Enter                       open the chosen lock
Esc                         go back; end the filter
x                           in an open lock: take it from the
                            chosen holder, or end the chosen wait
s                           sort: waiters, rate, time held, name
/                           filter by name and holder
q                           quit

Any key ends this help.";

/// Styles. Without colours, they tell apart by weight alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) coloured: bool,
}

impl Theme {
    pub(super) fn of_this_terminal() -> Self {
        Self {
            coloured: colour::is_on(),
        }
    }

    fn colour(self, colour: Color) -> Style {
        match self.coloured {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    fn head(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn alarm(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn busy(self) -> Style {
        self.colour(Color::Yellow)
    }
}

/// Draws the whole screen.
pub(super) fn draw(model: &Model, theme: Theme, now: Now, frame: &mut Frame<'_>) {
    let coordinators = model.coordinators.as_ref().map_or(1, Vec::len);
    let height = frame.area().height;
    let [title, above, middle, below, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1 + (coordinators as u16).min(height / 6).max(1)),
        Constraint::Min(3),
        Constraint::Length(1 + (height / 5).max(2)),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(summary(model, theme), title);
    draw_coordinators(model, theme, frame, above);
    match &model.page {
        None => draw_locks(model, theme, now, frame, middle),
        Some(page) => page::draw_page(page, theme, now, frame, middle),
    }
    draw_events(model, theme, frame, below);
    frame.render_widget(last_line(model, theme), foot);
    if let Some(release) = model.page.as_ref().and_then(|page| page.question.as_ref()) {
        pop_up(
            " Release by force ",
            &question(release),
            theme.alarm(),
            frame,
        );
    } else if model.help {
        pop_up(" Keys ", HELP, theme.head(), frame);
    }
}

fn summary(model: &Model, theme: Theme) -> Line<'static> {
    if let Some(why) = &model.interruption {
        let why = text::escaped(why);
        return Line::styled(format!("Not up to date: {why}"), theme.alarm());
    }
    if !model.ready {
        let known = model.rows.len();
        return Line::styled(format!("Reading the locks: {known} so far"), theme.head());
    }
    let totals = model.totals;
    let bound = match model.locks.is_incomplete() {
        true => "; too many to show them all: name a prefix",
        false => "",
    };
    let text = format!(
        "{} held, {} waiting, {:.1} grants/s{bound}",
        totals.held, totals.waiters, totals.rate
    );
    Line::styled(text, theme.head())
}

fn draw_coordinators(model: &Model, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let Some(coordinators) = &model.coordinators else {
        return frame.render_widget(Line::styled("Asking the coordinators", theme.head()), area);
    };
    let rows = coordinators.iter().map(|row| coordinator(row, theme));
    frame.render_widget(table(rows, COORDINATORS, theme), area);
}

fn coordinator(row: &CoordinatorStatus, theme: Theme) -> Row<'static> {
    let count = |count: Option<u64>| count.map_or("-".into(), |count| count.to_string());
    match &row.status {
        Err(failure) => {
            let address = row.address.map(|address| address.to_string());
            let address = address.unwrap_or_else(|| row.endpoint.clone());
            let why = text::escaped(failure.to_string());
            let cells = [address, "-".into(), "-".into(), format!("no answer: {why}")];
            Row::new(cells).style(theme.alarm())
        }
        Ok(status) => {
            let reason = text::escaped(status.reason.as_deref().unwrap_or_default());
            let (state, style) = match (status.serving, status.store_state) {
                (false, _) => (format!("not serving: {reason}"), theme.alarm()),
                (true, Some(StoreState::Down)) => ("store down".to_owned(), theme.alarm()),
                (true, Some(StoreState::Up)) => ("serving, store up".to_owned(), Style::new()),
                (true, _) => ("serving".to_owned(), Style::new()),
            };
            Row::new([
                text::escaped(&status.coordinator),
                text::escaped(&status.version),
                text::or_dash(status.uptime),
                state,
                count(status.session_count),
                count(status.hold_count),
                count(status.waiter_count),
            ])
            .style(style)
        }
    }
}

/// Returns the rows of a table in this area, each with its index, so that the chosen one is in the middle, as far as there are
/// rows.
fn in_sight<T>(
    rows: impl ExactSizeIterator<Item = T>,
    chosen: usize,
    area: Rect,
) -> impl Iterator<Item = (usize, T)> {
    // Its head has a line.
    let height = usize::from(area.height).saturating_sub(1);
    let last = rows.len().saturating_sub(height);
    let first = chosen.saturating_sub(height / 2).min(last);
    rows.enumerate().skip(first).take(height)
}

fn draw_locks(model: &Model, theme: Theme, now: Now, frame: &mut Frame<'_>, area: Rect) {
    if model.rows.is_empty() {
        let text = match (model.filter.is_empty(), model.ready) {
            (true, false) => "",
            (true, true) => "No locks are held.",
            (false, _) => "No lock's name or holder contains this text.",
        };
        return frame.render_widget(Paragraph::new(text), area);
    }
    let shown = in_sight(model.rows.iter(), model.at, area);
    // A name that can't be read is worth less than what is left out.
    let columns: &[usize] = match area.width < NARROW {
        true => &[0, 2, 4],
        false => &[0, 1, 2, 3, 4, 5],
    };
    let rows = shown.map(|(at, name)| {
        let lock = model.locks.get(name).cloned().unwrap_or_default();
        let holder = match (&lock.holder, lock.holders) {
            (Some(one), 0 | 1) => one.clone(),
            (Some(one), several) => format!("{one} and {} more", several - 1),
            (None, 0) if lock.is_closed(now.instant) => "(closed)".to_owned(),
            (None, 0) => "-".to_owned(),
            (None, holders) => format!("{holders} holders"),
        };
        let style = match (at == model.at, lock.waiters) {
            (true, _) => theme.chosen(),
            (false, 0) => Style::new(),
            (false, _) => theme.busy(),
        };
        let cells = [
            text::escaped(name.as_bytes()),
            lock.mode.map_or("-".into(), |mode| mode.to_string()),
            holder,
            text::or_dash(text::age(lock.since, now.wall)),
            format!("{:>7}", lock.waiters),
            format!("{:>8.1}", lock.rate.at(now.instant)),
        ];
        Row::new(columns.iter().map(|&column| cells[column].clone())).style(style)
    });
    let columns = columns.iter().map(|&column| LOCKS[column]);
    frame.render_widget(table(rows, columns, theme), area);
}

fn draw_events(model: &Model, theme: Theme, frame: &mut Frame<'_>, area: Rect) {
    let rows = model.events.iter().take(area.height.into());
    let rows = rows.map(|[time, kind, name, _, who]| {
        // The day is today's.
        let time = time
            .rsplit('T')
            .next()
            .unwrap_or(time)
            .trim_end_matches('Z');
        let style = match &**kind {
            "lost" | "expired" | "forced" | "gap" => theme.alarm(),
            _ => Style::new(),
        };
        Row::new([time, kind, name, who]).style(style)
    });
    frame.render_widget(table(rows, EVENTS, theme), area);
}

/// Returns a table with a head.
fn table<'a>(
    rows: impl IntoIterator<Item = Row<'a>>,
    columns: impl IntoIterator<Item = Column>,
    theme: Theme,
) -> Table<'a> {
    let (head, widths): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    Table::new(rows, widths).header(Row::new(head).style(theme.head()))
}

fn last_line(model: &Model, theme: Theme) -> Line<'static> {
    if let Some(notice) = &model.notice {
        return Line::styled(notice.clone(), theme.busy());
    }
    if model.typing {
        return Line::raw(format!("Filter: {}_", text::escaped(&model.filter)));
    }
    if model.page.is_some() {
        return Line::raw(PAGE_KEYS);
    }
    let filter = match model.filter.is_empty() {
        true => String::new(),
        false => format!("  filter: {}", text::escaped(&model.filter)),
    };
    Line::raw(format!("{KEYS}  sorted by {}{filter}", model.sort.word()))
}

/// Returns the question before a release, which names the client.
fn question(release: &Release) -> String {
    let Release { name, target, who } = release;
    let name = text::escaped(name);
    match target {
        Target::Waiter(_) => {
            format!(
                "End the wait of {who} for {name}? It fails to acquire the lock.\n\ny: yes, any other key: no"
            )
        }
        Target::Holder(_) | Target::All => format!(
            "Take {name} from {who}? It may go on working for a moment: only a resource that checks fencing tokens is safe \
             from it.\n\ny: yes, any other key: no"
        ),
    }
}

fn pop_up(title: &str, words: &str, style: Style, frame: &mut Frame<'_>) {
    let whole = frame.area();
    let width = whole.width.min(70);
    let inner = usize::from(width.saturating_sub(2)).max(1);
    // Words that are wrapped take a little more than their letters.
    let lines = words
        .lines()
        .map(|line| line.chars().count() * 9 / 8 / inner + 1);
    let height = (lines.sum::<usize>() as u16 + 2).min(whole.height);
    let area = Rect {
        x: (whole.width - width) / 2,
        y: (whole.height - height) / 2,
        width,
        height,
    };
    let block = Block::bordered()
        .title(title.to_owned())
        .border_style(style);
    let text = Paragraph::new(words)
        .wrap(Wrap { trim: false })
        .block(block);
    frame.render_widget(Clear, area);
    frame.render_widget(text, area);
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests;
