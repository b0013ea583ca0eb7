//! Table of the page.

const PAGE: &str = include_str!("../../../docs/operations.md");

/// Row of the table.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) finding: &'static str,
    /// Beginnings of Redis's answers.
    pub(super) answers: Vec<&'static str>,
    pub(super) is_ready: bool,
    /// The reason with which new locks are refused.
    pub(super) reason: &'static str,
    pub(super) holds_are_kept: bool,
    pub(super) remedy: &'static str,
}

/// Returns all rows.
pub(super) fn rows() -> Vec<Row> {
    let (_, section) = PAGE.split_once("\n## When Redis refuses\n").unwrap();
    let (section, _) = section.split_once("\n# ").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| [`"));
    rows.map(row).collect()
}

fn row(line: &'static str) -> Row {
    let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [finding, answer, ready, reason, held, remedy] = cells[..] else {
        panic!("{line}");
    };
    Row {
        finding: finding.split('`').nth(1).unwrap(),
        answers: answer.split('`').skip(1).step_by(2).collect(),
        is_ready: match ready {
            "ready" => true,
            "not ready" => false,
            _ => panic!("{line}"),
        },
        reason: reason.trim_matches('`'),
        holds_are_kept: held.starts_with("are kept"),
        remedy,
    }
}
