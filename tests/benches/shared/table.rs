//! Tables in Markdown.

/// Returns a table, with the names of its columns as they stand between bars.
pub(crate) fn table<Row: AsRef<[String]>>(
    header: &str,
    rows: impl IntoIterator<Item = Row>,
) -> String {
    let columns = header.split('|').count();
    let mut lines = vec![
        format!("| {header} |"),
        format!("|{}", "---|".repeat(columns)),
    ];
    let rows = rows.into_iter();
    lines.extend(rows.map(|row| format!("| {} |", row.as_ref().join(" | "))));
    lines.join("\n")
}
