//! Counts of what happened in the simulated worlds. Their floors show that the simulation has not gone blind.

/// Defines the counts and their floors, for a hundred seeds: half of what was measured.
macro_rules! coverage {
    ($($(#[$doc:meta])* $name:ident: $floor:literal,)*) => {
        /// Counts of what happened.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Coverage {
            $($(#[$doc])* pub(crate) $name: u64,)*
        }

        impl Coverage {
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Fails if anything happened too seldom in so many worlds.
            pub(crate) fn check(&self, seeds: u64) {
                let counts = [$((stringify!($name), self.$name, $floor),)*];
                for (name, count, floor) in counts {
                    let floor: u64 = floor * seeds / 100;
                    assert!(count >= floor, "{count} {name} in {seeds} worlds, fewer than {floor}: {self:#?}");
                }
            }
        }
    };
}

coverage! {
    /// Guards that a client was given.
    grants: 1370,
    /// Guards of a lock that the actor held already.
    grants_again: 38,
    /// Acquires of several names that were granted.
    grants_of_several: 230,
    /// Grants to a waiter by somebody else's command.
    hand_offs: 870,
    /// Hand-offs to a waiter at another coordinator.
    hand_offs_elsewhere: 220,
    /// Wake-ups that were lost.
    lost_wake_ups: 410,
    /// Hand-offs that a waiter's coordinator confirmed.
    confirmed: 140,
    /// Waiters that joined the queue again.
    joined_again: 21,
    /// Guards that were held when their session opened on another stream, and stayed held.
    moved_while_held: 50,
    /// Guards that were suspended, and held again on another stream.
    resumed_after_suspension: 34,
    /// Places in queues that another stream took over.
    resumed_places: 230,
    /// Holds that a coordinator told its client were lost.
    losses: 240,
    /// Of these, those that were held for as long as they may be.
    ended_by_bound: 14,
    /// Acquires that were cancelled in time.
    cancelled: 370,
    /// Acquires whose wait was over.
    timed_out: 330,
    /// Acquires that found a lock busy.
    busy: 430,
    /// Sessions that were told of a drain.
    drains: 82,
    /// Streams whose coordinator stopped in order.
    stops: 34,
    /// Coordinators that crashed.
    crashes: 33,
    /// Clients that died.
    deaths: 50,
    /// Streams that were cut.
    cuts: 160,
    /// Sessions that ended because their clients were silent.
    silent: 89,
    /// Sessions that waited for a resume.
    detached: 150,
    /// Commands that were carried out, and whose reply was lost.
    lost_replies: 150,
    /// Commands that were not carried out.
    not_carried_out: 210,
    /// Commands that arrived after their sender had given up.
    late: 75,
    /// Releases in the background.
    clean_ups: 970,
    /// Renewals of holds.
    renewals: 480,
    /// Waits that were aborted because of a deadlock.
    deadlocks: 1,
    /// Locks that an operator took.
    forced: 39,
}
