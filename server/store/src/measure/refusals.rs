//! Refusals by the store's servers: each kind is logged when it begins, once a minute while it lasts, and when it has ended.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold_core::time::Moment;
use tracing::{info, warn};

use crate::cause::DownCause;

/// Time without a refusal after which a kind has ended, and interval of the log's lines while it lasts.
const LASTS: Duration = Duration::from_secs(60);
/// Code of a refusal that concerns one lock.
pub(super) const WRONG_TYPE: &str = "WRONGTYPE";

/// Kinds of refusals that last.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Vec<Refusal>>);

#[derive(Debug)]
struct Refusal {
    cause: DownCause,
    /// The code of Redis's error, as one cause is of all codes that are not known.
    code: String,
    text: String,
    logged: Moment,
    last: Moment,
}

impl Refusals {
    /// Notes one. The log shows the server and Redis's words of the first.
    pub(super) fn note(
        &self,
        (cause, code): (DownCause, &str),
        server: &dyn fmt::Display,
        words: &str,
        now: Moment,
    ) {
        let mut all = self.all();
        let known = all
            .iter_mut()
            .find(|it| it.cause == cause && it.code == code);
        if let Some(known) = known {
            known.last = now;
            if known.logged.until(now) < LASTS {
                return;
            }
            known.logged = now;
            warn!(?cause, "{}", known.text);
            return;
        }
        let says = cause.says();
        let advice = match code {
            WRONG_TYPE => ". Another application has keys below key-prefix".to_owned(),
            _ => cause.advice(),
        };
        let text = format!("{server} {says}, and refuses commands ({words}){advice}");
        warn!(?cause, "{text}");
        all.push(Refusal {
            cause,
            code: code.to_owned(),
            text,
            logged: now,
            last: now,
        });
    }

    /// Returns what was refused in the last minute, with what to do. Forgets what has ended. A key that is no lock concerns nobody
    /// but its own callers.
    pub(super) fn recent(&self, now: Moment) -> Vec<String> {
        let mut all = self.all();
        all.retain(|it| {
            let lasts = it.last.until(now) < LASTS;
            if !lasts {
                info!(cause = ?it.cause, code = it.code, "the store has refused nothing for this reason for a minute");
            }
            lasts
        });
        let of_store = all.iter().filter(|it| it.code != WRONG_TYPE);
        of_store.map(|it| it.text.clone()).collect()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Refusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_logged_once_a_minute_and_lasts_for_a_minute() {
        let refusals = Refusals::default();
        let at = |seconds: u64| Moment::from_micros(seconds * 1_000_000);
        let note = |code: &'static str, seconds| {
            let cause = DownCause::of(code, None);
            refusals.note((cause, code), &"Redis", code, at(seconds));
        };
        let logged = || refusals.all()[0].logged;
        for (seconds, expected) in [(0, 0), (1, 0), (59, 0), (60, 60), (100, 60)] {
            note("OOM", seconds);
            assert_eq!(logged(), at(expected), "{seconds}");
        }
        note("MISCONF", 100);
        note(WRONG_TYPE, 100);
        let recent = refusals.recent(at(159));
        assert!(
            recent[0]
                .starts_with("Redis is out of memory, and refuses commands (OOM). Raise maxmemory")
                && recent[0].ends_with(" (docs/doctor.md#out-of-memory)"),
            "{recent:?}"
        );
        assert_eq!(
            recent.len(),
            2,
            "a key that is no lock is not the store's trouble"
        );
        assert!(refusals.recent(at(160)).is_empty());
    }
}
