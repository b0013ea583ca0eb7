//! Counts of what happened in the simulated worlds. Their floors show that the simulation has not gone blind.

use crate::transitions::Transitions;

/// Defines the counts and their floors, for a thousand seeds: half of what was measured.
macro_rules! coverage {
    ($($(#[$doc:meta])* $name:ident: $floor:literal,)*) => {
        /// Counts of what happened.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Coverage {
            $($(#[$doc])* pub(crate) $name: u64,)*
            /// Transitions of the machines.
            pub(crate) transitions: Transitions,
        }

        impl Coverage {
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
                self.transitions.add(&other.transitions);
            }

            /// Fails if anything happened too seldom in so many worlds.
            pub(crate) fn check(&self, seeds: u64) {
                let counts = [$((stringify!($name), self.$name, $floor),)*];
                for (name, count, floor) in counts {
                    let floor: u64 = floor * seeds / 1000;
                    assert!(count >= floor, "{count} {name} in {seeds} worlds, fewer than {floor}: {self:#?}");
                }
            }
        }
    };
}

coverage! {
    /// Guards that a client was given.
    grants: 13_700,
    /// Guards of a lock that the actor held already.
    grants_again: 230,
    /// Acquires of several names that were granted.
    grants_of_several: 1_600,
    /// Of these, those in a mode each, of which none can have been held before.
    grants_in_modes_each: 320,
    /// Acquires that were granted fewer permits than they asked for at most.
    grants_of_what_is_left: 45,
    /// Grants to a waiter by somebody else's command.
    hand_offs: 8_700,
    /// Of these, those that left the number of permits to the store.
    hand_offs_of_what_is_left: 530,
    /// Hand-offs to a waiter at another coordinator.
    hand_offs_elsewhere: 2_200,
    /// Wake-ups that were lost.
    lost_wake_ups: 4_100,
    /// Hand-offs that a waiter's coordinator confirmed.
    confirmed: 1_400,
    /// Waiters that joined the queue again.
    joined_again: 210,
    /// Guards that were held when their session opened on another stream, and stayed held.
    moved_while_held: 500,
    /// Guards that were suspended, and held again on another stream.
    resumed_after_suspension: 340,
    /// Places in queues that another stream took over.
    resumed_places: 2_300,
    /// Holds that a coordinator told its client were lost.
    losses: 2_400,
    /// Of these, those that were held for as long as they may be.
    ended_by_bound: 97,
    /// Commands that granted permits of a semaphore whose limit has a revision.
    grants_of_a_revision: 750,
    /// Acquires that were refused because of the limit in force.
    other_limits: 4,
    /// Holds whose permits were given back in part, or had no more than those.
    reduced: 240,
    /// Requests that were refused because rights had changed.
    refused_by_rights: 1_800,
    /// Steps of the store's clock.
    clock_steps: 360,
    /// Fail-overs to a store that had missed the last writes.
    fail_overs: 130,
    /// Acquires that were cancelled in time.
    cancelled: 3_700,
    /// Acquires whose wait was over.
    timed_out: 3_300,
    /// Acquires that found a lock busy.
    busy: 4_300,
    /// Sessions that were told of a drain.
    drains: 820,
    /// Sessions that a coordinator which goes on serving asked to move.
    asked_to_move: 500,
    /// Streams whose coordinator stopped in order.
    stops: 340,
    /// Coordinators that crashed.
    crashes: 260,
    /// Clients that died.
    deaths: 350,
    /// Streams that were cut.
    cuts: 1_400,
    /// Sessions that ended because their clients were silent.
    silent: 890,
    /// Sessions that waited for a resume.
    detached: 1_500,
    /// Commands that were carried out, and whose reply was lost.
    lost_replies: 1_500,
    /// Commands that were not carried out.
    not_carried_out: 2_100,
    /// Commands that arrived after their sender had given up.
    late: 750,
    /// Releases in the background.
    clean_ups: 9_700,
    /// Renewals of holds.
    renewals: 4_800,
    /// Waits that were aborted because of a deadlock.
    deadlocks: 4,
    /// Locks that an operator took.
    forced: 180,
    /// Waits that an operator ended.
    waits_forced: 18,
    /// Guards that had been asked for when a request reached their client.
    guards_asked: 35,
    /// Events that watchers read.
    events: 190_000,
    /// Gaps that watchers were told of.
    gaps: 11_000,
    /// Watchers that did not read in time.
    watchers_behind: 9_000,
    /// Feeds that broke.
    feeds_broken: 930,
    /// States of elections that observers were told of.
    observed: 22_000,
    /// Of these, those that may have followed others.
    observed_after_gaps: 4_000,
    /// Candidacies on streams of their own.
    candidacies: 7_000,
    /// Of these, those that were elected.
    elected: 2_900,
    /// Leaders that resigned.
    resigned: 2_800,
    /// Leaders that were told that they had lost their term.
    deposed: 90,
    /// Terms that their leaders gave up at their own deadlines.
    terms_outlived: 35,
    /// Campaigns on sessions.
    campaigns_on_sessions: 4_800,
    /// Of these, those that were elected.
    elected_on_sessions: 2_300,
    /// Campaigns of sessions that campaigned or led already.
    campaigns_refused: 1_900,
    /// Proclaims that were carried out.
    proclaimed: 690,
    /// Candidacies whose stream was cut, or whose candidate died.
    campaigns_cut: 340,
    /// Sessions that an operator ended.
    sessions_ended: 70,
    /// Of these, those that had resumed something from the session in question.
    successors_ended: 16,
}
