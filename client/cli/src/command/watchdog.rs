//! Watchdog that stops the command before another client can hold the lock. Time is passed in.

use std::time::Duration;

use leasehold_client::LostReason;

use super::watch::Left;

/// Action on the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Ask it to end.
    Terminate(Cause),
    /// End it.
    Kill,
}

/// Cause of a stop of the command ahead of a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// The lease is not renewed.
    Lease,
    /// The time is over for which the lock may be held.
    Bound,
}

#[derive(PartialEq, Eq, Debug)]
enum Phase {
    Running,
    /// Asked to end; it will be killed at this time.
    Stopping(Duration),
    Killed,
}

/// Thresholds of the time left.
#[derive(Clone, Copy)]
struct Thresholds {
    /// Time left at which the command is asked to end.
    grace: Duration,
    /// Time left at which it is killed.
    margin: Duration,
}

impl Thresholds {
    /// Returns the thresholds of a lease that is renewed to this length.
    fn of_lease(ttl: Duration) -> Self {
        Self::with_grace((ttl / 3).min(Duration::from_secs(5)))
    }

    /// Returns the thresholds of a bound on the time held. The command is to have nearly all of it, but not less than it takes
    /// to stop a command on a busy machine.
    fn of_bound(bound: Duration) -> Self {
        Self::with_grace((bound / 10).clamp(Duration::from_millis(200), Duration::from_secs(5)))
    }

    fn with_grace(grace: Duration) -> Self {
        Self {
            grace,
            margin: (grace / 4).min(Duration::from_millis(500)),
        }
    }
}

/// Watchdog of one command. Times are those of a clock that counts suspended time, since any moment in the past.
pub(super) struct Watchdog {
    held: Thresholds,
    /// A suspended lock is lost at the end of the disconnect grace, which may be shorter than any of the others.
    suspended: Thresholds,
    bound: Thresholds,
    is_suspended: bool,
    /// Time for which the command may go on when the connection has broken.
    after_break: Duration,
    /// Time between TERM and KILL if the lock is taken away.
    asking: Duration,
    /// When the command must be killed at the latest, as last known.
    kill_at: Duration,
    phase: Phase,
}

impl Watchdog {
    /// Returns a watchdog for a held lock. With a `disconnect_grace` of zero, the lock is suspended only while the coordinator
    /// does not accept the client's identity, until its deadline.
    pub(super) fn new(ttl: Duration, disconnect_grace: Duration, lock_delay: Duration) -> Self {
        let suspended = match disconnect_grace {
            Duration::ZERO => ttl,
            grace => ttl.min(grace),
        };
        Self {
            held: Thresholds::of_lease(ttl),
            suspended: Thresholds::of_lease(suspended),
            bound: Thresholds::of_bound(Duration::ZERO),
            is_suspended: false,
            // The coordinator may have noticed the break before this process, and the kill takes time too.
            after_break: lock_delay / 2,
            asking: Duration::ZERO,
            kill_at: Duration::ZERO,
            phase: Phase::Running,
        }
    }

    /// Notes that the lock may be held for this long at most.
    pub(super) fn bounded(&mut self, bound: Duration) {
        self.bound = Thresholds::of_bound(bound);
    }

    /// Notes that a killed command would leave processes behind that it could end: it is asked first, whatever the loss.
    pub(super) fn ask_first(&mut self, asking: Duration) {
        self.asking = asking;
    }

    /// Returns whether the command was asked to end, or was killed, because of the lock.
    pub(super) fn has_stopped_it(&self) -> bool {
        self.phase != Phase::Running
    }

    /// Notes that the lock is suspended, or held, from now on.
    pub(super) fn suspended(&mut self, is_suspended: bool) {
        self.is_suspended = is_suspended;
    }

    /// Returns each time left with its thresholds, and what is over when it is.
    fn limits(&self, left: Left) -> impl Iterator<Item = (Duration, Thresholds, Cause)> {
        let of_lease = match self.is_suspended {
            true => self.suspended,
            false => self.held,
        };
        let lease = left.lease.map(|left| (left, of_lease, Cause::Lease));
        let bound = left.bound.map(|left| (left, self.bound, Cause::Bound));
        lease.into_iter().chain(bound)
    }

