//! Table of libraries and scenarios in `docs/conformance.md`. A run compares the cells that it has results for; with
//! `LEASEHOLD_WRITE_TABLE=1`, it writes them.

use std::{collections::HashMap, path::Path};

use crate::{library::LIBRARIES, scenarios::SCENARIOS};

/// Result of a scenario with a library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cell {
    Passes,
    /// The driver lacks a capability that the scenario needs.
    NotOffered,
}

impl Cell {
    fn as_str(self) -> &'static str {
        match self {
            Self::Passes => "passes",
            Self::NotOffered => "–",
        }
    }
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/conformance.md");
const BEGIN: &str = "<!-- The table is written by the suite `clients`. -->\n";

/// Compares the table with results, by library and number of the scenario. Returns whether it says the same.
pub(crate) fn check(results: &HashMap<(usize, u8), Cell>) -> bool {
    let page = std::fs::read_to_string(PAGE).expect("docs/conformance.md is there");
    let (before, rest) = page
        .split_once(BEGIN)
        .expect("the page has a mark before its table");
    let (table, after) = match rest.split_once("\n\n") {
        Some((table, after)) => (table, format!("\n{after}")),
        None => (rest.trim_end(), String::new()),
    };
    let renewed = renewed(table, results);
    if renewed == table {
        return true;
    }
    if std::env::var_os("LEASEHOLD_WRITE_TABLE").is_some() {
        let page = format!("{before}{BEGIN}{renewed}\n{after}");
        std::fs::write(Path::new(PAGE), page).expect("docs/conformance.md can be written");
        return true;
    }
    println!(
        "docs/conformance.md has another table; LEASEHOLD_WRITE_TABLE=1 writes this one:\n{renewed}"
    );
    false
}

/// Returns the table with the cells of these results, and all others as they were.
fn renewed(table: &str, results: &HashMap<(usize, u8), Cell>) -> String {
    let titles: Vec<&str> = table.lines().next().map(cells).unwrap_or_default();
    let old = |library: usize, number: u8| {
        let column = titles
            .iter()
            .position(|title| *title == LIBRARIES[library].title)?;
        let number = number.to_string();
        let mut rows = table.lines().map(cells);
        let row = rows.find(|row| row.first() == Some(&&*number))?;
        row.get(column).copied()
    };
    let mut lines = vec![
        "| | scenario | back end |".to_owned(),
        "|---|---|---|".to_owned(),
    ];
    for library in LIBRARIES {
        lines[0] += &format!(" {} |", library.title);
        lines[1] += "---|";
    }
    for scenario in SCENARIOS {
        let number = scenario.number;
        let mut line = format!(
            "| {number} | {} | {} |",
            scenario.title,
            scenario.back_end.as_str()
        );
        for library in 0..LIBRARIES.len() {
            let new = results.get(&(library, number)).map(|cell| cell.as_str());
            let cell = new.or_else(|| old(library, number)).unwrap_or("not run");
            line += &format!(" {cell} |");
        }
        lines.push(line);
    }
    lines.join("\n")
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}
