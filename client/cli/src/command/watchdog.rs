//! Watchdog that stops the command before another client can hold the lock. Time is passed in.

use std::time::Duration;

use leasehold_client::LostReason;

/// Action on the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Ask it to end.
    Terminate,
    /// End it.
    Kill,
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
    /// Returns the thresholds for this much time at the start.
    fn of(whole: Duration) -> Self {
        let grace = (whole / 3).min(Duration::from_secs(5));
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
    is_suspended: bool,
    /// Time for which the command may go on when the connection has broken.
    after_break: Duration,
    /// The last known deadline of the lease.
    deadline: Duration,
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
            held: Thresholds::of(ttl),
            suspended: Thresholds::of(suspended),
            is_suspended: false,
            // The coordinator may have noticed the break before this process, and the kill takes time too.
            after_break: lock_delay / 2,
            deadline: Duration::ZERO,
            phase: Phase::Running,
        }
    }

    /// Returns whether the command was asked to end, or was killed, because of the lock.
    pub(super) fn has_stopped_it(&self) -> bool {
        self.phase != Phase::Running
    }

    /// Notes that the lock is suspended, or held, from now on.
    pub(super) fn suspended(&mut self, is_suspended: bool) {
        self.is_suspended = is_suspended;
    }

    fn thresholds(&self) -> Thresholds {
        if self.is_suspended {
            self.suspended
        } else {
            self.held
        }
    }

    /// Returns the action at `now`, given the time left of the lock, or why it is lost.
    pub(super) fn check(
        &mut self,
        now: Duration,
        held: Result<Duration, LostReason>,
    ) -> Option<Action> {
        let Thresholds { grace, margin } = self.thresholds();
        let kill_at = match held {
            Ok(left) => {
                self.deadline = now + left;
                let kill_at = self.deadline.saturating_sub(margin);
                match self.phase {
                    Phase::Running if left > grace => return None,
                    Phase::Running => kill_at,
                    // A renewal does not call off a stop that has begun.
                    Phase::Stopping(at) => at.min(kill_at),
                    Phase::Killed => return None,
                }
            }
            Err(LostReason::SessionEnded) => {
                let kill_at = self.deadline.saturating_sub(margin);
                let kill_at = kill_at.min(now + self.after_break);
                match self.phase {
                    Phase::Stopping(at) => at.min(kill_at),
                    _ => kill_at,
                }
            }
            // It has expired, or another client may hold it by now.
            Err(_) => now,
        };
        match self.phase {
            Phase::Killed => None,
            _ if kill_at <= now => {
                self.phase = Phase::Killed;
                Some(Action::Kill)
            }
            Phase::Running => {
                self.phase = Phase::Stopping(kill_at);
                Some(Action::Terminate)
            }
            Phase::Stopping(_) => {
                self.phase = Phase::Stopping(kill_at);
                None
            }
        }
    }

    /// Returns the time until the next check, after one that found `left`, unless the lock is lost before.
    pub(super) fn pause(&self, now: Duration, left: Option<Duration>) -> Duration {
        // Timers do not count suspended time: none is set for long.
        let longest = Duration::from_millis(500);
        let pause = match (&self.phase, left) {
            (Phase::Running, Some(left)) => left.saturating_sub(self.thresholds().grace),
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
    const TERMINATES: Option<Action> = Some(Action::Terminate);
    const KILLS: Option<Action> = Some(Action::Kill);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_renewed_lease_is_left_alone() {
        let mut watchdog = Watchdog::new(TTL, Duration::ZERO, DELAY);
        assert_eq!(watchdog.check(ms(0), Ok(ms(8_900))), None);
        assert_eq!(watchdog.pause(ms(0), Some(ms(8_900))), ms(500));
        assert_eq!(watchdog.check(ms(5_000), Ok(ms(3_900))), None);
        assert_eq!(watchdog.check(ms(5_100), Ok(ms(8_900))), None);
        assert!(!watchdog.has_stopped_it());
    }

    #[test]
    fn an_unrenewed_lease_terminates_and_then_kills_before_it_runs_out() {
        // Without a grace, what is suspended ends before its deadline too.
        for is_suspended in [false, true] {
            let mut watchdog = Watchdog::new(TTL, Duration::ZERO, DELAY);
            watchdog.suspended(is_suspended);
            assert_eq!(watchdog.check(ms(0), Ok(ms(3_001))), None);
            assert_eq!(watchdog.pause(ms(0), Some(ms(3_001))), ms(1));
            assert_eq!(watchdog.check(ms(1), Ok(ms(3_000))), TERMINATES);
            assert_eq!(watchdog.check(ms(2_000), Ok(ms(1_001))), None);
            assert_eq!(watchdog.pause(ms(2_400), Some(ms(601))), ms(101));
            // 3.001 s is the deadline, half a second the margin.
            assert_eq!(watchdog.check(ms(2_501), Ok(ms(500))), KILLS);
            assert_eq!(watchdog.check(ms(2_600), Ok(ms(401))), None);
            assert!(watchdog.has_stopped_it());
        }
    }

    #[test]
    fn a_renewal_does_not_call_a_stop_off() {
        let mut watchdog = Watchdog::new(TTL, Duration::ZERO, DELAY);
        watchdog.check(ms(0), Ok(ms(3_000)));
        assert_eq!(watchdog.check(ms(100), Ok(ms(8_900))), None);
        assert_eq!(watchdog.check(ms(2_500), Ok(ms(6_500))), KILLS);
    }

    #[test]
    fn a_short_grace_shortens_the_margins_only_while_suspended() {
        let mut watchdog = Watchdog::new(TTL, ms(600), DELAY);
        watchdog.suspended(true);
        assert_eq!(watchdog.check(ms(0), Ok(ms(600))), None);
        assert_eq!(watchdog.pause(ms(0), Some(ms(600))), ms(400));
        watchdog.suspended(false);
        assert_eq!(watchdog.check(ms(100), Ok(ms(3_001))), None);
        assert_eq!(watchdog.check(ms(101), Ok(ms(3_000))), TERMINATES);
        assert_eq!(watchdog.check(ms(2_600), Ok(ms(501))), None);
        assert_eq!(watchdog.check(ms(2_601), Ok(ms(500))), KILLS);

        let mut watchdog = Watchdog::new(TTL, ms(600), DELAY);
        watchdog.suspended(true);
        assert_eq!(watchdog.check(ms(0), Ok(ms(200))), TERMINATES);
        assert_eq!(watchdog.check(ms(149), Ok(ms(51))), None);
        assert_eq!(watchdog.check(ms(150), Ok(ms(50))), KILLS);
    }

    #[test]
    fn a_broken_connection_terminates_at_once_and_kills_within_the_lock_delay() {
        // The second one kills before the deadline that was known.
        for (delay, kills_at) in [(DELAY, 1_010), (ms(20_000), 8_400)] {
            let mut watchdog = Watchdog::new(TTL, Duration::ZERO, delay);
            let ended = Err(LostReason::SessionEnded);
            watchdog.check(ms(0), Ok(ms(8_900)));
            assert_eq!(watchdog.check(ms(10), ended), TERMINATES);
            assert_eq!(watchdog.check(ms(kills_at - 1), ended), None);
            assert_eq!(watchdog.check(ms(kills_at), ended), KILLS);
        }
        let mut watchdog = Watchdog::new(TTL, Duration::ZERO, Duration::ZERO);
        watchdog.check(ms(0), Ok(ms(8_900)));
        let ended = Err(LostReason::SessionEnded);
        assert_eq!(watchdog.check(ms(10), ended), KILLS);
    }

    #[test]
    fn a_lock_that_another_may_hold_by_now_kills_at_once() {
        for reason in [LostReason::Forced, LostReason::Taken, LostReason::Expired] {
            let mut watchdog = Watchdog::new(TTL, Duration::ZERO, DELAY);
            watchdog.check(ms(0), Ok(ms(8_900)));
            assert_eq!(watchdog.check(ms(1), Err(reason)), KILLS);
        }
    }
}
