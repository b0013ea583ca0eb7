//! Comparison of the README with other systems: each cell has its source in `docs/comparison.md`.

/// Returns the rows of the first table whose header begins with `header`: a name and its cells.
fn table<'a>(text: &'a str, header: &str) -> Vec<Vec<&'a str>> {
    let rows = text.lines().skip_while(|line| !line.starts_with(header));
    rows.take_while(|line| line.starts_with('|'))
        .filter(|line| !line.starts_with("|---"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
}

#[test]
fn every_cell_of_the_comparison_has_its_source() {
    let readme = include_str!("../../../README.md");
    let sources = include_str!("../../../docs/comparison.md");
    let compared = table(sources, "| | Leasehold |");
    // The README has some of the rows.
    let shown = table(readme, "| | Leasehold |");
    assert!(shown.len() > 5, "{shown:?}");
    for row in &shown {
        assert!(compared.contains(row), "docs/comparison.md has no {row:?}");
    }
    let (header, rows) = compared.split_first().unwrap();
    assert!(header.len() > 6 && rows.len() > 10, "{compared:?}");
    for (column, system) in header.iter().enumerate().skip(1) {
        let heading = format!("\n## {system}\n");
        let (_, section) = sources.split_once(&heading).expect(system);
        let listed = table(section, "| row |");
        for row in rows {
            let [what, cell] = [row[0], row[column]];
            let source = listed.iter().find(|listed| listed[0] == what);
            let source = source.unwrap_or_else(|| panic!("{system}: {what}: no source"));
            assert_eq!(source[1], cell, "{system}: {what}");
            assert!(!source[2].is_empty(), "{system}: {what}: no source");
        }
    }
}
