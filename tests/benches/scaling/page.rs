//! The sections of `docs/scaling.md` that the benchmark writes.

use std::fmt::Write;

use crate::{
    checks::Check,
    growth::{Cpu, FLAT, Growth, Ratios},
    machine::Machine,
    model::{Constants, Cost, GIB, Load, Needed, Room},
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

fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = format!(
        "| {} |\n|{}\n",
        header.join(" | "),
        "---|".repeat(header.len())
    );
    for row in rows {
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

fn constants(constants: &Constants) -> String {
    let micros = |seconds: f64| format!("{:.1} µs", 1e6 * seconds);
    let bytes = |bytes: f64| format!("{bytes:.0} B");
    let events = [
        (
            "heartbeat of a session that holds nothing, shared connection",
            "c1",
            constants.rest,
        ),
        (
            "the same, a connection of its own",
            "c2",
            constants.rest_alone,
        ),
        (
            "heartbeat of a session that holds locks",
            "c3",
            constants.beat,
        ),
        (
            "renewal of one lock by a heartbeat",
            "c4",
            constants.renewal,
        ),
        (
            "acquire and release, 64 clients, one at a time each",
            "c5",
            constants.one_each,
        ),
        ("the same, 16 in flight for each", "c6", constants.many_each),
        (
            "the same, 4 clients, one at a time each",
            "c7",
            constants.few_each,
        ),
        (
            "hand-off, and the acquire that follows",
            "c8",
            constants.hand_off,
        ),
        (
            "the same between two coordinators",
            "c9",
            constants.crossing,
        ),
    ];
    let rows = events.map(|(what, name, cost): (&str, &str, Cost)| {
        vec![
            name.to_owned(),
            what.to_owned(),
            micros(cost.coordinator),
            micros(cost.redis),
            bytes(cost.client_traffic),
            bytes(cost.redis_traffic),
            format!("{:.2}", cost.calls),
        ]
    });
    let header = [
        "",
        "an event",
        "coordinator CPU",
        "Redis CPU",
        "client traffic",
        "Redis traffic",
        "calls",
    ];
    let mut text = table(&header, rows);
    let things = [
        ("a process that nobody uses", "m0", constants.nothing),
        ("a session, 100 on a connection", "m1", constants.session),
        (
            "a session with a connection of its own",
            "m2",
            constants.session_alone,
        ),
        ("a held lock", "m3", constants.lock),
        ("a waiter", "m4", constants.waiter),
        (
            "the record of a name that nobody holds",
            "m5",
            constants.record,
        ),
    ];
    let rows = things.map(|(what, name, room): (&str, &str, Room)| {
        vec![
            name.to_owned(),
            what.to_owned(),
            memory(room.coordinator),
            memory(room.redis),
        ]
    });
    let header = ["", "a thing", "coordinator memory", "Redis memory"];
    text += "\n";
    text + table(&header, rows).trim_end()
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
    let held = |ttl| Load {
        holding: 1.0,
        locks: 100.0,
        ttl,
        ..Load::default()
    };
    let resting = |have_connections| Load {
        resting: 1.0,
        have_connections,
        ..Load::default()
    };
    let loads = [
        (
            "acquires and releases a second",
            1.0,
            Load {
                cycles: 1.0,
                ..Load::default()
            },
        ),
        (
            "hand-offs a second",
            1.0,
            Load {
                hand_offs: 1.0,
                ..Load::default()
            },
        ),
        (
            "held locks, 100 each of a session, TTL 10 s",
            100.0,
            held(10.0),
        ),
        ("the same, TTL 60 s", 100.0, held(60.0)),
        (
            "sessions that hold nothing, 100 on a connection",
            1.0,
            resting(false),
        ),
        ("the same, a connection each", 1.0, resting(true)),
    ];
    let rows = loads.map(|(what, of, load)| {
        // So many that the rounding to whole processes does not show.
        const MANY: f64 = 1e12;
        let needed = times(&constants.needed(&load), MANY);
        let (coordinators, shards) = (needed.coordinators(), needed.shards());
        let none = needed.redis_cores == 0.0 && needed.redis_bytes == 0.0;
        vec![
            what.to_owned(),
            about(of * MANY / coordinators.processes),
            coordinators.bound.to_owned(),
            if none {
                "any number".to_owned()
            } else {
                about(of * MANY / shards.processes)
            },
            if none {
                "–".to_owned()
            } else {
                shards.bound.to_owned()
            },
        ]
    });
    let header = ["load", "one coordinator", "bound", "one shard", "bound"];
    table(&header, rows).trim_end().to_owned()
}

fn times(needed: &Needed, factor: f64) -> Needed {
    Needed {
        coordinator_cores: factor * needed.coordinator_cores,
        redis_cores: factor * needed.redis_cores,
        coordinator_bytes: factor * needed.coordinator_bytes,
        redis_bytes: factor * needed.redis_bytes,
        client_traffic: factor * needed.client_traffic,
        redis_traffic: factor * needed.redis_traffic,
        connections: factor * needed.connections,
    }
}

fn sizes(constants: &Constants) -> String {
    let none = Load::default();
    let resting = Load {
        resting: 1e6,
        ..none
    };
    let held = Load {
        holding: 1e5,
        locks: 1e7,
        ttl: 10.0,
        ..none
    };
    let cycles = Load {
        cycles: 2e5,
        ..none
    };
    let loads = [
        ("1 000 000 sessions, 100 on a connection", resting),
        (
            "the same, a connection each",
            Load {
                have_connections: true,
                ..resting
            },
        ),
        (
            "10 000 000 held locks, 100 each of a session, TTL 10 s",
            held,
        ),
        ("the same, TTL 60 s", Load { ttl: 60.0, ..held }),
        (
            "200 000 acquires and releases a second, of names in use",
            cycles,
        ),
        (
            "the same, each request a call of its own",
            Load {
                calls: Some(2.0),
                ..cycles
            },
        ),
        (
            "200 000 a second, each of a new name",
            Load {
                records: 2e5 * RECORDS,
                ..cycles
            },
        ),
        (
            "the same, `max-ttl` 1 min",
            Load {
                records: 2e5 * SHORT_RECORDS,
                ..cycles
            },
        ),
        (
            "1 000 000 sessions with a connection each, 10 000 000 held locks with a TTL of 60 s, and 200 000 acquires and releases a \
             second of names in use",
            Load {
                have_connections: true,
                resting: 9e5,
                ttl: 60.0,
                cycles: 2e5,
                ..held
            },
        ),
    ];
    let rows = loads.map(|(what, load)| {
        let needed = constants.needed(&load);
        let (coordinators, shards) = (needed.coordinators(), needed.shards());
        let uses_redis = needed.redis_cores > 0.0;
        vec![
            what.to_owned(),
            format!(
                "{:.1} cores, {}",
                needed.coordinator_cores,
                memory(needed.coordinator_bytes)
            ),
            format!("{:.0} ({})", coordinators.processes, coordinators.bound),
            format!(
                "{:.1} cores, {}",
                needed.redis_cores,
                memory(needed.redis_bytes)
            ),
            if uses_redis {
                format!("{:.0} ({})", shards.processes, shards.bound)
            } else {
                "1".to_owned()
            },
            format!(
                "{:.0}, {:.0} MB/s",
                needed.client_traffic / 1e6,
                needed.redis_traffic / 1e6
            ),
        ]
    });
    let header = [
        "load",
        "coordinators take",
        "coordinators",
        "Redis takes",
        "shards",
        "traffic of clients, of Redis",
    ];
    table(&header, rows).trim_end().to_owned()
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
    let header = [
        "load",
        "figure",
        "predicted",
        "measured",
        "measured by predicted",
    ];
    table(&header, rows).trim_end().to_owned()
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
    let header = [
        "growing",
        "CPU of",
        "a cycle, and by the fewest",
        "dearest by cheapest",
    ];
    text += &table(&header, rows);
    text.trim_end().to_owned()
}

fn conditions(measured: &Measured) -> String {
    let mut text = String::new();
    for (name, fact) in Machine::look(&[]).facts {
        if name != "Rivals" {
            let _ = writeln!(text, "- {name}: {fact}");
        }
    }
    if let Some(beside) = &measured.beside {
        let _ = writeln!(text, "- Beside it: {beside}");
    }
    text.trim_end().to_owned()
}
