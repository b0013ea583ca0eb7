//! Drawing of violations: one self-contained HTML file with a timeline around each.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
};

use crate::{
    checks::Violation,
    history::{Mode, Write},
    story::{Acquire, End, HoldEnd, Span, Story},
};

/// Violations that are drawn; the page counts the others.
const DRAWN: usize = 20;
/// Time before and after a violation, in microseconds.
const AROUND: u64 = 3_000_000;
/// Width of the times, and of the names before them, in pixels.
const WIDTH: u64 = 1100;
const NAMES: u64 = 200;
/// Height of a row in pixels.
const ROW: usize = 18;

const STYLE: &str = "body{font:14px sans-serif;margin:2em;max-width:1340px}svg{background:#fafafa;border:1px solid #ccc}\
text{font:11px sans-serif}.wait{fill:#ccc}.exclusive{fill:#d33}.shared{fill:#38c}.permits{fill:#3a6}.fault{fill:#fb4}\
.write{stroke:#000}.refused{stroke:#c0f;stroke-width:2}.around{fill:#f002}.tick{stroke:#ddd}";

/// Returns the page.
pub fn draw(story: &Story, violations: &[Violation]) -> String {
    let mut page = String::new();
    // Writing to a string can't fail.
    let _ = write_page(&mut page, story, violations);
    page
}

fn write_page(page: &mut String, story: &Story, violations: &[Violation]) -> fmt::Result {
    let count = violations.len();
    write!(
        page,
        "<!doctype html><meta charset=utf-8><title>{count} violations</title><style>{STYLE}</style><h1>{count} violations</h1>\
         <p>Grey: waiting; red: held alone; blue: shared; green: permits; orange: faults; lines: writes (violet: refused). \
         Times are seconds of CLOCK_MONOTONIC. Point at a bar for its data.</p>"
    )?;
    for violation in violations.iter().take(DRAWN) {
        let kind = violation.kind;
        write!(
            page,
            "<h2>{kind:?}</h2><p>{}</p>",
            escape(&violation.sentence)
        )?;
        section(page, story, violation)?;
    }
    if count > DRAWN {
        write!(page, "<p>{} more are not drawn.</p>", count - DRAWN)?;
    }
    Ok(())
}

/// The part of the history that a drawing shows.
struct Window {
    span: Span,
}

impl Window {
    fn around(span: Span) -> Self {
        let span = Span::new(
            span.begin.saturating_sub(AROUND),
            span.end.saturating_add(AROUND),
        );
        Self { span }
    }

    fn x(&self, at: u64) -> u64 {
        let at = at.clamp(self.span.begin, self.span.end);
        NAMES + (at - self.span.begin) * WIDTH / (self.span.end - self.span.begin)
    }

    /// Draws a bar, if it is in the window.
    fn bar(
        &self,
        page: &mut String,
        class: &str,
        row: usize,
        span: Span,
        title: &str,
    ) -> fmt::Result {
        if !span.touches(self.span) {
            return Ok(());
        }
        let (x, y) = (self.x(span.begin), row * ROW + 3);
        let width = (self.x(span.end) - x).max(1);
        let height = ROW - 6;
        let title = escape(title);
        write!(
            page,
            "<rect class={class} x={x} y={y} width={width} height={height}><title>{title}</title></rect>"
        )
    }
}

fn section(page: &mut String, story: &Story, violation: &Violation) -> fmt::Result {
    let window = Window::around(violation.span);
    let shown = |acquire: &&Acquire| {
        let life = Span::new(acquire.asked, last(acquire, story.end));
        violation.lock.as_deref() == Some(&*acquire.lock) && life.touches(window.span)
    };
    let acquires: Vec<&Acquire> = story.acquires.iter().filter(shown).collect();
    let faults: Vec<_> = story
        .faults
        .iter()
        .filter(|fault| fault.span.touches(window.span))
        .collect();
    let clients: BTreeSet<&str> = acquires.iter().map(|acquire| &*acquire.client).collect();
    let clients: Vec<&str> = clients.into_iter().collect();
    let height = (faults.len() + clients.len() + 1) * ROW;
    write!(
        page,
        "<svg width={} height={height} xmlns=\"http://www.w3.org/2000/svg\">",
        NAMES + WIDTH
    )?;
    let x = window.x(violation.span.begin);
    let width = (window.x(violation.span.end) - x).max(2);
    write!(
        page,
        "<rect class=around x={x} y=0 width={width} height={height} />"
    )?;
    for tick in 0..=10 {
        let at = window.span.begin + (window.span.end - window.span.begin) * tick / 10;
        let (x, y) = (window.x(at), height - 4);
        let (whole, part) = (at / 1_000_000, at / 1000 % 1000);
        write!(
            page,
            "<line class=tick x1={x} x2={x} y1=0 y2={height} /><text x={x} y={y}>{whole}.{part:03}</text>"
        )?;
    }
    for (row, fault) in faults.iter().enumerate() {
        let name = format!("{} {}", fault.what, fault.target);
        label(page, row, &name)?;
        window.bar(page, "fault", row, fault.span, &name)?;
    }
    for (index, client) in clients.iter().enumerate() {
        let row = faults.len() + index;
        label(page, row, client)?;
        for acquire in acquires.iter().filter(|acquire| acquire.client == *client) {
            bars(page, &window, row, acquire, story.end)?;
        }
        let here = |(at, write): &&(u64, Write)| {
            write.client == *client
                && violation.lock.as_deref() == Some(&*write.lock)
                && (window.span.begin..=window.span.end).contains(at)
        };
        for (at, write) in story.writes.iter().filter(here) {
            let (x, y) = (window.x(*at), row * ROW);
            let class = if write.accepted { "write" } else { "refused" };
            write!(
                page,
                "<line class={class} x1={x} x2={x} y1={y} y2={}><title>token {}</title></line>",
                y + ROW,
                write.token
            )?;
        }
    }
    page.write_str("</svg>")
}

fn bars(
    page: &mut String,
    window: &Window,
    row: usize,
    acquire: &Acquire,
    end: u64,
) -> fmt::Result {
    let wait = Span::new(acquire.asked, acquire.end.at().min(end));
    let title = format!("acquire {} waits: {:?}", acquire.ask, acquire.end);
    window.bar(page, "wait", row, wait, &title)?;
    let Some(hold) = &acquire.hold else {
        return Ok(());
    };
    let class = match acquire.mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
        Mode::Permits => "permits",
    };
    for part in &hold.parts {
        let title = format!(
            "acquire {}, {}, {} permits, until {}, {:?}",
            acquire.ask,
            hold.token_name(),
            acquire.permits,
            hold.until,
            hold.end
        );
        window.bar(page, class, row, *part, &title)?;
    }
    Ok(())
}

fn label(page: &mut String, row: usize, name: &str) -> fmt::Result {
    let y = row * ROW + 13;
    write!(page, "<text x=4 y={y}>{}</text>", escape(name))
}

fn last(acquire: &Acquire, end: u64) -> u64 {
    match acquire.hold.as_ref().map(|hold| &hold.end) {
        Some(HoldEnd::Released(at) | HoldEnd::Lost(at, _) | HoldEnd::Killed(at)) => *at,
        Some(HoldEnd::None) => end,
        None => match acquire.end {
            End::None => end,
            other => other.at(),
        },
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
