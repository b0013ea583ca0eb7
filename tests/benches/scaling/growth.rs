//! Growth: the cost of a cycle while more and more waiters, locks and sessions are there.
//!
//! A machine changes from minute to minute by more than what is looked for. So each number is measured in turns with the smallest
//! one, a short run of each, and compared pair by pair.

use leasehold_tests::report;

use crate::{
    constants::{self, QUIET, middle},
    model::Cost,
    options::{CLIENTS, IN_FLIGHT, SHARED, Sizes},
    shared::{
        chart::{Axis, Curve, Panel},
        crowd::Crowd,
        stage::Stage,
    },
};

/// Sessions that hold the locks.
const HOLDERS: usize = 1_000;
/// Largest ratio of the dearest point of a curve to the cheapest at which it counts as flat.
pub(crate) const FLAT: f64 = 1.2;

/// Choice of a process: its part of something.
pub(crate) type Cpu<T> = fn(&T) -> f64;

/// Thing that grows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    /// Waiters for one name.
    Waiters,
    /// Locks that are held, and not renewed.
    Locks,
    /// Sessions that rest.
    Sessions,
}

/// The cost of a cycle by the number of something.
pub(crate) struct Growth {
    pub(crate) of: Of,
    pub(crate) points: Vec<Point>,
}

/// The cost at one number.
pub(crate) struct Point {
    pub(crate) count: usize,
    /// In the middle of several runs.
    pub(crate) cost: Cost,
    /// The cost by that of the smallest number, in the middle of several pairs.
    pub(crate) by_smallest: Ratios,
}

/// Ratios of the CPU time of two costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratios {
    pub(crate) coordinator: f64,
    pub(crate) redis: f64,
    /// Of the CPU time of both together.
    pub(crate) both: f64,
}

/// A coordinator with so many of the things.
struct Scene {
    stage: Stage,
    count: usize,
    /// Sends heartbeats.
    _crowd: Option<Crowd>,
}

impl Of {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Waiters => "waiters for one name",
            Self::Locks => "held locks",
            Self::Sessions => "open sessions",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Waiters => "A hand-off and the acquire that follows",
            Self::Locks => "An acquire and its release, others held",
            Self::Sessions => "An acquire and its release, others open",
        }
    }

    async fn scene(self, count: usize, sizes: &Sizes) -> anyhow::Result<Scene> {
        let stage = Stage::start(1).await;
        let mut crowd = match self {
            Self::Waiters => None,
            Self::Locks => {
                let sessions = HOLDERS.min(count);
                let each = count / sessions;
                let mut crowd = constants::open(&stage, sessions, SHARED, each, QUIET).await?;
                crowd.acquire().await?;
                Some(crowd)
            }
            Self::Sessions => Some(constants::open(&stage, count, SHARED, 0, QUIET).await?),
        };
        if let Some(crowd) = &mut crowd {
            crowd.live(sizes.settle).await?;
        }
        Ok(Scene {
            stage,
            count,
            _crowd: crowd,
        })
    }

    async fn cost(self, scene: &mut Scene, sizes: &Sizes) -> anyhow::Result<Cost> {
        match self {
            Self::Waiters => constants::hand_off(&mut scene.stage, scene.count, sizes).await,
            Self::Locks | Self::Sessions => {
                constants::cycle(&mut scene.stage, CLIENTS, IN_FLIGHT, sizes).await
            }
        }
    }

    /// Measures each number in turns with the smallest, which is the first.
    pub(crate) async fn measure(self, counts: &[usize], sizes: &Sizes) -> anyhow::Result<Growth> {
        let mut growth = Growth {
            of: self,
            points: Vec::new(),
        };
        let Some((&smallest, larger)) = counts.split_first() else {
            return Ok(growth);
        };
        let mut base = self.scene(smallest, sizes).await?;
        let mut base_costs = Vec::new();
        for &count in larger {
            let mut scene = self.scene(count, sizes).await?;
            let mut pairs = Vec::new();
            for turn in 0..sizes.turns {
                // Whichever comes first has the colder caches.
                let pair = if turn % 2 == 0 {
                    let small = self.cost(&mut base, sizes).await?;
                    (small, self.cost(&mut scene, sizes).await?)
                } else {
                    let large = self.cost(&mut scene, sizes).await?;
                    (self.cost(&mut base, sizes).await?, large)
                };
                pairs.push(pair);
            }
            base_costs.extend(pairs.iter().map(|(small, _)| *small));
            growth.points.push(Point {
                count,
                cost: middle(pairs.iter().map(|(_, large)| *large).collect()),
                by_smallest: Ratios {
                    coordinator: middle_ratio(&pairs, |cost| cost.coordinator),
                    redis: middle_ratio(&pairs, |cost| cost.redis),
                    both: middle_ratio(&pairs, Cost::cpu),
                },
            });
            report(format!("        {count} {}", self.name()));
        }
        let first = Point {
            count: smallest,
            cost: middle(base_costs),
            by_smallest: Ratios {
                coordinator: 1.0,
                redis: 1.0,
                both: 1.0,
            },
        };
        growth.points.insert(0, first);
        Ok(growth)
    }
}

/// Returns the ratio of the second to the first in the middle of all pairs.
fn middle_ratio(pairs: &[(Cost, Cost)], cost: Cpu<Cost>) -> f64 {
    let ratios = pairs.iter().map(|(small, large)| cost(large) / cost(small));
    let mut ratios: Vec<_> = ratios.collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Growth {
    /// Returns the dearest by the cheapest.
    pub(crate) fn spread(&self, ratio: Cpu<Ratios>) -> f64 {
        let ratios = || self.points.iter().map(|point| ratio(&point.by_smallest));
        ratios().fold(0.0, f64::max) / ratios().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn panel(&self) -> Panel {
        let curve = |name: &str, ratio: Cpu<Ratios>| {
            let points = self.points.iter();
            let points = points.map(|point| (point.count as f64, ratio(&point.by_smallest)));
            Curve::new(name, points.collect())
        };
        Panel {
            title: self.of.title().to_owned(),
            x: Axis::log(self.of.name()),
            y: Axis::linear("CPU, of that with the fewest"),
            curves: vec![
                curve("coordinator", |ratios| ratios.coordinator),
                curve("Redis", |ratios| ratios.redis),
                curve("both", |ratios| ratios.both),
            ],
        }
    }
}
