//! Reference file: made from the table of settings, and read back.

use super::*;

/// The tables of permissions, which follow the settings.
const PERMISSION: &str = r#"
# Permissions of callers, once callers must show an identity (token-file, jwt-keys, tls-client-ca). Whatever no table permits
# is denied. A `*` at the end of an identity matches any rest. `acquire` permits to take, keep and release, `inspect` to read
# and to watch, `administer` to force a release. `locks` and `elections` are prefixes of names; "" is every name. `max-hold`
# bounds how long these may be held, from 1s to 365d; without it, there is no bound.
#
# [[permission]]
# identities = ["cert:billing.example", "token:ci", "jwt:*"]
# allow = ["acquire", "inspect"]
# locks = ["billing/"]
# elections = ["billing-leader"]
# max-hold = "1h"
"#;

/// Lines are broken at this width in the reference file.
const WIDTH: usize = 100;

/// `UPDATE_REFERENCE=1 cargo test -p leasehold-server reference` writes the file anew after a change to the settings.
#[test]
fn the_reference_file_is_what_the_table_says() {
    let expected = reference();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        fs::write(
            concat!(env!("CARGO_MANIFEST_DIR"), "/leasehold.toml"),
            &expected,
        )
        .unwrap();
        return;
    }
    assert_eq!(REFERENCE, expected);
    assert_eq!(printed(&["--print-reference"], &[]), REFERENCE);
}

#[test]
fn the_reference_file_holds_every_setting_and_the_defaults() {
    assert_eq!(in_file(REFERENCE).unwrap(), Config::default());
    for setting in SETTINGS {
        let places = REFERENCE
            .lines()
            .filter(|line| {
                line.trim_start_matches("# ")
                    .split_once(" = ")
                    .is_some_and(|(name, _)| name == setting.name)
            })
            .count();
        assert_eq!(places, 1, "{}", setting.name);
    }
    // The examples in comments are valid too.
    let examples: String = REFERENCE
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| {
            line.split_once(" = ")
                .is_some_and(|(name, _)| named(name).is_some())
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let config = in_file(&examples).unwrap();
    assert_eq!(config.name, "coordinator-1");
    assert!(config.store_ca.is_some());
}

/// Returns the commented reference: every setting with its meaning and default. `leasehold.toml` is this text.
fn reference() -> String {
    let defaults = Config::default();
    let mut out = String::from(
        "# The settings of leasehold-server, each with its default: an empty file means the same as this one.\n\
         #\n\
         # Every setting is also a flag (--store-timeout 1s) and an environment variable (LEASEHOLD_STORE_TIMEOUT=1s). Flags win\n\
         # over the environment, the environment over this file. `leasehold-server --print-config` shows what is in force.\n\
         # Durations have a unit: \"500ms\", \"10s\", \"1h\".\n",
    );
    for setting in SETTINGS {
        out.push('\n');
        for line in wrapped(setting.help()) {
            out.push_str(&format!("# {line}\n"));
        }
        let line = match (setting.example, (setting.show)(&defaults)) {
            (Some(example), _) => format!("# {} = {}", setting.name, literal(setting, example)),
            (None, value) => format!(
                "{} = {}",
                setting.name,
                literal(setting, &value.unwrap_or_default())
            ),
        };
        out.push_str(&line);
        out.push('\n');
    }
    out.push_str(PERMISSION);
    out
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
