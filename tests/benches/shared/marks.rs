//! Marks between which a benchmark writes into a page that people write.

use anyhow::Context;

const END: &str = "<!-- to here. -->\n";

/// Returns `page` with `section` in place of what is after the line `<!-- Written by WRITER from here -->` and before the end.
///
/// # Errors
///
/// If it has no such marks.
pub(crate) fn put(page: &str, writer: &str, section: &str) -> anyhow::Result<String> {
    let begin = format!("<!-- Written by {writer} from here -->\n");
    let parts = page.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.with_context(|| format!("the page has no mark {begin}"))?;
    Ok(format!("{before}{begin}\n{section}\n{END}{after}"))
}
