//! The tables `[[permission]]` of the configuration file.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::access::rules::{Pattern, Permission, Prefixes, Rule};

/// The key of these tables.
pub(super) const KEY: &str = "permission";

/// What is wrong, and where it begins in the file.
type Wrong = (usize, String);
type Value<'a> = Spanned<DeValue<'a>>;

/// Reads all of them.
pub(super) fn read(value: &Value<'_>) -> Result<Vec<Rule>, Wrong> {
    let tables = array(value, "tables, each written as [[permission]]")?;
    tables.iter().map(rule).collect()
}

/// All of them, as the file has them.
pub(super) fn show(rules: &[Rule]) -> String {
    let list = |texts: Vec<String>| {
        let texts = texts.into_iter().map(toml::Value::String);
        toml::Value::Array(texts.collect()).to_string()
    };
    let tables = rules.iter().map(|rule| {
        let identities = rule.identities.iter().map(Pattern::to_string).collect();
        let allow = rule
            .allow
            .iter()
            .map(|permission| permission.as_str().to_owned());
        let mut table = format!(
            "\n[[{KEY}]]\nidentities = {}\nallow = {}\n",
            list(identities),
            list(allow.collect())
        );
        for (key, prefixes) in [("locks", &rule.locks), ("elections", &rule.elections)] {
            if !prefixes.is_empty() {
                let prefixes = prefixes.iter().map(str::to_owned).collect();
                table += &format!("{key} = {}\n", list(prefixes));
            }
        }
        table
    });
    tables.collect()
}

fn rule(value: &Value<'_>) -> Result<Rule, Wrong> {
    let DeValue::Table(table) = value.get_ref() else {
        let expected = "permission: expected tables, each written as [[permission]]";
        return Err(wrong(value, expected));
    };
    let known = ["identities", "allow", "locks", "elections"];
    let unknown = table.keys().find(|key| !known.contains(&&**key.get_ref()));
    if let Some(key) = unknown {
        let message = format!(
            "permission: unknown key {:?}; expected identities, allow, locks or elections",
            key.get_ref()
        );
        return Err((key.span().start, message));
    }
    let missing = |key: &str| {
        wrong(
            value,
            &format!("permission: expected {key}, a list of strings"),
        )
    };
    let identities = list(table, "identities", Pattern::parse)?;
    let allow = list(table, "allow", |text| {
        Permission::parse(text).ok_or_else(|| {
            format!("expected \"acquire\", \"inspect\" or \"administer\"; found {text:?}")
        })
    })?;
    let locks = list(table, "locks", prefix)?;
    let elections = list(table, "elections", prefix)?;
    if locks.is_none() && elections.is_none() {
        return Err(missing("locks or elections"));
    }
    Ok(Rule {
        identities: identities.ok_or_else(|| missing("identities"))?,
        allow: allow.ok_or_else(|| missing("allow"))?,
        locks: Prefixes::new(locks.unwrap_or_default()),
        elections: Prefixes::new(elections.unwrap_or_default()),
    })
}

fn prefix(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

/// A list of strings, each read; `None` if it is not there. An empty one is refused: it would give nothing.
fn list<T>(
    table: &DeTable<'_>,
    key: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<Vec<T>>, Wrong> {
    let Some(value) = table.get(key) else {
        return Ok(None);
    };
    let items = array(value, "strings")?;
    if items.is_empty() {
        let message =
            format!("{key}: expected at least one; leave the whole table out to give nothing");
        return Err(wrong(value, &message));
    }
    let items = items.iter().map(|item| {
        let DeValue::String(text) = item.get_ref() else {
            return Err(wrong(item, &format!("{key}: expected a string in quotes")));
        };
        read(text).map_err(|message| wrong(item, &format!("{key}: {message}")))
    });
    items.collect::<Result<_, _>>().map(Some)
}

fn array<'a, 'b>(value: &'a Value<'b>, of: &str) -> Result<&'a [Value<'b>], Wrong> {
    match value.get_ref() {
        DeValue::Array(items) => Ok(&items[..]),
        found => {
            let message = format!(
                "expected a list of {of}; found a value of type {}",
                found.type_str()
            );
            Err(wrong(value, &message))
        }
    }
}

fn wrong(value: &Value<'_>, message: &str) -> Wrong {
    (value.span().start, message.to_owned())
}
