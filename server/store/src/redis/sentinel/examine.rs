//! Examination of sentinels, and of the master that they name.

use std::{sync::Arc, time::SystemTime};

use futures_util::future::join_all;
use tokio::time::timeout;

use super::{
    super::{
        address::Address,
        dial::{Dialled, Purpose, dial},
        examine::{Examination, examine_one, standbys},
        status::{DownCause, Fault},
        url::SentinelUrl,
    },
    choice::choose,
    question::{Question, Told},
};
use crate::examine::facts::{Facts, SentinelFacts, SentinelReport, ServerFacts, Topology, Trouble};

/// Asks all sentinels once, and examines the master that they name.
pub(crate) async fn examine_master(url: &SentinelUrl, examination: &Examination) -> Facts {
    let asked = url.sentinels.iter().map(|sentinel| async {
        let question = Question {
            sentinel: sentinel.clone(),
            master: Arc::clone(&url.master),
        };
        (sentinel.label(), ask(&question, examination).await)
    });
    let asked = join_all(asked).await;
    let told = || {
        let told = asked.iter();
        told.filter_map(|(_, told)| told.as_ref().ok().map(|(told, _)| told))
    };
    let reports: Vec<_> = told().map(|told| &told.report).collect();
    let chosen = choose(None, &reports, url.sentinels.len()).cloned();
    let mut facts = Facts::of(Topology::Sentinel);
    if let Some(chosen) = chosen {
        let known = told().filter(|told| told.report.address == chosen.address);
        let known_replicas = known.map(|told| number(told, "num-slaves")).max();
        let master = match url.access.target(&chosen.address) {
            Ok(target) => examine_one(&target, examination).await,
            Err(error) => ServerFacts {
                server: format!("Redis at {}", chosen.address),
                known_replicas: None,
                report: Err(Trouble {
                    cause: DownCause::Tls,
                    reason: format!("the master is at {}, but {error}", chosen.address),
                }),
            },
        };
        let replicas = master.report.iter().flat_map(|report| &report.replicas);
        let replicas = replicas.flatten().map(|replica| &*replica.address);
        let addresses: Vec<_> = replicas
            .filter_map(|replica| Address::read(replica, &chosen.address))
            .collect();
        facts.standbys = standbys(&url.access, addresses, examination.timeout).await;
        facts.servers.push(ServerFacts {
            known_replicas,
            ..master
        });
    }
    facts.sentinels = asked
        .into_iter()
        .map(|(sentinel, told)| SentinelFacts {
            sentinel,
            report: told
                .map(|(told, expires)| report(&told, expires))
                .map_err(Trouble::from),
        })
        .collect();
    facts
}

/// Returns a sentinel's answer, and when its certificate expires.
async fn ask(
    question: &Question,
    examination: &Examination,
) -> Result<(Told, Option<SystemTime>), Fault> {
    let patience = examination.timeout;
    let sentinel = &question.sentinel;
    let Dialled {
        mut connection,
        driver: _driver,
        certificate_expires,
        ..
    } = dial(sentinel, &Purpose::Questions, patience, 0).await?;
    match timeout(patience, question.ask(&mut connection)).await {
        Ok(Ok(replies)) => Ok((question.read(replies)?, certificate_expires)),
        Ok(Err(error)) => {
            let reason = format!("the connection to {} broke: {error}", sentinel.label());
            Err(Fault::new(DownCause::Lost, reason))
        }
        Err(_) => {
            let millis = patience.as_millis();
            let reason = format!("{} did not answer within {millis} ms", sentinel.label());
            Err(Fault::new(DownCause::TimedOut, reason))
        }
    }
}

fn number(told: &Told, field: &str) -> usize {
    let field = told.state.get(field);
    field.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn report(told: &Told, certificate_expires: Option<SystemTime>) -> SentinelReport {
    SentinelReport {
        master: told.report.address.to_string(),
        replicas: number(told, "num-slaves"),
        others: number(told, "num-other-sentinels"),
        quorum: number(told, "quorum"),
        certificate_expires,
    }
}
