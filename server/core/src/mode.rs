//! Lock modes (exclusive, shared, permits of a semaphore), and the rules of which can be held together.

use std::num::NonZeroU32;

use crate::{
    name::Invalid,
    planted::{Fault, is_planted},
};

/// Most permits that a semaphore may have.
pub const MAX_LIMIT: u32 = 1_000_000;

/// Mode in which a lock is held or requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// By one holder.
    #[default]
    Exclusive,
    /// Together with others that share it.
    Shared,
    /// As permits of a semaphore, together with others as long as enough are free.
    Semaphore(Permits),
}

/// Total of a semaphore's permits, and the revision of the decision for it.
///
/// A limit of a greater revision replaces the one in force; of a smaller revision, it gives way. Limits of the same revision
/// must agree. So the outcome does not depend on the order in which acquires with different limits arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// The number of permits.
    pub number: u32,
    /// The revision; 0 for one that replaces none.
    pub revision: u32,
}

/// Some of a semaphore's permits: at least one, at most all of them.
///
/// An acquire may leave their number to the store: it is granted as many as are free then, no more than it asks for and no
/// fewer than a least number. It is granted as soon as that one fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Permits {
    /// The number that is asked for at most, or that was granted.
    number: u32,
    /// The least number, if the acquire left the number to the store. Stays as it was asked for once they are granted.
    at_least: Option<NonZeroU32>,
    limit: Limit,
}

impl Permits {
    /// Returns `number` permits of a semaphore with this `limit`: 1 to `limit`, which is 1 to [`MAX_LIMIT`].
    pub fn new(number: u32, limit: u32) -> Result<Self, Invalid> {
        if !(1..=MAX_LIMIT).contains(&limit) {
            let what = format!("must be of a limit of 1 to {MAX_LIMIT}, not {limit}");
            return Err(Invalid(what));
        }
        if !(1..=limit).contains(&number) {
            let what = format!("must be 1 to the limit, {limit}, not {number}");
            return Err(Invalid(what));
        }
        let limit = Limit {
            number: limit,
            revision: 0,
        };
        Ok(Self {
            number,
            at_least: None,
            limit,
        })
    }

    /// Returns the same permits with a revision of the limit.
    #[must_use]
    pub const fn of_revision(self, revision: u32) -> Self {
        self.of_limit(Limit {
            revision,
            ..self.limit
        })
    }

    /// Returns the same permits of a semaphore with another limit.
    const fn of_limit(self, limit: Limit) -> Self {
        Self { limit, ..self }
    }

    /// Returns the same permits, whose number is left to the store: it grants no fewer than `least`. 0 leaves it nothing.
    #[must_use]
    pub const fn or_at_least(self, least: u32) -> Self {
        Self {
            at_least: NonZeroU32::new(least),
            ..self
        }
    }

    /// Returns the least number that the acquire puts up with; `None` if it did not leave the number to the store.
    pub fn at_least(self) -> Option<u32> {
        self.at_least.map(NonZeroU32::get)
    }

    /// Returns the number that has to be free so that they are granted.
    fn needed(self) -> u32 {
        self.at_least()
            .map_or(self.number, |least| least.min(self.number))
    }

    /// Returns those that are granted of a semaphore with this limit in force, of which `taken` are taken. They fit.
    pub(crate) fn granted(self, limit: Limit, taken: u64) -> Self {
        let free = u64::from(limit.number).saturating_sub(taken);
        let free = u32::try_from(free).unwrap_or(u32::MAX);
        self.of_limit(limit).reduced_to(free)
    }

    /// Returns as many of these permits as there are, but no more than `most`, and at least one.
    #[must_use]
    pub(crate) const fn reduced_to(self, most: u32) -> Self {
        let number = match most {
            0 => 1,
            most if most < self.number => most,
            _ => self.number,
        };
        Self { number, ..self }
    }

    /// Returns the number of permits.
    pub const fn number(self) -> u32 {
        self.number
    }

    /// Returns the semaphore's limit: that of the request or, of a hold, the one in force when it was granted.
    pub const fn limit(self) -> Limit {
        self.limit
    }
}

impl Mode {
    /// Returns the semaphore's limit; `None` in other modes.
    pub const fn limit(self) -> Option<Limit> {
        match self {
            Self::Semaphore(permits) => Some(permits.limit),
            Self::Exclusive | Self::Shared => None,
        }
    }

