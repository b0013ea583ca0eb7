//! Targets, and whether they are met: the section of `docs/performance.md` that the benchmark writes.

use std::fmt::Write;

use crate::{results::Results, shared::table::table};

/// Returns the section.
pub(crate) fn text(results: &Results) -> String {
    let lines = results.rows.iter().flat_map(|row| {
        row.checks.iter().enumerate().map(|(place, check)| {
            let (number, work) = match place {
                0 => (row.number.to_owned(), row.work.clone()),
                _ => Default::default(),
            };
            let limit = format!("{}{}", check.limit, check.unit);
            let verdict = check.verdict().to_owned();
            [
                number,
                work,
                check.what.clone(),
                check.shown(),
                limit,
                verdict,
            ]
        })
    });
    let header = "row | work | figure | measured | target | ";
    let mut text = table(header, lines) + "\n";
    for row in &results.rows {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n### Row {}: {}\n", row.number, row.work);
        for (who, what) in &row.beside {
            let _ = writeln!(text, "- {who}: {what}");
        }
    }
    text
}
