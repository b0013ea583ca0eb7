//! Settings in the manual page and the documentation: the page has all, and the documentation has no unknown variable.

use super::*;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");

#[test]
fn the_manual_page_has_every_setting_and_command() {
    let page = super::printed(&["manual"], &[]).replace("\\-", "-");
    for setting in SETTINGS {
        let option = format!("--{}", setting.name);
        assert!(page.contains(&option), "{option}");
        assert!(page.contains(&setting.variable()), "{option}");
    }
    let help = super::printed(&["--help"], &[]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| {
        line.strip_prefix("  ")?
            .split(' ')
            .find(|name| !name.is_empty() && line.as_bytes()[2] != b' ')
    });
    let mut seen = 0;
    for name in names.filter(|name| *name != "help") {
        assert!(page.contains(&format!(".TP\n\\fB{name}\\fR\n")), "{name}");
        seen += 1;
    }
    assert!(seen > 3, "{seen} in {help}");
    assert!(!page.contains("for packages"), "{page}");
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
