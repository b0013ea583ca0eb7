//! `check-token`: tells whether a fencing token is still the newest of its lock.

use anyhow::Context;

use crate::{
    connection::Connection,
    exit::{Exit, Outcome},
    show::{self, json::Json, text},
};

/// Checks a fencing token.
pub(crate) async fn check(
    connection: &Connection,
    name: &str,
    token: i64,
    as_json: bool,
) -> Outcome {
    let checked = connection
        .admin()?
        .check_token(name, token.into())
        .await
        .with_context(|| format!("failed to check the token of lock {name:?}"))?;
    let text = || match (checked.current, checked.newest_token) {
        (true, _) => "current: it is the newest token on record".to_owned(),
        (false, None) => "not current: no token is on record".to_owned(),
        (false, newest) => format!("not current: the newest token is {}", text::token(newest)),
    };
    show::answer(as_json, Json(&checked), text)?;
    Ok(match checked.current {
        true => Exit::SUCCESS,
        false => Exit::NOT_CURRENT,
    })
}
