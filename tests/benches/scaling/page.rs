//! The sections of `docs/scaling.md` that the benchmark writes.

use std::fmt::Write;

use crate::{
    checks::Check,
    growth::{Cpu, FLAT, Growth, Ratios},
    model::{Constants, Cost, Count, GIB, Load, Room},
    shared::{machine, table::table},
};

/// Number of seconds for which the record of a name is kept after its last use, by the default `max-ttl` of an hour, and by one of a
/// minute.
const RECORDS: f64 = 2.0 * 3_600.0;
const SHORT_RECORDS: f64 = 2.0 * 60.0;

/// Everything that was measured.
pub(crate) struct Measured {
    pub(crate) constants: Constants,
    pub(crate) growth: Vec<Growth>,
    pub(crate) checks: Vec<Check>,
    /// Beside what it was measured, if anything.
    pub(crate) beside: Option<String>,
}

/// A section, and the name in its mark.
pub(crate) type Section = (&'static str, String);

/// Returns all sections.
pub(crate) fn sections(measured: &Measured) -> Vec<Section> {
    vec![
        ("constants", constants(&measured.constants)),
        ("what one carries", carries(&measured.constants)),
        ("sizes", sizes(&measured.constants)),
        ("checks", checks(&measured.checks)),
        ("growth", growth(&measured.growth)),
        ("conditions", conditions(measured)),
    ]
}

fn constants(of: &Constants) -> String {
    let micros = |seconds: f64| format!("{:.1} µs", 1e6 * seconds);
    let bytes = |bytes: f64| format!("{bytes:.0} B");
    let events = [
        (
            of.rest,
            "heartbeat of a session that holds nothing, shared connection",
        ),
        (of.rest_alone, "the same, a connection of its own"),
        (of.beat, "heartbeat of a session that holds locks"),
        (of.renewal, "renewal of one lock by a heartbeat"),
        (
            of.one_each,
            "acquire and release, 64 clients, one at a time each",
        ),
        (of.many_each, "the same, 16 in flight for each"),
        (of.few_each, "the same, 4 clients, one at a time each"),
        (of.hand_off, "hand-off, and the acquire that follows"),
        (of.crossing, "the same between two coordinators"),
    ];
    let rows = (1..)
        .zip(events)
        .map(|(number, (cost, what)): (u32, (Cost, &str))| {
            [
                format!("c{number}"),
                what.to_owned(),
                micros(cost.coordinator),
                micros(cost.redis),
                bytes(cost.client_traffic),
                bytes(cost.redis_traffic),
                format!("{:.2}", cost.calls),
            ]
        });
    let header =
        " | an event | coordinator CPU | Redis CPU | client traffic | Redis traffic | calls";
    let text = table(header, rows);
    let things = [
        (of.nothing, "a process that nobody uses"),
        (of.session, "a session, 100 on a connection"),
        (of.session_alone, "a session with a connection of its own"),
        (of.lock, "a held lock"),
        (of.waiter, "a waiter"),
        (of.record, "the record of a name that nobody holds"),
    ];
    let rows = (0..)
        .zip(things)
        .map(|(number, (room, what)): (u32, (Room, &str))| {
            let (ours, redis) = (memory(room.coordinator), memory(room.redis));
            [format!("m{number}"), what.to_owned(), ours, redis]
        });
    let things = table(" | a thing | coordinator memory | Redis memory", rows);
    format!("{text}\n\n{things}")
}

/// Shows a number of bytes.
fn memory(bytes: f64) -> String {
    if bytes >= GIB {
        format!("{:.1} GiB", bytes / GIB)
    } else if bytes >= 1024.0 * 1024.0 {
        format!("{:.1} MiB", bytes / 1024.0 / 1024.0)
    } else if bytes >= 10_240.0 {
        format!("{:.1} KiB", bytes / 1024.0)
    } else {
        format!("{bytes:.0} B")
    }
}

/// Shows a number of things with two digits that count.
fn about(count: f64) -> String {
    if !count.is_finite() {
        return "any number".to_owned();
    }
    let unit = 10_f64.powf((count.max(1.0).log10().floor() - 1.0).max(0.0));
    let rounded = ((count / unit).floor() * unit).to_string();
    let digits = rounded.len();
    let mut text = String::new();
    for (place, digit) in rounded.chars().enumerate() {
        if place > 0 && (digits - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Part of a load that one coordinator carries, and one shard: as much as needs exactly one.
fn carries(constants: &Constants) -> String {
    // So many that the rounding to whole processes does not show.
    const MANY: f64 = 1e12;
    let hand_offs = Load {
        hand_offs: MANY,
        ..Load::default()
    };
    let resting = Load::resting(MANY);
    let held = |ttl| Load::held(MANY, 100.0 * MANY, ttl);
    let connections = resting.with_connections();
    let loads = [
        (1.0, Load::cycles(MANY), "acquires and releases a second"),
        (1.0, hand_offs, "hand-offs a second"),
        (
            100.0,
            held(10.0),
            "held locks, 100 each of a session, TTL 10 s",
        ),
        (100.0, held(60.0), "the same, TTL 60 s"),
        (
            1.0,
            resting,
            "sessions that hold nothing, 100 on a connection",
        ),
        (1.0, connections, "the same, a connection each"),
    ];
    let rows = loads.map(|(of, load, what)| {
        let needed = constants.needed(&load);
        let one = |count: Count| (about(of * MANY / count.processes), count.bound);
        let (ours, bound) = one(needed.coordinators());
        let (redis, redis_bound) = match needed.redis_cores + needed.redis_bytes {
            0.0 => ("any number".to_owned(), "–"),
            _ => one(needed.shards()),
        };
        [
            what.to_owned(),
            ours,
            bound.to_owned(),
            redis,
            redis_bound.to_owned(),
        ]
    });
    table("load | one coordinator | bound | one shard | bound", rows)
}

fn sizes(constants: &Constants) -> String {
    let resting = Load::resting(1e6);
    let held = |ttl| Load::held(1e5, 1e7, ttl);
    let cycles = Load::cycles(2e5);
    let single = Load {
        calls: Some(2.0),
        ..cycles
    };
    let fresh = |kept| Load {
        records: 2e5 * kept,
        ..cycles
    };
    let everything = Load {
        resting: 9e5,
        cycles: 2e5,
        ..held(60.0).with_connections()
    };
    let loads = [
        (resting, "1 000 000 sessions, 100 on a connection"),
        (resting.with_connections(), "the same, a connection each"),
        (
            held(10.0),
            "10 000 000 held locks, 100 each of a session, TTL 10 s",
        ),
        (held(60.0), "the same, TTL 60 s"),
        (
            cycles,
            "200 000 acquires and releases a second, of names in use",
        ),
        (single, "the same, each request a call of its own"),
        (fresh(RECORDS), "200 000 a second, each of a new name"),
        (fresh(SHORT_RECORDS), "the same, `max-ttl` 1 min"),
        (
            everything,
            "1 000 000 sessions with a connection each, 10 000 000 held locks with a TTL of 60 s, and 200 000 acquires and releases a \
             second of names in use",
        ),
    ];
    let rows = loads.map(|(load, what)| {
        let needed = constants.needed(&load);
        let (coordinators, shards) = (needed.coordinators(), needed.shards());
        let take = |cores, bytes| format!("{cores:.1} cores, {}", memory(bytes));
        let (clients, redis) = (needed.client_traffic / 1e6, needed.redis_traffic / 1e6);
        [
            what.to_owned(),
            take(needed.coordinator_cores, needed.coordinator_bytes),
            format!("{:.0} ({})", coordinators.processes, coordinators.bound),
            take(needed.redis_cores, needed.redis_bytes),
            match needed.redis_cores {
                0.0 => "1".to_owned(),
                _ => format!("{:.0} ({})", shards.processes, shards.bound),
            },
            format!("{clients:.0}, {redis:.0} MB/s"),
        ]
    });
    let header = "load | coordinators take | coordinators | Redis takes | shards | traffic of clients, of Redis";
    table(header, rows)
}

fn checks(checks: &[Check]) -> String {
    let mut rows = Vec::new();
    for check in checks {
        for (place, figure) in check.figures.iter().enumerate() {
            let load = if place == 0 { check.load.as_str() } else { "" };
            let shown = |value: f64| format!("{value:.1}{}", figure.unit);
            rows.push(vec![
                load.to_owned(),
                figure.what.to_owned(),
                shown(figure.predicted),
                shown(figure.measured),
                format!("{:.2} ×", figure.measured / figure.predicted),
            ]);
        }
    }
    let header = "load | figure | predicted | measured | measured by predicted";
    table(header, rows)
}

fn growth(growths: &[Growth]) -> String {
    let mut text = format!(
        "![CPU time of a cycle by waiters, held locks and sessions, of that with the fewest]({})\n\n",
        crate::CHART
    );
    let curves: [(_, Cpu<Cost>, Cpu<Ratios>); 3] = [
        ("coordinator", |cost| cost.coordinator, |by| by.coordinator),
        ("Redis", |cost| cost.redis, |by| by.redis),
        ("both", Cost::cpu, |by| by.both),
    ];
    let mut rows = Vec::new();
    for growth in growths {
        for (who, cost, ratio) in curves {
            let points = growth.points.iter().map(|point| {
                let (count, by) = (about(point.count as f64), ratio(&point.by_smallest));
                format!("{count}: {:.1} µs, {by:.2} ×", 1e6 * cost(&point.cost))
            });
            let points: Vec<_> = points.collect();
            let spread = growth.spread(ratio);
            let verdict = if spread <= FLAT {
                "flat"
            } else {
                "**not flat**"
            };
            rows.push(vec![
                growth.of.name().to_owned(),
                who.to_owned(),
                points.join("; "),
                format!("{spread:.2} ×, {verdict}"),
            ]);
        }
    }
    text += &table(
        "growing | CPU of | a cycle, and by the fewest | dearest by cheapest",
        rows,
    );
    text
}

fn conditions(measured: &Measured) -> String {
    let mut text = String::new();
    for (name, fact) in machine::look(&[]) {
        let _ = writeln!(text, "- {name}: {fact}");
    }
    if let Some(beside) = &measured.beside {
        let _ = writeln!(text, "- Beside it: {beside}");
    }
    text.trim_end().to_owned()
}
