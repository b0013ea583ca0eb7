//! Environment variables in the manual page and the documentation: the page has all, and the documentation has no unknown one.

use std::{ffi::OsString, fs};

use super::super::{settings::SETTINGS, unknown_variables};

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../ops/debian/leasehold-server/leasehold-server.8"
);
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
const BEGIN: &str = ".SH ENVIRONMENT\n";
const END: &str = ".SH FILES\n";
/// Variables other than those of settings.
const OTHERS: [(&str, &str); 2] = [
    ("LEASEHOLD_CONFIG", "TOML file to read settings from."),
    (
        "OTEL_EXPORTER_OTLP_HEADERS",
        "Headers for the collector of traces, some of which may be secrets.",
    ),
];

/// Returns the section of the page, made from the table of settings.
fn section() -> String {
    let intro = "An empty variable counts as not set.\n\
        The log and \\fBcheck\\-config\\fR warn of variables that begin with LEASEHOLD_ and are no settings.\n";
    let settings = SETTINGS
        .iter()
        .map(|setting| (setting.variable(), setting.summary()));
    let others = OTHERS.map(|(name, what)| (name.to_owned(), what));
    let entries = others.into_iter().chain(settings);
    let entries = entries.map(|(name, what)| {
        let what = what.replace('\\', "\\\\").replace('-', "\\-");
        format!(".TP\n.B {name}\n{what}\n")
    });
    format!("{BEGIN}{intro}{}", entries.collect::<String>())
}

/// `UPDATE_REFERENCE=1 cargo test -p leasehold-server manual` writes it anew after a change to the settings.
#[test]
fn the_manual_page_tells_every_environment_variable() {
    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{}{END}{after}", section());
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        fs::write(PAGE, &expected).unwrap();
        return;
    }
    // Line by line: the whole of it would be pages.
    for (line, expected) in page.lines().zip(expected.lines()) {
        assert_eq!(line, expected, "UPDATE_REFERENCE=1 writes it anew");
    }
    assert_eq!(page.len(), expected.len());
}

#[test]
fn the_documentation_names_no_variable_that_there_is_not() {
    // The coordinator would warn of any other. `LEASEHOLD_` alone stands for all of them.
    let is_known =
        |name: &str| name == "LEASEHOLD_" || unknown_variables([OsString::from(name)]).is_empty();
    let mut seen = 0;
    for entry in fs::read_dir(DOCS).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let words =
            text.split(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_');
        for name in words.filter(|word| word.starts_with("LEASEHOLD_")) {
            assert!(is_known(name), "{name} in {}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}