    /// Returns the permits that it takes of a semaphore, at most if it does not hold them yet; 0 in other modes.
    pub const fn permits(self) -> u32 {
        match self {
            Self::Semaphore(permits) => permits.number,
            Self::Exclusive | Self::Shared => 0,
        }
    }

    /// Returns the permits that have to be free so that it is granted; 0 in other modes.
    pub fn permits_needed(self) -> u32 {
        match self {
            Self::Semaphore(permits) => permits.needed(),
            Self::Exclusive | Self::Shared => 0,
        }
    }

    /// Returns the permits of a hold in this mode whose acquire left their number to the store; `None` for any other hold.
    pub fn permits_left_to_store(self) -> Option<u32> {
        match self {
            Self::Semaphore(permits) => permits.at_least.map(|_| permits.number),
            Self::Exclusive | Self::Shared => None,
        }
    }

    /// Returns the mode of a hold that was asked for in this mode: with the number of permits that the store granted, if that was
    /// left to it.
    #[must_use]
    pub const fn granted(self, permits: Option<u32>) -> Self {
        match (self, permits) {
            (Self::Semaphore(asked), Some(number)) => Self::Semaphore(asked.reduced_to(number)),
            (mode, _) => mode,
        }
    }

    /// Returns whether a hold in this mode gives every right of one in the `other` mode. A limit counts only where permits are
    /// taken.
    pub fn covers(self, other: Self) -> bool {
        match (self, other) {
            (Self::Exclusive, Self::Exclusive | Self::Shared) | (Self::Shared, Self::Shared) => {
                true
            }
            (Self::Semaphore(held), Self::Semaphore(asked)) => held.number >= asked.needed(),
            _ => false,
        }
    }
}

/// Part of a lock that its present holders take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Taken {
    /// Nothing: it is free.
    #[default]
    Nothing,
    /// It is shared.
    Shared,
    /// Permits of a semaphore.
    Permits {
        /// The sum over all holders.
        number: u64,
        /// The semaphore's limit in force.
        limit: u32,
    },
    /// All of it.
    All,
}

impl Taken {
    /// Returns whether one more hold in this mode fits, with as many permits as it needs. Permits never do if those are more than
    /// the limit in force, which is not looked at while nothing is taken.
    pub fn fits(self, mode: Mode) -> bool {
        match (self, mode) {
            (Self::Nothing, _) | (Self::Shared, Mode::Shared) => true,
            (Self::Permits { number, limit }, Mode::Semaphore(more)) => {
                let above = u64::from(is_planted(Fault::OneAboveLimit));
                number + u64::from(more.needed()) <= u64::from(limit) + above
            }
            _ => false,
        }
    }

    /// Returns the sum with one more hold in this mode.
    #[must_use]
    pub fn with(self, mode: Mode) -> Self {
        match (self, mode) {
            (_, Mode::Exclusive) => Self::All,
            (_, Mode::Shared) => Self::Shared,
            (Self::Permits { number, limit }, Mode::Semaphore(more)) => Self::Permits {
                number: number + u64::from(more.number),
                limit,
            },
            (_, Mode::Semaphore(permits)) => Self::Permits {
                number: u64::from(permits.number),
                limit: permits.limit.number,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(number: u32, limit: u32) -> Mode {
        Mode::Semaphore(Permits::new(number, limit).unwrap())
    }

    #[test]
    fn permits_are_bounded() {
        assert!(Permits::new(0, 3).is_err());
        assert!(Permits::new(4, 3).is_err());
        assert!(Permits::new(1, 0).is_err());
        assert!(Permits::new(1, MAX_LIMIT + 1).is_err());
        assert!(Permits::new(MAX_LIMIT, MAX_LIMIT).is_ok());
    }

    #[test]
    fn what_covers() {
        assert!(Mode::Exclusive.covers(Mode::Shared));
        assert!(!Mode::Shared.covers(Mode::Exclusive));
        assert!(permits(2, 3).covers(permits(1, 3)));
        assert!(!permits(1, 3).covers(permits(2, 3)));
        assert!(permits(2, 3).covers(permits(1, 4)));
        let two_or_more = Permits::new(5, 8).unwrap().or_at_least(2);
        assert!(permits(2, 8).covers(Mode::Semaphore(two_or_more)));
        assert!(!permits(1, 8).covers(Mode::Semaphore(two_or_more)));
        assert!(!Mode::Exclusive.covers(permits(1, 3)));
    }
}
