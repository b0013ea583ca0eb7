//! The TOML file. Each error has line and column.

use std::path::Path;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Origin,
    draft::Draft,
    permissions,
    setting::Shape,
    settings::{Setting, named, nearest},
};

/// Reads the file into the draft.
pub(super) fn load(draft: &mut Draft, path: &Path) {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(draft, path, &text),
        Err(error) => draft.errors.push(format!(
            "failed to read the configuration file {}: {error}",
            path.display()
        )),
    }
}

/// Reads the text of a file into the draft. `path` is for the errors.
pub(super) fn parse(draft: &mut Draft, path: &Path, text: &str) {
    let malformed = |offset: usize, message: String| {
        let (line, column) = line_and_column(text, offset);
        let path = path.display();
        format!(
            "failed to read the configuration file {path}, line {line}, column {column}: {message}"
        )
    };
    // Only the message and the place of the parser's error are used: its own text quotes the line, which may contain the
    // store's password.
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let offset = error.span().map_or(0, |span| span.start);
            let message = error.message().trim_end().to_owned();
            return draft.errors.push(malformed(offset, message));
        }
    };
    let mut entries: Vec<_> = table.into_inner().into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let name = key.get_ref().as_ref();
        if name == permissions::KEY {
            match permissions::read(value) {
                Ok(rules) => draft.config.permissions = rules,
                Err((offset, message)) => draft.errors.push(malformed(offset, message)),
            }
            continue;
        }
        let Some(setting) = named(name) else {
            draft
                .errors
                .push(malformed(key.span().start, unknown(name)));
            continue;
        };
        match scalar(setting, &value) {
            Ok(value_text) => {
                let (line, column) = line_and_column(text, value.span().start);
                let origin = Origin::File {
                    path: path.to_owned(),
                    line,
                    column,
                };
                draft.set(setting, &value_text, origin);
            }
            Err(message) => {
                let message = format!("{name}: {message}");
                draft.errors.push(malformed(value.span().start, message));
            }
        }
    }
}

/// Returns the value as the text that the other layers would give, if it has the right type.
fn scalar(setting: &Setting, value: &Spanned<DeValue<'_>>) -> Result<String, String> {
    match (setting.shape, value.get_ref()) {
        (Shape::Text, DeValue::String(text)) => Ok(text.clone().into_owned()),
        (Shape::Boolean, DeValue::Boolean(value)) => Ok(value.to_string()),
        (Shape::Number, DeValue::Integer(number)) => {
            i64::from_str_radix(number.as_str(), number.radix())
                .map(|number| number.to_string())
                .map_err(|_| "expected a smaller number".to_owned())
        }
        (Shape::Fraction, DeValue::Float(number)) => Ok(number.as_str().to_owned()),
        (Shape::Fraction, DeValue::Integer(number)) => Ok(number.as_str().to_owned()),
        (Shape::Text, DeValue::Integer(_) | DeValue::Float(_))
            if setting.value_name == "DURATION" =>
        {
            Err("expected a duration with its unit, such as \"10s\", \"500ms\" or \"1h\"; found a number alone".to_owned())
        }
        (shape, found) => {
            let expected = match shape {
                Shape::Text => "a string in quotes",
                Shape::Number => "a whole number",
                Shape::Fraction => "a number from 0 to 1",
                Shape::Boolean => "true or false",
            };
            Err(format!("expected {expected}; found a value of type {}", found.type_str()))
        }
    }
}

fn unknown(name: &str) -> String {
    match nearest(&name.replace('_', "-")) {
        Some(nearest) => format!("unknown setting {name:?}; did you mean {nearest:?}?"),
        None => format!("unknown setting {name:?}; leasehold-server --help lists them all"),
    }
}

/// Returns the line and the column of an offset. Both count from 1, the column in characters.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}
