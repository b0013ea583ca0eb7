//! The tables `[[permission]]` of the configuration file.

use serde::Deserialize;
use toml::{
    Spanned,
    de::{DeValue, ValueDeserializer},
};

use super::value::{duration, show_duration};
use crate::{
    access::rules::{Pattern, Permission, Prefixes, Rule},
    convert::{MAX_MAX_HOLD, MIN_MAX_HOLD},
};

/// The key of these tables.
pub(super) const KEY: &str = "permission";
/// The key of the longest time for which a lock may be held.
const MAX_HOLD: &str = "max-hold";

/// Defect, and the offset in the file at which it begins.
type Wrong = (usize, String);
type List = Spanned<Vec<Spanned<String>>>;

/// One table, as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    identities: List,
    allow: List,
    locks: Option<List>,
    elections: Option<List>,
    #[serde(rename = "max-hold")]
    max_hold: Option<Spanned<String>>,
}

/// Reads all tables.
pub(super) fn read(value: Spanned<DeValue<'_>>) -> Result<Vec<Rule>, Wrong> {
    let start = value.span().start;
    let tables = Vec::<Spanned<Table>>::deserialize(ValueDeserializer::from(value));
    let tables = tables.map_err(|error| {
        let offset = error.span().map_or(start, |span| span.start);
        let message = error.to_string().trim_end().replace('\n', " ");
        (offset, format!("tables [[{KEY}]]: {message}"))
    })?;
    tables.into_iter().map(rule).collect()
}

/// Returns all tables, as the file has them.
pub(super) fn show(rules: &[Rule]) -> String {
    let tables = rules.iter().map(|rule| {
        let identities = rule.identities.iter().map(Pattern::to_string).collect();
        let allow = rule.allow.iter().map(|allowed| allowed.as_str().to_owned());
        let lists: [(_, Vec<String>); 4] = [
            ("identities", identities),
            ("allow", allow.collect()),
            ("locks", rule.locks.iter().map(str::to_owned).collect()),
            (
                "elections",
                rule.elections.iter().map(str::to_owned).collect(),
            ),
        ];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let mut table: toml::Table = lists
            .map(|(key, list)| (key.to_owned(), list.into()))
            .collect();
        if let Some(max_hold) = rule.max_hold {
            table.insert(MAX_HOLD.to_owned(), show_duration(max_hold).into());
        }
        format!("\n[[{KEY}]]\n{table}")
    });
    tables.collect()
}

fn rule(table: Spanned<Table>) -> Result<Rule, Wrong> {
    let start = table.span().start;
    let table = table.into_inner();
    if table.locks.is_none() && table.elections.is_none() {
        return Err((start, format!("{KEY}: expected locks or elections")));
    }
    let prefixes = |key, list: Option<List>| {
        let prefixes = list.map(|list| items(key, list, |text| Ok(text.to_owned())));
        Ok(Prefixes::new(prefixes.transpose()?.unwrap_or_default()))
    };
    let allow = items("allow", table.allow, |text| {
        Permission::parse(text).ok_or_else(|| {
            format!("expected \"acquire\", \"inspect\" or \"administer\"; found {text:?}")
        })
    })?;
    let max_hold = table.max_hold.map(|text| {
        let at = text.span().start;
        let wrong = |message| (at, format!("{MAX_HOLD}: {message}"));
        if !allow.contains(&Permission::Acquire) {
            return Err(wrong("needs \"acquire\" in allow".to_owned()));
        }
        duration(MIN_MAX_HOLD, MAX_MAX_HOLD)(text.get_ref()).map_err(wrong)
    });
    Ok(Rule {
        identities: items("identities", table.identities, Pattern::parse)?,
        allow,
        locks: prefixes("locks", table.locks)?,
        elections: prefixes("elections", table.elections)?,
        max_hold: max_hold.transpose()?,
    })
}

/// Reads each item of a list. An empty list is refused, because the table would permit nothing.
fn items<T>(
    key: &str,
    list: List,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Wrong> {
    if list.get_ref().is_empty() {
        let message = "expected at least one; leave the whole table out to permit nothing";
        return Err((list.span().start, format!("{key}: {message}")));
    }
    let items = list.into_inner().into_iter().map(|item| {
        read(item.get_ref()).map_err(|message| (item.span().start, format!("{key}: {message}")))
    });
    items.collect()
}
