//! The configuration in force, as a TOML file.

use super::{
    draft::Draft,
    permissions,
    setting::Shape,
    settings::{SETTINGS, Setting},
};

/// Returns the file with every value that is in force, and where each came from.
pub(super) fn in_force(draft: &Draft) -> String {
    let mut out = String::from(
        "# The configuration in force. A password in the store's URL is shown as ***.\n\n",
    );
    for setting in SETTINGS {
        // A file with both store and store-file would contradict itself.
        let is_elsewhere = setting.name == "store" && draft.config.store_file.is_some();
        let mark = if is_elsewhere { "# " } else { "" };
        let line = match (setting.show)(&draft.config) {
            Some(value) => format!("{mark}{} = {}", setting.name, literal(setting, &value)),
            None => format!("# {} is not set", setting.name),
        };
        out.push_str(&format!("{line} # {}\n", draft.origin(setting.name)));
        if setting.name == "name" {
            let shown = draft.config.shown_name("XXXXXXXX");
            out.push_str(&format!(
                "# Locks and sessions show it as {shown}: each start draws the eight characters.\n"
            ));
        }
    }
    out.push_str(&permissions::show(&draft.config.permissions));
    out
}

/// Returns a value as TOML writes it.
pub(super) fn literal(setting: &Setting, value: &str) -> String {
    match setting.shape {
        Shape::Text => toml::Value::String(value.to_owned()).to_string(),
        Shape::Number | Shape::Fraction | Shape::Boolean => value.to_owned(),
    }
}
