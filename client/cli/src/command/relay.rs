//! Relay of signals to the command. A service manager that stops a unit signals all of its processes, so that the command has the
//! signal already: a second one makes some programs end at once. Time is passed in.

use std::time::Duration;

/// Time in which a service manager signals all processes of a unit.
const ALL_AT_ONCE: Duration = Duration::from_millis(200);
/// Time for which the signal of the guardian counts that comes before the one of this process.
const REMEMBERED: Duration = Duration::from_secs(1);
/// Signals by which service managers stop a unit.
const STOPPING: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP];

/// Signals on their way to the command.
#[derive(Default)]
pub(super) struct Relay {
    /// When to pass which signal on.
    waiting: Vec<(Duration, i32)>,
    /// When the guardian got which signal from a service manager.
    witnessed: Vec<(Duration, i32)>,
    /// Signals that the command had already. Each is left out once: it comes again if it was not heeded.
    left_out: Vec<i32>,
}

impl Relay {
    /// Takes a signal in, which the guardian may be a witness of. Signals are passed on in the order in which they came.
    pub(super) fn receive(&mut self, now: Duration, signal: i32, has_witness: bool) {
        let before = self.waiting.last().map_or(now, |(due, _)| *due);
        let may_be_known = has_witness && STOPPING.contains(&signal);
        if !may_be_known || self.left_out.contains(&signal) {
            self.waiting.push((before.max(now), signal));
            return;
        }
        let known = self.witnessed.extract_if(.., |(at, witnessed)| {
            *witnessed == signal && now < *at + REMEMBERED
        });
        match known.count() {
            0 => self.waiting.push((now + ALL_AT_ONCE, signal)),
            _ => self.left_out.push(signal),
        }
    }

    /// Notes that a service manager sent the guardian a signal.
    pub(super) fn witness(&mut self, now: Duration, signal: i32) {
        if self.left_out.contains(&signal) {
            return;
        }
        let known = self
            .waiting
            .extract_if(.., |(_, waiting)| *waiting == signal);
        match known.count() {
            0 => self.witnessed.push((now, signal)),
            _ => self.left_out.push(signal),
        }
    }

    /// Returns the next signal to be passed on now.
    pub(super) fn due(&mut self, now: Duration) -> Option<i32> {
        let at = self.waiting.iter().position(|(due, _)| *due <= now)?;
        Some(self.waiting.remove(at).1)
    }

    /// Returns the time until a signal is to be passed on.
    pub(super) fn pause(&self, now: Duration) -> Option<Duration> {
        let due = self.waiting.iter().map(|(due, _)| due.saturating_sub(now));
        due.min()
    }
}

#[cfg(test)]
mod tests {
    use libc::{SIGTERM, SIGUSR1};

    use super::*;

    const NOW: Duration = Duration::from_secs(9);

    fn sent(relay: &mut Relay, now: Duration) -> Vec<i32> {
        std::iter::from_fn(|| relay.due(now)).collect()
    }

    #[test]
    fn a_signal_without_a_witness_is_passed_on() {
        let mut relay = Relay::default();
        relay.receive(NOW, SIGTERM, false);
        relay.receive(NOW, SIGUSR1, true);
        assert_eq!(relay.pause(NOW), Some(Duration::ZERO));
        assert_eq!(sent(&mut relay, NOW), [SIGTERM, SIGUSR1]);
        relay.receive(NOW, SIGTERM, true);
        assert_eq!(relay.pause(NOW), Some(ALL_AT_ONCE));
        assert!(sent(&mut relay, NOW).is_empty());
        relay.receive(NOW, SIGUSR1, true);
        assert!(sent(&mut relay, NOW).is_empty());
        assert_eq!(sent(&mut relay, NOW + ALL_AT_ONCE), [SIGTERM, SIGUSR1]);
        assert_eq!(relay.pause(NOW), None);
    }

    #[test]
    fn a_signal_that_all_processes_got_is_left_out_once_whatever_the_order() {
        for witness_first in [true, false] {
            let mut relay = Relay::default();
            if witness_first {
                relay.witness(NOW, SIGTERM);
            }
            relay.receive(NOW, SIGTERM, true);
            if !witness_first {
                relay.witness(NOW, SIGTERM);
            }
            assert!(sent(&mut relay, NOW + ALL_AT_ONCE).is_empty());
            // A person who signals `leasehold` again means the command.
            relay.witness(NOW, SIGTERM);
            relay.receive(NOW, SIGTERM, true);
            assert_eq!(sent(&mut relay, NOW), [SIGTERM]);
        }
    }

    #[test]
    fn a_witness_of_long_ago_or_of_another_signal_does_not_count() {
        let mut relay = Relay::default();
        relay.witness(NOW, libc::SIGHUP);
        relay.witness(NOW, SIGTERM);
        let later = NOW + REMEMBERED;
        relay.receive(later, SIGTERM, true);
        assert_eq!(sent(&mut relay, later + ALL_AT_ONCE), [SIGTERM]);
    }
}
