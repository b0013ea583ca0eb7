//! Model of costs: constants, and what they predict for a load.

/// Time between heartbeats of a session that rests.
const REST: f64 = 30.0;
/// Share of a core, and of memory, that is to be used: the rest is for what a model does not know.
const USED: f64 = 0.6;
/// Memory of one coordinator and of one shard, in bytes.
const MEMORY: f64 = 8.0 * GIB;
pub(crate) const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// Cost of one event: CPU in seconds, traffic in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) coordinator: f64,
    pub(crate) redis: f64,
    /// Between clients and coordinators, and between those and Redis.
    pub(crate) client_traffic: f64,
    pub(crate) redis_traffic: f64,
    /// Calls of the script.
    pub(crate) calls: f64,
}

impl Cost {
    /// Returns the CPU time of coordinator and Redis together.
    pub(crate) fn cpu(&self) -> f64 {
        self.coordinator + self.redis
    }

    /// Returns what this event costs if it takes so many calls, from its cost with few of them, and with many.
    fn with_calls(self, many: &Self, calls: f64) -> Self {
        let share = (calls - self.calls) / (many.calls - self.calls);
        let between = |few: f64, most: f64| few + share * (most - few);
        Self {
            coordinator: between(self.coordinator, many.coordinator),
            redis: between(self.redis, many.redis),
            client_traffic: between(self.client_traffic, many.client_traffic),
            redis_traffic: between(self.redis_traffic, many.redis_traffic),
            calls,
        }
    }
}

/// Memory of one thing while it is there, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    pub(crate) coordinator: f64,
    pub(crate) redis: f64,
}

/// Constants of the model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Constants {
    /// A heartbeat of a session that rests, on a shared connection and on one of its own.
    pub(crate) rest: Cost,
    pub(crate) rest_alone: Cost,
    /// A heartbeat of a session that holds locks, and the renewal of one lock by it.
    pub(crate) beat: Cost,
    pub(crate) renewal: Cost,
    /// An acquire and its release: by many clients, one at a time and many in flight, and by few.
    pub(crate) one_each: Cost,
    pub(crate) many_each: Cost,
    pub(crate) few_each: Cost,
    /// A hand-off with the acquire that follows: on one coordinator, and between two.
    pub(crate) hand_off: Cost,
    pub(crate) crossing: Cost,
    /// A coordinator and a Redis server that nobody uses yet.
    pub(crate) nothing: Room,
    /// A session on a shared connection, and on one of its own.
    pub(crate) session: Room,
    pub(crate) session_alone: Room,
    pub(crate) lock: Room,
    pub(crate) waiter: Room,
    /// The record of a name that nobody holds.
    pub(crate) record: Room,
}

/// Load that is to be carried.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Sessions that rest, and whether each has a connection of its own.
    pub(crate) resting: f64,
    pub(crate) have_connections: bool,
    /// Sessions that hold locks, on connections of their own; the locks; their TTL in seconds.
    pub(crate) holding: f64,
    pub(crate) locks: f64,
    pub(crate) ttl: f64,
    /// Acquires a second, each with its release, and the calls of the script for each; none as when 64 clients ask one coordinator.
    pub(crate) cycles: f64,
    pub(crate) calls: Option<f64>,
    /// Names without a holder whose records are kept.
    pub(crate) records: f64,
    pub(crate) hand_offs: f64,
}

/// Resources that a load takes: cores, bytes, bytes a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needed {
    pub(crate) coordinator_cores: f64,
    pub(crate) redis_cores: f64,
    pub(crate) coordinator_bytes: f64,
    pub(crate) redis_bytes: f64,
    pub(crate) client_traffic: f64,
    pub(crate) redis_traffic: f64,
    pub(crate) connections: f64,
}

impl Load {
    pub(crate) fn resting(resting: f64) -> Self {
        Self {
            resting,
            ..Self::default()
        }
    }

    pub(crate) fn held(holding: f64, locks: f64, ttl: f64) -> Self {
        Self {
            holding,
            locks,
            ttl,
            ..Self::default()
        }
    }

    pub(crate) fn cycles(cycles: f64) -> Self {
        Self {
            cycles,
            ..Self::default()
        }
    }

    /// Gives each session a connection of its own.
    pub(crate) fn with_connections(self) -> Self {
        Self {
            have_connections: true,
            ..self
        }
    }
}

impl Constants {
    /// Returns what a load takes, without the processes themselves.
    pub(crate) fn needed(&self, load: &Load) -> Needed {
        let (rest, session) = if load.have_connections {
            (self.rest_alone, self.session_alone)
        } else {
            (self.rest, self.session)
        };
        let beats = 3.0 / load.ttl.max(1.0);
        let cycle = load.calls.map_or(self.one_each, |calls| {
            self.many_each.with_calls(&self.few_each, calls)
        });
        let rates = [
            (load.resting / REST, rest),
            (load.holding * beats, self.beat),
            (load.locks * beats, self.renewal),
            (load.cycles, cycle),
            (load.hand_offs, self.hand_off),
        ];
        let sum = |of: fn(&Cost) -> f64| rates.iter().map(|(rate, cost)| rate * of(cost)).sum();
        Needed {
            coordinator_cores: sum(|cost| cost.coordinator),
            redis_cores: sum(|cost| cost.redis),
            coordinator_bytes: load.resting * session.coordinator
                + load.holding * self.session_alone.coordinator
                + load.locks * self.lock.coordinator,
            redis_bytes: load.locks * self.lock.redis + load.records * self.record.redis,
            client_traffic: sum(|cost| cost.client_traffic),
            redis_traffic: sum(|cost| cost.redis_traffic),
            connections: load.holding
                + if load.have_connections {
                    load.resting
                } else {
                    load.resting / crate::options::SHARED as f64
                },
        }
    }
}

/// Number of processes for a load, and the bound that demands so many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    pub(crate) processes: f64,
    pub(crate) bound: &'static str,
}

impl Count {
    fn of(bounds: &[(&'static str, f64)]) -> Self {
        let (bound, most) = bounds
            .iter()
            .copied()
            .max_by(|(_, one), (_, other)| one.total_cmp(other))
            .unwrap_or(("nothing", 0.0));
        Self {
            processes: most.ceil().max(1.0),
            bound,
        }
    }
}

/// Connections of one coordinator by default.
const CONNECTIONS: f64 = 16_384.0;

impl Needed {
    /// Returns the number of coordinators with a worker thread each.
    pub(crate) fn coordinators(&self) -> Count {
        Count::of(&[
            ("CPU", self.coordinator_cores / USED),
            ("memory", self.coordinator_bytes / (USED * MEMORY)),
            ("`max-connections`", self.connections / CONNECTIONS),
        ])
    }

    /// Returns the number of Redis masters.
    pub(crate) fn shards(&self) -> Count {
        Count::of(&[
            ("CPU", self.redis_cores / USED),
            ("memory", self.redis_bytes / (USED * MEMORY)),
        ])
    }
}

/// Solves `a[0] x + a[1] y = a[2]` and `b[0] x + b[1] y = b[2]`; no cost is below zero.
pub(crate) fn solve(a: [f64; 3], b: [f64; 3]) -> (f64, f64) {
    let determinant = a[0] * b[1] - a[1] * b[0];
    let x = (a[2] * b[1] - a[1] * b[2]) / determinant;
    let y = (a[0] * b[2] - a[2] * b[0]) / determinant;
    if x < 0.0 {
        (0.0, a[2] / a[1])
    } else if y < 0.0 {
        (b[2] / b[0], 0.0)
    } else {
        (x, y)
    }
}
