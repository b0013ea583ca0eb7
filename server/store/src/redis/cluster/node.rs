//! Node: one master with its link, its lanes, and its connection for wake-ups.

use std::sync::{Arc, Weak};

use redis::Cmd;
use tokio::sync::{mpsc, watch};

use super::{
    super::{
        address::Address,
        encode::LockScript,
        lanes::{Lanes, SharedObserver},
        link::Replies,
        place::Place,
        reroute::Reroute,
        status::{LinkError, LinkStatus},
        url::RedisTarget,
    },
    Common,
    wakes::{Wakes, Want},
};

/// Master that serves slots, or is about to.
pub(super) struct Node {
    pub(super) address: Address,
    pub(super) lanes: Arc<Lanes>,
    /// Locks with waiters or holds of this coordinator, in slots of this node.
    pub(super) wants: mpsc::UnboundedSender<Want>,
    wakes: watch::Receiver<LinkStatus>,
}

impl Node {
    /// Starts to connect. `is_home` returns whether this node delivers the messages that reach every node.
    pub(super) fn start(
        address: Address,
        target: RedisTarget,
        router: Weak<dyn Reroute>,
        common: &Common,
        observer: SharedObserver,
        is_home: impl Fn() -> bool + Send + Sync + 'static,
        changed: impl Fn(bool) + Send + 'static,
    ) -> Arc<Self> {
        let (wants, wanted) = mpsc::unbounded_channel();
        let lanes = Lanes::open(
            Place::fixed(target),
            LockScript::of_cluster(),
            &common.options,
            Some((router, address.clone())),
            observer,
        );
        let wakes = Wakes::start(lanes.link(), common, is_home, wanted);
        lanes.attend(changed);
        Arc::new(Self {
            address,
            lanes,
            wants,
            wakes,
        })
    }

    /// Returns whether its command connections are up.
    pub(super) fn status(&self) -> LinkStatus {
        self.lanes.link().status().borrow().clone()
    }

    /// Returns whether it is up, and its clock is known, so that commands can have deadlines.
    pub(super) fn is_ready(&self) -> bool {
        self.lanes.knows_time() && self.status().is_up()
    }

    /// Returns whether its subscription is up.
    pub(super) fn listens(&self) -> bool {
        self.wakes.borrow().is_up()
    }

    /// Sends commands that belong to no lock.
    pub(super) async fn execute(&self, commands: Vec<Cmd>) -> Result<Replies, LinkError> {
        self.lanes.link().execute(0, commands).await
    }
}
