//! The same cases on every store. A store refuses the features that it lacks with the reason that the documentation gives, and
//! that is a case as well.
//!
//! All cases of a store run beside one another, on names of their own, behind the same two coordinators, which may do in Redis
//! what `docs/deployment.md` says that they need, and nothing else; then nothing may be left of them, no key may ever have been
//! without a TTL, and Redis may have refused nothing.

mod cases;
mod late;
mod site;
mod topology;
mod user;

use std::time::Instant;

use leasehold_tests::report;
use tokio::sync::Semaphore;

use self::{site::Site, topology::Topology};

/// Stores whose cases run at a time. More of them would keep coordinators and servers waiting for a processor.
static AT_A_TIME: Semaphore = Semaphore::const_new(2);

async fn conforms(topology: Topology) {
    let _turn = AT_A_TIME.acquire().await.unwrap();
    let started = Instant::now();
    let site = Site::start(topology).await;
    let ready = started.elapsed();
    let number = cases::all(&site).await;
    late::grants_are_refused(&site).await;
    if let Some(cluster) = site.cluster() {
        user::while_a_slot_moves(&site, cluster).await;
    }
    site.nothing_is_left().await;
    report(format_args!(
        "{topology:?}: {number} cases, ready after {ready:.1?}, done after {:.1?}",
        started.elapsed()
    ));
}

#[tokio::test]
async fn in_memory() {
    conforms(Topology::Memory).await;
}

#[tokio::test]
async fn on_one_redis_server() {
    conforms(Topology::Single).await;
}

#[tokio::test]
async fn on_a_master_under_sentinel() {
    conforms(Topology::Sentinel).await;
}

#[tokio::test]
async fn on_a_master_whose_replicas_acknowledge() {
    conforms(Topology::Replicated).await;
}

#[tokio::test]
async fn on_a_cluster() {
    conforms(Topology::Cluster).await;
}

#[tokio::test]
async fn on_a_quorum_of_masters() {
    conforms(Topology::Quorum).await;
}

#[tokio::test]
async fn tokens_rise_across_steps_of_one_servers_clock() {
    cases::tokens::rise_across_steps(Topology::Single).await;
}

#[tokio::test]
async fn tokens_rise_across_steps_of_the_clock_of_a_quorum() {
    cases::tokens::rise_across_steps(Topology::Quorum).await;
}
