//! Targets, and whether they are met: the section of `docs/performance.md` that the benchmark writes.

use std::fmt::Write;

use crate::results::Results;

/// Returns the section.
pub(crate) fn text(results: &Results) -> String {
    let mut text =
        String::from("| row | work | figure | measured | target | |\n|---|---|---|---|---|---|\n");
    for row in &results.rows {
        for (place, check) in row.checks.iter().enumerate() {
            let (number, work) = match place {
                0 => (row.number, row.work.as_str()),
                _ => ("", ""),
            };
            // Writing to a string does not fail, here and below.
            let _ = writeln!(
                text,
                "| {number} | {work} | {} | {} | {}{} | {} |",
                check.what,
                check.shown(),
                check.limit,
                check.unit,
                check.verdict()
            );
        }
    }
    for row in &results.rows {
        let _ = writeln!(text, "\n### Row {}: {}\n", row.number, row.work);
        for (who, what) in &row.beside {
            let _ = writeln!(text, "- {who}: {what}");
        }
    }
    text
}
