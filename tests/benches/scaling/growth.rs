//! Growth: the cost of a cycle while more and more waiters, locks and sessions are there.

use leasehold_tests::report;

use crate::{
    chart::{Axis, Curve, Panel},
    constants::{self, QUIET},
    model::Cost,
    options::{CLIENTS, IN_FLIGHT, SHARED, Sizes},
    stage::Stage,
};

/// Sessions that hold the locks.
const HOLDERS: usize = 1_000;
/// Largest ratio of the dearest point of a curve to the cheapest at which it counts as flat.
pub(crate) const FLAT: f64 = 1.2;

/// The cost of a cycle by the number of something.
pub(crate) struct Growth {
    pub(crate) title: &'static str,
    pub(crate) of: &'static str,
    pub(crate) points: Vec<(usize, Cost)>,
}

impl Growth {
    /// Returns the dearest by the cheapest.
    pub(crate) fn spread(&self, cost: fn(&Cost) -> f64) -> f64 {
        let costs = || self.points.iter().map(|(_, of)| cost(of));
        costs().fold(0.0, f64::max) / costs().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn panel(&self) -> Panel {
        let curve = |name: &str, cost: fn(&Cost) -> f64| {
            let points = self.points.iter();
            let points = points.map(|(count, of)| (*count as f64, 1e6 * cost(of)));
            Curve::new(name, points.collect())
        };
        Panel {
            title: self.title.to_owned(),
            x: Axis::log(self.of),
            y: Axis::linear("CPU, µs"),
            curves: vec![
                curve("coordinator", |cost| cost.coordinator),
                curve("Redis", |cost| cost.redis),
            ],
        }
    }
}

/// Measures hand-offs of a name with more and more waiters.
pub(crate) async fn waiters(sizes: &Sizes) -> anyhow::Result<Growth> {
    let mut points = Vec::new();
    for &waiters in sizes.waiters {
        let mut stage = Stage::start(1, sizes).await;
        points.push((
            waiters,
            constants::hand_off(&mut stage, waiters, sizes).await?,
        ));
    }
    Ok(Growth {
        title: "A hand-off and the acquire that follows",
        of: "waiters for one name",
        points,
    })
}

/// Measures cycles while other locks are held, and not renewed.
pub(crate) async fn locks(sizes: &Sizes) -> anyhow::Result<Growth> {
    let mut points = Vec::new();
    for &locks in sizes.locks {
        let mut stage = Stage::start(1, sizes).await;
        let sessions = HOLDERS.min(locks);
        let mut crowd = constants::open(&stage, sessions, SHARED, locks / sessions, QUIET).await?;
        crowd.acquire().await?;
        crowd.live(sizes.settle).await?;
        points.push((
            locks,
            constants::cycle(&mut stage, CLIENTS, IN_FLIGHT, sizes).await?,
        ));
        report(format!("        {locks} locks"));
    }
    Ok(Growth {
        title: "An acquire and its release, others held",
        of: "held locks",
        points,
    })
}

/// Measures cycles while other sessions rest.
pub(crate) async fn sessions(sizes: &Sizes) -> anyhow::Result<Growth> {
    let mut points = Vec::new();
    for &sessions in sizes.sessions {
        let mut stage = Stage::start(1, sizes).await;
        let mut crowd = constants::open(&stage, sessions, SHARED, 0, QUIET).await?;
        crowd.live(sizes.settle).await?;
        points.push((
            sessions,
            constants::cycle(&mut stage, CLIENTS, IN_FLIGHT, sizes).await?,
        ));
        report(format!("        {sessions} sessions"));
    }
    Ok(Growth {
        title: "An acquire and its release, others open",
        of: "open sessions",
        points,
    })
}
