//! Examination of several independent masters: each as a server, and its standing among the voters.

use std::time::Duration;

use futures_util::future::join_all;
use redis::{Cmd, Value};

use super::standing::{Agreement, Introduction, Run, Standing, Terms};
use crate::{
    clock,
    examine::facts::{Facts, ServerFacts, ServerReport, Topology, Trouble, Vote},
    redis::{
        examine::{Examination, Examined, examine_server},
        keys::Keys,
        url::QuorumUrl,
    },
};

/// Fields of the agreement, and of the mark, of `lua/quorum/agree.lua`.
const AGREEMENT: [&str; 2] = ["hold", "served"];
const MARK: [&str; 4] = ["run", "seen", "first", "voted"];

/// Examines all masters at once.
pub(crate) async fn examine_masters(url: &QuorumUrl, examination: &Examination) -> Facts {
    let masters = url.masters.iter().map(|target| async {
        let questions = questions(&examination.keys);
        let examined = examine_server(target, examination, questions).await;
        ServerFacts {
            server: target.label(),
            known_replicas: None,
            report: examined
                .map(|examined| with_vote(examined, url.durable))
                .map_err(Trouble::from),
        }
    });
    let servers = join_all(masters).await;
    Facts {
        servers,
        ..Facts::of(Topology::Quorum {
            durable: url.durable,
        })
    }
}

/// Returns the questions that read the agreement without making one, which scripts of coordinators would.
fn questions(keys: &Keys) -> Vec<Cmd> {
    let read = |key: String, fields: &[&str]| {
        let mut command = redis::cmd("HMGET");
        command.arg(key).arg(fields);
        command
    };
    vec![read(keys.agreement(), &AGREEMENT), read(keys.mark(), &MARK)]
}

fn with_vote(examined: Examined, durable: bool) -> ServerReport {
    let Examined {
        mut report,
        run,
        answers,
    } = examined;
    let is_durable = match (report.appendonly, &report.appendfsync) {
        (Some(writes), Some(fsync)) => Some(writes && fsync == "always"),
        _ => None,
    };
    report.vote = run.and_then(|run| vote(&Introduction { run, is_durable }, answers, durable));
    report
}

/// Returns the standing of a master; `None` if its keys can't be read.
fn vote(introduction: &Introduction, answers: Vec<Value>, durable: bool) -> Option<Vote> {
    let mut answers = answers.into_iter();
    let (hold, served): (Option<u64>, Option<u8>) = read(answers.next())?;
    let (run, seen, first, voted): (Option<String>, Option<u64>, Option<String>, Option<u8>) =
        read(answers.next())?;
    let Some(hold) = hold else {
        return Some(Vote::Unused);
    };
    let is_this = run.as_ref() == Some(&introduction.run);
    let seen = seen.filter(|_| is_this).unwrap_or(0);
    let agreement = Agreement {
        hold,
        has_served: served.is_some(),
        seen: Duration::from_millis(seen),
        is_first: first.as_ref() == Some(&introduction.run),
        has_voted: voted.is_some(),
    };
    let hold = Duration::from_millis(hold);
    let terms = Terms { hold, durable };
    let now = clock::now();
    let mut known = Run::meet(introduction, None, now);
    known.learn(agreement.seen, now);
    Some(
        match known.standing(introduction, &agreement, &terms, now) {
            Standing::Abstains { until } => Vote::Waits {
                hold,
                left: now.until(until),
            },
            Standing::NotDurable => Vote::NotDurable,
            // The terms are those of the agreement.
            Standing::Votes | Standing::Disagrees { .. } => Vote::Votes { hold },
        },
    )
}

fn read<T: redis::FromRedisValue>(answer: Option<Value>) -> Option<T> {
    redis::from_redis_value(answer?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        match text {
            "" => Value::Nil,
            text => Value::BulkString(text.into()),
        }
    }

    #[test]
    fn the_standing_of_a_master_is_read_as_coordinators_do() {
        let hold = Duration::from_secs(10);
        let waits = |left| Vote::Waits {
            hold,
            left: Duration::from_secs(left),
        };
        let votes = || Vote::Votes { hold };
        let (no, unheard) = (None, ["", "", "", ""]);
        for (agreement, mark, is_durable, durable, expected) in [
            (["", ""], unheard, no, false, Vote::Unused),
            (["10000", ""], ["r", "5000", "", ""], no, false, waits(15)),
            // What was seen of another run does not count.
            (
                ["10000", "1"],
                ["q", "50000", "q", "1"],
                no,
                false,
                waits(20),
            ),
            (["10000", "1"], ["r", "20000", "", "1"], no, false, votes()),
            (["10000", ""], ["r", "0", "r", ""], no, false, votes()),
            (
                ["10000", "1"],
                ["q", "0", "", "1"],
                Some(true),
                true,
                votes(),
            ),
            (
                ["10000", "1"],
                ["r", "0", "", "1"],
                Some(false),
                true,
                Vote::NotDurable,
            ),
        ] {
            let introduction = Introduction {
                run: "r".to_owned(),
                is_durable,
            };
            let answers = vec![
                Value::Array(agreement.map(bulk).into()),
                Value::Array(mark.map(bulk).into()),
            ];
            let found = vote(&introduction, answers, durable);
            assert_eq!(found, Some(expected), "{agreement:?} {mark:?}");
        }
    }
}
