//! Holds of one lock, as the lines of several coordinators tell of them. A hold is known by its fencing token: it stays the same
//! when another coordinator goes on with the hold.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use super::{options::parse_time, read::Line};

/// Events of one lock, from its logs.
#[derive(Debug)]
pub(super) struct Story {
    name: String,
    holds: BTreeMap<i64, Hold>,
    /// Releases by unary calls at coordinators that did not grant what they released.
    loose: Vec<End>,
    others: Vec<Other>,
    /// Lines that each coordinator dropped.
    dropped: BTreeMap<String, u64>,
}

/// A hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Hold {
    pub(super) token: i64,
    pub(super) is_election: bool,
    pub(super) mode: String,
    pub(super) permits: Option<u32>,
    pub(super) client: String,
    pub(super) identity: Option<String>,
    pub(super) session: Option<String>,
    /// The coordinator that granted it, or else the first that tells of it.
    pub(super) coordinator: String,
    pub(super) granted_at: Option<SystemTime>,
    pub(super) waited: Option<Duration>,
    /// Times at which it was resumed, and where.
    pub(super) resumed: Vec<(SystemTime, String)>,
    ends: Vec<End>,
    /// Its end, once the story is over.
    pub(super) end: Option<End>,
    /// If no line tells its end: the time of the next grant, by which it was over.
    pub(super) over_by: Option<SystemTime>,
}

/// End of a hold.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) time: SystemTime,
    pub(super) event: String,
    pub(super) why: String,
    pub(super) coordinator: String,
    pub(super) identity: Option<String>,
}

/// Something else that happened to the lock.
#[derive(Clone, Debug)]
pub(super) struct Other {
    pub(super) time: SystemTime,
    pub(super) event: String,
    pub(super) what: String,
    pub(super) identity: Option<String>,
    pub(super) coordinator: String,
}

/// The end of the story.
#[derive(Debug)]
pub(super) struct Told {
    /// The holds, in the order of their tokens.
    pub(super) holds: Vec<Hold>,
    /// What else happened, in the order of time.
    pub(super) others: Vec<Other>,
}

impl Story {
    pub(super) fn of(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            holds: BTreeMap::new(),
            loose: Vec::new(),
            others: Vec::new(),
            dropped: BTreeMap::new(),
        }
    }

    /// Takes in a line, perhaps of another lock. Returns false if it is of no kind that there is.
    pub(super) fn hear(&mut self, line: Line) -> bool {
        let Some(time) = parse_time(&line.time) else {
            return false;
        };
        match line.event.as_str() {
            "granted" | "elected" | "resumed" | "released" | "expired" | "lost"
            | "force_released" | "left" => {
                let name = line.election.as_ref().or(line.lock.as_ref());
                match name {
                    Some(name) if *name == self.name => self.on_hold(time, line),
                    Some(_) => {}
                    None => return false,
                }
            }
            "operator" | "denied" => {
                if line.lock.as_deref() == Some(self.name.as_str()) {
                    self.others.push(other(time, line));
                }
            }
            "dropped" => {
                let lines = line.lines.unwrap_or_default();
                *self.dropped.entry(line.coordinator).or_default() += lines;
            }
            "started" | "stopped" => {}
            _ => return false,
        }
        true
    }

    fn on_hold(&mut self, time: SystemTime, line: Line) {
        let is_end = !matches!(line.event.as_str(), "granted" | "elected" | "resumed");
        let end = End {
            time,
            event: line.event.clone(),
            why: line.why.unwrap_or_default(),
            coordinator: line.coordinator.clone(),
            identity: line.identity.clone(),
        };
        let Some(token) = line.token else {
            if is_end {
                self.loose.push(end);
            }
            return;
        };
        let hold = self.holds.entry(token).or_insert_with(|| Hold {
            token,
            coordinator: line.coordinator.clone(),
            ..Hold::default()
        });
        let is_grant = matches!(line.event.as_str(), "granted" | "elected");
        if is_grant || hold.client.is_empty() {
            hold.client = line.client.unwrap_or_default();
            hold.identity = line.identity;
            hold.session = line.session;
        }
        hold.is_election |= line.election.is_some();
        hold.mode = line.mode.unwrap_or_default();
        hold.permits = line.permits;
        hold.waited = hold.waited.or_else(|| millis(line.waited_ms));
        if is_grant {
            hold.granted_at = Some(time);
            hold.coordinator = line.coordinator;
        } else if is_end {
            let held = millis(line.held_ms);
            let granted_at = held.and_then(|held| time.checked_sub(held));
            hold.granted_at = hold.granted_at.or(granted_at);
            hold.ends.push(end);
        } else {
            hold.resumed.push((time, line.coordinator));
        }
    }

    /// Returns the coordinators that have dropped lines, and how many.
    pub(super) fn dropped(&self) -> impl Iterator<Item = (&str, u64)> {
        let dropped = self.dropped.iter();
        dropped.map(|(coordinator, lines)| (coordinator.as_str(), *lines))
    }

    /// Puts together what the coordinators tell. Leaves out what was over before `since`.
    pub(super) fn end(mut self, since: Option<SystemTime>) -> Told {
        for hold in self.holds.values_mut() {
            hold.settle();
        }
        for end in std::mem::take(&mut self.loose) {
            let mut holds = self.holds.values_mut().filter(|hold| hold.may_be(&end));
            match (holds.next(), holds.next()) {
                (Some(hold), None) => hold.end = Some(end),
                _ => self.others.push(Other {
                    what: "a hold that was granted elsewhere".to_owned(),
                    event: end.event,
                    time: end.time,
                    identity: end.identity,
                    coordinator: end.coordinator,
                }),
            }
        }
        let mut next = None;
        for hold in self.holds.values_mut().rev() {
            if hold.mode == "exclusive" {
                if hold.is_open() {
                    hold.over_by = next;
                }
                next = hold.granted_at.or(next);
            } else {
                next = None;
            }
        }
        let is_shown = |time: Option<SystemTime>| time.is_none_or(|time| Some(time) >= since);
        let holds = self.holds.into_values();
        let holds = holds.filter(|hold| is_shown(hold.over_at())).collect();
        let mut others = self.others;
        others.retain(|other| is_shown(Some(other.time)));
        others.sort_by_key(|other| other.time);
        Told { holds, others }
    }
}