    /// Returns the action at `now`, given the time left of the lock, or why it is lost.
    pub(super) fn check(
        &mut self,
        now: Duration,
        held: Result<Left, LostReason>,
    ) -> Option<Action> {
        let mut cause = Cause::Lease;
        let kill_at = match held {
            Ok(left) => {
                let kill_times = self
                    .limits(left)
                    .map(|(left, limit, _)| (now + left).saturating_sub(limit.margin));
                self.kill_at = kill_times.min().unwrap_or(now);
                let mut reached = self
                    .limits(left)
                    .filter(|(left, limit, _)| *left <= limit.grace);
                let reached = reached.next().map(|(_, _, cause)| cause);
                match (&self.phase, reached) {
                    (Phase::Running, None) | (Phase::Killed, _) => return None,
                    (Phase::Running, Some(reached)) => {
                        cause = reached;
                        self.kill_at
                    }
                    // A renewal does not call off a stop that has begun.
                    (Phase::Stopping(at), _) => self.kill_at.min(*at),
                }
            }
            Err(LostReason::SessionEnded) => {
                let kill_at = self.kill_at.min(now + self.after_break);
                match self.phase {
                    Phase::Stopping(at) => at.min(kill_at),
                    _ => kill_at,
                }
            }
            // It has expired, or another client may hold it by now.
            Err(_) => match self.phase {
                Phase::Stopping(at) if !self.asking.is_zero() => at.min(now + self.asking),
                Phase::Running => now + self.asking,
                _ => now,
            },
        };
        match self.phase {
            Phase::Killed => None,
            _ if kill_at <= now => {
                self.phase = Phase::Killed;
                Some(Action::Kill)
            }
            Phase::Running => {
                self.phase = Phase::Stopping(kill_at);
                Some(Action::Terminate(cause))
            }
            Phase::Stopping(_) => {
                self.phase = Phase::Stopping(kill_at);
                None
            }
        }
    }

