//! Examination of a cluster: asks the nodes of the URL for the others, and examines every master.

use std::collections::HashSet;

use futures_util::future::{join, join_all};

use super::{
    super::{
        address::Address,
        examine::{Examination, examine_one, standbys},
        keys::SLOTS,
        status::DownCause,
        url::ClusterUrl,
    },
    ask::{Answer, ask_server},
    view::View,
};
use crate::examine::facts::{ClusterFacts, Facts, FailingNode, ServerFacts, Topology, Trouble};

/// Asks all nodes of the URL, and examines the masters that the best informed of them reports.
pub(crate) async fn examine_cluster(url: &ClusterUrl, examination: &Examination) -> Facts {
    let asked = url.seeds.iter().map(|seed| async {
        let answer = ask_server(seed, examination.timeout, 0).await;
        (seed.label(), answer)
    });
    let mut best: Option<Answer> = None;
    let mut silent = Vec::new();
    for (server, answer) in join_all(asked).await {
        match answer {
            Ok(answer)
                if best
                    .as_ref()
                    .is_none_or(|best| newest(&best.view) < newest(&answer.view)) =>
            {
                best = Some(answer);
            }
            Ok(_) => {}
            Err(fault) => silent.push(ServerFacts {
                server,
                known_replicas: None,
                report: Err(fault.into()),
            }),
        }
    }
    let mut facts = Facts::of(Topology::Cluster);
    let Some(Answer { view, nodes }) = best else {
        facts.servers = silent;
        return facts;
    };
    let lines = lines(&nodes);
    let masters = view.masters.iter().map(|master| {
        let followers = lines.iter().filter(|line| line.master == master.id);
        examine_node(url, examination, &master.address, followers.count())
    });
    let replicas = view.replicas.iter().cloned();
    let standbys = standbys(&url.access, replicas, examination.timeout);
    (facts.servers, facts.standbys) = join(join_all(masters), standbys).await;
    facts.cluster = Some(state(&view, &lines));
    facts
}

async fn examine_node(
    url: &ClusterUrl,
    examination: &Examination,
    address: &Address,
    replicas: usize,
) -> ServerFacts {
    let examined = match url.access.target(address) {
        Ok(target) => examine_one(&target, examination).await,
        Err(error) => ServerFacts {
            server: format!("Redis at {address}"),
            known_replicas: None,
            report: Err(Trouble {
                cause: DownCause::Tls,
                reason: format!("a master is at {address}, but {error}"),
            }),
        },
    };
    ServerFacts {
        known_replicas: Some(replicas),
        ..examined
    }
}

/// Returns the newest epoch of a view.
fn newest(view: &View) -> u64 {
    let epochs = view.masters.iter().map(|master| master.epoch);
    epochs.max().unwrap_or(0)
}

/// Line of `CLUSTER NODES`.
struct Line<'a> {
    id: &'a str,
    address: &'a str,
    flags: Vec<&'a str>,
    /// Id of its master; `-` for a master.
    master: &'a str,
}

fn lines(nodes: &str) -> Vec<Line<'_>> {
    let read = |line| {
        let words: Vec<&str> = str::split(line, ' ').collect();
        let &[id, address, flags, master, ..] = &words[..] else {
            return None;
        };
        Some(Line {
            id,
            // `host:port@bus`, and a host name behind it.
            address: address.split('@').next().unwrap_or(address),
            flags: flags.split(',').collect(),
            master,
        })
    };
    nodes.lines().filter_map(read).collect()
}

fn state(view: &View, lines: &[Line<'_>]) -> ClusterFacts {
    let served = view
        .ranges
        .iter()
        .map(|(first, last, _)| usize::from(last - first) + 1);
    let serving: HashSet<&str> = view.masters.iter().map(|it| it.id.as_str()).collect();
    let failing = lines.iter().filter(|line| {
        let fails = ["fail", "fail?"];
        line.flags.iter().any(|flag| fails.contains(flag))
    });
    ClusterFacts {
        unserved_slots: usize::from(SLOTS).saturating_sub(served.sum()),
        failing: failing
            .map(|line| FailingNode {
                address: line.address.to_owned(),
                serves_slots: serving.contains(line.id),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::view::Master, *};

    #[test]
    fn nodes_that_fail_and_slots_of_nobody_are_found() {
        let nodes = "a h:1@2,n myself,master - 0 1 3 connected 0-99\n\
            b h:2@3 master,fail? - 0 1 5 connected 100-199\n\
            c h:3@4 slave,fail a 0 1 3 connected\n\
            d h:4@5 slave a 0 1 3 connected\n";
        let master = |id: &str| Master {
            id: id.to_owned(),
            address: Address::new(id, 1),
            epoch: 1,
        };
        let view = View {
            of: "a".to_owned(),
            masters: vec![master("a"), master("b")],
            ranges: vec![(0, 99, 0), (100, 199, 1)],
            replicas: Vec::new(),
        };
        let lines = lines(nodes);
        assert_eq!(lines.iter().filter(|line| line.master == "a").count(), 2);
        let node = |address: &str, serves_slots| FailingNode {
            address: address.to_owned(),
            serves_slots,
        };
        let expected = ClusterFacts {
            unserved_slots: 16_384 - 200,
            failing: vec![node("h:2", true), node("h:3", false)],
        };
        assert_eq!(state(&view, &lines), expected);
    }
}
