//! The manual page tells every environment variable, and the documentation no other.

use std::fs;

use super::super::settings::SETTINGS;

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../ops/debian/leasehold-server/leasehold-server.8"
);
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
const BEGIN: &str = ".SH ENVIRONMENT\n";
const END: &str = ".SH FILES\n";
/// Those of the client and its command line.
const OF_CLIENTS: [&str; 8] = [
    "LEASEHOLD_ENDPOINT",
    "LEASEHOLD_CA",
    "LEASEHOLD_CERT",
    "LEASEHOLD_KEY",
    "LEASEHOLD_SERVER_NAME",
    "LEASEHOLD_TOKEN",
    "LEASEHOLD_TOKEN_FILE",
    "LEASEHOLD_ALLOW_PLAINTEXT_TOKEN",
];
/// What is read beside the settings.
const OTHERS: [(&str, &str); 2] = [
    ("LEASEHOLD_CONFIG", "TOML file to read settings from."),
    (
        "OTEL_EXPORTER_OTLP_HEADERS",
        "Headers that the collector of traces wants, of which some are secrets.",
    ),
];

/// The part of the page, as the table of settings has it.
fn section() -> String {
    let intro = "One that is set to nothing counts as not set.\n";
    let settings = SETTINGS.iter().map(|setting| {
        let first = setting
            .help
            .split_inclusive(". ")
            .next()
            .unwrap_or_default();
        (setting.variable(), first.trim_end())
    });
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
    let known: Vec<String> = SETTINGS.iter().map(|setting| setting.variable()).collect();
    let is_known = |name: &str| {
        known.iter().any(|known| known == name)
            || OF_CLIENTS.contains(&name)
            || OTHERS.iter().any(|(other, _)| *other == name)
            // As in `LEASEHOLD_<SETTING>`.
            || name == "LEASEHOLD_"
    };
    let mut seen = 0;
    for entry in fs::read_dir(DOCS).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let words = text.split(|c: char| !c.is_ascii_uppercase() && c != '_');
        for name in words.filter(|word| word.starts_with("LEASEHOLD_")) {
            assert!(is_known(name), "{name} in {}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}