    /// Returns the time until the next check, after one that found `left`, unless the lock is lost before.
    pub(super) fn pause(&self, now: Duration, left: Option<Left>) -> Duration {
        // Timers do not count suspended time: none is set for long.
        let longest = Duration::from_millis(500);
        let pause = match (&self.phase, left) {
            (Phase::Running, Some(left)) => {
                let limits = self.limits(left);
                let pauses = limits.map(|(left, limit, _)| left.saturating_sub(limit.grace));
                pauses.min().unwrap_or_default()
            }
            (Phase::Stopping(kill_at), _) => kill_at.saturating_sub(now),
            _ => longest,
        };
        pause.clamp(Duration::from_millis(1), longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(9);
    const DELAY: Duration = Duration::from_secs(2);
    const TERMINATES: Option<Action> = Some(Action::Terminate(Cause::Lease));
    const KILLS: Option<Action> = Some(Action::Kill);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn lease(millis: u64) -> Result<Left, LostReason> {
        left(Some(millis), None)
    }

    fn left(lease: Option<u64>, bound: Option<u64>) -> Result<Left, LostReason> {
        Ok(Left {
            lease: lease.map(ms),
            bound: bound.map(ms),
        })
    }

    #[test]
    fn a_renewed_lease_is_left_alone() {
        let mut watchdog = Watchdog::new(TTL, Duration::ZERO, DELAY);
        assert_eq!(watchdog.check(ms(0), lease(8_900)), None);
        assert_eq!(watchdog.pause(ms(0), lease(8_900).ok()), ms(500));
        assert_eq!(watchdog.check(ms(5_000), lease(3_900)), None);
        assert_eq!(watchdog.check(ms(5_100), lease(8_900)), None);
        assert!(!watchdog.has_stopped_it());
    }

    #[test]
    fn an_unrenewed_lease_terminates_and_then_kills_before_it_runs_out() {
        // Without a grace, what is suspended ends before its deadline too.
        for is_suspended in [false, true] {
            let mut watchdog = Watchdog::new(TTL, Duration::ZERO, DELAY);
            watchdog.suspended(is_suspended);
            assert_eq!(watchdog.check(ms(0), lease(3_001)), None);
            assert_eq!(watchdog.pause(ms(0), lease(3_001).ok()), ms(1));
            assert_eq!(watchdog.check(ms(1), lease(3_000)), TERMINATES);
            assert_eq!(watchdog.check(ms(2_000), lease(1_001)), None);
            assert_eq!(watchdog.pause(ms(2_400), lease(601).ok()), ms(101));
            // 3.001 s is the deadline, half a second the margin.
            assert_eq!(watchdog.check(ms(2_501), lease(500)), KILLS);
            assert_eq!(watchdog.check(ms(2_600), lease(401)), None);
            assert!(watchdog.has_stopped_it());
        }
    }

    #[test]
    fn a_renewal_does_not_call_a_stop_off() {
        let mut watchdog = Watchdog::new(TTL, Duration::ZERO, DELAY);
        watchdog.check(ms(0), lease(3_000));
        assert_eq!(watchdog.check(ms(100), lease(8_900)), None);
        assert_eq!(watchdog.check(ms(2_500), lease(6_500)), KILLS);
    }

    #[test]
    fn a_short_grace_shortens_the_margins_only_while_suspended() {
        let mut watchdog = Watchdog::new(TTL, ms(600), DELAY);
        watchdog.suspended(true);
        assert_eq!(watchdog.check(ms(0), lease(600)), None);
        assert_eq!(watchdog.pause(ms(0), lease(600).ok()), ms(400));
        watchdog.suspended(false);
        assert_eq!(watchdog.check(ms(100), lease(3_001)), None);
        assert_eq!(watchdog.check(ms(101), lease(3_000)), TERMINATES);
        assert_eq!(watchdog.check(ms(2_600), lease(501)), None);
        assert_eq!(watchdog.check(ms(2_601), lease(500)), KILLS);

        let mut watchdog = Watchdog::new(TTL, ms(600), DELAY);
        watchdog.suspended(true);
        assert_eq!(watchdog.check(ms(0), lease(200)), TERMINATES);
        assert_eq!(watchdog.check(ms(149), lease(51)), None);
        assert_eq!(watchdog.check(ms(150), lease(50)), KILLS);
    }

    #[test]
    fn a_broken_connection_terminates_at_once_and_kills_within_the_lock_delay() {
        // The second one kills before the deadline that was known.
        for (delay, kills_at) in [(DELAY, 1_010), (ms(20_000), 8_400)] {
            let mut watchdog = Watchdog::new(TTL, Duration::ZERO, delay);
            let ended = Err(LostReason::SessionEnded);
            watchdog.check(ms(0), lease(8_900));
            assert_eq!(watchdog.check(ms(10), ended), TERMINATES);
            assert_eq!(watchdog.check(ms(kills_at - 1), ended), None);
            assert_eq!(watchdog.check(ms(kills_at), ended), KILLS);
        }
        let mut watchdog = Watchdog::new(TTL, Duration::ZERO, Duration::ZERO);
        watchdog.check(ms(0), lease(8_900));
        let ended = Err(LostReason::SessionEnded);
        assert_eq!(watchdog.check(ms(10), ended), KILLS);
    }

    #[test]
    fn a_lock_that_another_may_hold_by_now_kills_at_once() {
        for reason in [LostReason::Forced, LostReason::Taken, LostReason::Expired] {
            let mut watchdog = Watchdog::new(TTL, Duration::ZERO, DELAY);
            watchdog.check(ms(0), lease(8_900));
            assert_eq!(watchdog.check(ms(1), Err(reason)), KILLS);
        }
    }

    #[test]
    fn a_bound_leaves_all_but_a_tenth_of_it_whatever_the_ttl_is() {
        // In milliseconds: the bound, and what is left of it at TERM and at KILL.
        for (bound, term, kill) in [
            (1_000, 200, 50),
            (3_000, 300, 75),
            (20_000, 2_000, 500),
            (3_600_000, 5_000, 500),
        ] {
            let mut watchdog = Watchdog::new(TTL, Duration::ZERO, DELAY);
            watchdog.bounded(ms(bound));
            // The lease is renewed, as far as the bound goes.
            let at = |watchdog: &mut Watchdog, rest| {
                let lease = (rest > 9_000).then_some(9_000);
                watchdog.check(ms(bound - rest), left(lease, Some(rest)))
            };
            assert_eq!(at(&mut watchdog, bound), None);
            assert_eq!(at(&mut watchdog, term + 1), None);
            let next = watchdog.pause(ms(0), left(None, Some(term + 1)).ok());
            assert_eq!(next, ms(1));
            let action = Some(Action::Terminate(Cause::Bound));
            assert_eq!(at(&mut watchdog, term), action, "{bound}");
            assert_eq!(at(&mut watchdog, kill + 1), None, "{bound}");
            assert_eq!(at(&mut watchdog, kill), KILLS, "{bound}");
        }
    }

    #[test]
    fn a_lease_that_is_not_renewed_ends_a_bounded_hold_too() {
        let mut watchdog = Watchdog::new(TTL, Duration::ZERO, DELAY);
        watchdog.bounded(ms(60_000));
        assert_eq!(watchdog.check(ms(0), left(Some(3_001), Some(60_000))), None);
        assert_eq!(
            watchdog.check(ms(1), left(Some(3_000), Some(59_999))),
            TERMINATES
        );
        assert_eq!(
            watchdog.check(ms(2_501), left(Some(500), Some(57_499))),
            KILLS
        );
    }

    #[test]
    fn a_command_that_is_asked_first_is_killed_after_that() {
        let mut watchdog = Watchdog::new(TTL, Duration::ZERO, DELAY);
        assert_eq!(watchdog.check(ms(0), lease(8_900)), None);
        watchdog.ask_first(ms(1_000));
        let forced = Err(LostReason::Forced);
        assert!(matches!(
            watchdog.check(ms(1), forced),
            Some(Action::Terminate(_))
        ));
        assert_eq!(watchdog.check(ms(1_000), forced), None);
        assert_eq!(watchdog.pause(ms(1_000), None), ms(1));
        assert_eq!(watchdog.check(ms(1_001), forced), KILLS);
    }
}