impl Hold {
    /// Finds its end among those that coordinators tell: the last, unless it was resumed after that.
    fn settle(&mut self) {
        self.resumed.sort();
        self.ends.sort_by_key(|end| end.time);
        let resumed = self.resumed.last();
        // A coordinator that stopped, or whose client went away, leaves the hold to the one that goes on with it.
        let is_last =
            |end: &End| resumed.is_none_or(|(at, by)| *at < end.time && *by == end.coordinator);
        let ends = self.ends.drain(..);
        let mut ends: Vec<End> = ends
            .filter(|end| end.event != "left" || is_last(end))
            .collect();
        let last = ends.iter().rposition(|end| end.event != "left");
        self.end = match last {
            Some(last) => Some(ends.swap_remove(last)),
            None => ends.pop(),
        };
    }

    /// Returns whether a release through another coordinator than that which granted it may have ended it.
    fn may_be(&self, end: &End) -> bool {
        let is_begun = self.granted_at.is_none_or(|at| at <= end.time);
        let is_open = match &self.end {
            None => true,
            Some(told) if told.event == "left" => true,
            Some(told) => told.why == "not_seen" && told.time >= end.time,
        };
        self.session.is_none() && is_begun && is_open
    }

    /// Returns whether no line says that it has ended.
    pub(super) fn is_open(&self) -> bool {
        let is_left = |end: &End| end.event == "left" && end.why != "found_gone";
        self.end.as_ref().is_none_or(is_left)
    }

    fn over_at(&self) -> Option<SystemTime> {
        if self.is_open() {
            return self.over_by;
        }
        self.end.as_ref().map(|end| end.time)
    }

    /// Returns for how long it was held, if the logs tell.
    pub(super) fn held(&self) -> Option<Duration> {
        if self.is_open() {
            return None;
        }
        let end = self.end.as_ref()?;
        end.time.duration_since(self.granted_at?).ok()
    }
}

fn other(time: SystemTime, line: Line) -> Other {
    let what = if line.event == "denied" {
        let permission = line.permission.unwrap_or_default();
        format!("{} {permission}", line.reason.unwrap_or_default())
    } else {
        let nothing = match line.effect {
            Some(false) => " (nothing to do)",
            _ => "",
        };
        let only = match (line.token, line.waiter) {
            (Some(token), _) => format!(" of token {token}"),
            (None, Some(number)) => format!(" of waiter {number}"),
            (None, None) => String::new(),
        };
        format!("{}{only}{nothing}", line.action.unwrap_or_default())
    };
    Other {
        time,
        event: line.event,
        what: what.trim_end().to_owned(),
        identity: line.identity.or(line.peer),
        coordinator: line.coordinator,
    }
}

fn millis(millis: Option<f64>) -> Option<Duration> {
    Duration::try_from_secs_f64(millis? / 1000.0).ok()
}

#[cfg(test)]
mod tests;
