//! `docs/benchmarks.md`: results beside others first, then the conditions and the method.

use std::fmt::Write;

use crate::{
    figures::Comparison,
    results::{LATENCY, Results},
    rows::Bench,
    shared::{machine, parts::Failure, table::table},
};

const INTRODUCTION: &str = include_str!("introduction.md");

const METHOD: &str = include_str!("method.md");

/// Returns the page.
pub(crate) fn text(results: &Results, bench: &Bench, failures: &[Failure]) -> String {
    let mut page = INTRODUCTION.to_owned();
    if results.quick {
        page += "\n**This is a quick run, which only checks that everything works. Its figures say nothing.**\n";
    }
    if !failures.is_empty() {
        page += "\n**Not measured, since these parts failed:**\n\n";
        list(
            &mut page,
            failures
                .iter()
                .map(|Failure { part, reason }| format!("{part}: {reason}")),
        );
    }
    page += "\n## Beside others\n\n";
    let header = " | Leasehold | etcd | rslock | polling every 50 ms";
    let compared = results.rows.iter().flat_map(|row| &row.compared);
    page += &table(header, compared.map(Comparison::cells));
    page += "\n";
    if !bench.distributions.is_empty() {
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "\n![Shares of cycles and hand-offs by how long they took]({LATENCY})"
        );
    }
    page += "\n### What it means\n\n";
    let meanings = results.rows.iter().filter_map(|row| row.meaning.as_ref());
    list(
        &mut page,
        meanings.map(|(topic, sentence)| format!("**{topic}.** {sentence}")),
    );
    page += "\n## Conditions\n\n";
    let facts = machine::look(&bench.peers.versions).into_iter();
    list(
        &mut page,
        facts.map(|(name, fact)| format!("{name}: {fact}")),
    );
    list(&mut page, bench.peers.settings.iter());
    page + "\n" + METHOD
}

fn list(text: &mut String, items: impl Iterator<Item: std::fmt::Display>) {
    for item in items {
        let _ = writeln!(text, "- {item}");
    }
}
