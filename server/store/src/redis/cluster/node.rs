//! Node: one master with its link, its lanes, and its connection for wake-ups.

use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use redis::Cmd;
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};

use super::{
    super::{
        address::Address,
        batch::Item,
        encode::LockScript,
        lanes::Lanes,
        link::Replies,
        place::Place,
        reroute::{Refusal, Reroute},
        status::{LinkError, LinkStatus},
        url::RedisTarget,
    },
    router::{Common, Router},
    wakes::{Wakes, Want},
};
use crate::store::{Observer, Stamped};

/// Pause before a node that is up, but did not report its time, is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Master that serves slots, or is about to.
pub(super) struct Node {
    pub(super) address: Address,
    pub(super) lanes: Arc<Lanes>,
    /// Locks with waiters or holds of this coordinator, in slots of this node.
    pub(super) wants: mpsc::UnboundedSender<Want>,
    /// Whether this node delivers the messages that reach every node.
    pub(super) is_home: Arc<AtomicBool>,
    wakes: watch::Receiver<LinkStatus>,
}

/// Returns commands that a node did not carry out to the router.
struct Returns {
    router: Weak<Router>,
    address: Address,
}

impl Node {
    /// Starts to connect.
    pub(super) fn start(
        address: Address,
        target: RedisTarget,
        router: &Weak<Router>,
        common: &Common,
        observer: Arc<OnceLock<Observer>>,
    ) -> Arc<Self> {
        let is_home = Arc::new(AtomicBool::new(false));
        let (wants, wanted) = mpsc::unbounded_channel();
        let returns = Returns {
            router: Weak::clone(router),
            address: address.clone(),
        };
        let lanes = Lanes::open(
            Place::fixed(target),
            LockScript::of_cluster(),
            &common.options,
            None,
            Some((Arc::new(returns), observer)),
        );
        let wakes = Wakes::start(lanes.link(), common, Arc::clone(&is_home), wanted);
        let status = lanes.link().status();
        tokio::spawn(attend(Arc::downgrade(&lanes), status, Weak::clone(router)));
        Arc::new(Self {
            address,
            lanes,
            wants,
            is_home,
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

    pub(super) fn set_home(&self, is_home: bool) {
        self.is_home.store(is_home, Ordering::Relaxed);
    }

    /// Sends commands that belong to no lock.
    pub(super) async fn execute(&self, commands: Vec<Cmd>) -> Result<Replies, LinkError> {
        self.lanes.link().execute(0, commands).await
    }
}

impl Reroute for Returns {
    fn returned(&self, items: Vec<Item>, refusal: Refusal) {
        match self.router.upgrade() {
            Some(router) => router.returned(items, refusal, &self.address),
            // The store is gone, and so are the callers.
            None => drop(items),
        }
    }

    fn answered(&self, item: &Item, stamped: &Stamped) {
        if let Some(router) = self.router.upgrade() {
            router.answered(item, stamped);
        }
    }
}

/// Notifies the router when the node comes up or goes down, until the node is gone. It is not up before its time is known.
async fn attend(lanes: Weak<Lanes>, mut status: watch::Receiver<LinkStatus>, router: Weak<Router>) {
    loop {
        let is_up = status.borrow_and_update().is_up();
        if is_up
            && let Some(lanes) = lanes.upgrade()
            && !lanes.knows_time()
        {
            lanes.ask_time().await;
            if !lanes.knows_time() {
                drop(lanes);
                sleep(ASK_AGAIN).await;
                continue;
            }
        }
        match router.upgrade() {
            Some(router) => router.node_changed(is_up),
            None => return,
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}
