//! Claims of the masters on a hold that is renewed or resumed, and the decision that follows from them.
//!
//! An earlier grant to the same owner id may have failed: only claims with the same token count together.

use leasehold_core::command::Loss;

use super::decide::{largest, majority};

/// Claim of one master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The master has the hold, under the owner id with which it goes on, with this token.
    Has {
        /// The token.
        token: i64,
    },
    /// The master knows nothing of the hold, and it may be set again there.
    Lacks,
    /// The hold is not there, and can't be set again.
    Gone(Loss),
}

/// Claims of all masters that have answered.
#[derive(Clone, Debug)]
pub struct Claims {
    /// The claim of each master, by its place, and whether the claim counts.
    of: Vec<Option<(Claim, bool)>>,
}

/// Decision on a renewal or a resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A majority has it, with this token.
    Stands {
        /// The token.
        token: i64,
    },
    /// No majority can have it, whatever the others answer.
    Refused(Loss),
}

/// Repair that may still give it a majority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mend {
    /// The token of the hold to set.
    pub token: i64,
    /// The masters on which to set it.
    pub places: Vec<usize>,
}

impl Claims {
    /// Returns the claims of this many masters, none of which has answered.
    pub fn new(masters: usize) -> Self {
        Self {
            of: vec![None; masters],
        }
    }

    /// Notes a master's claim, in place of its earlier one.
    pub fn note(&mut self, place: usize, claim: Claim, counts: bool) {
        if let Some(of) = self.of.get_mut(place) {
            *of = Some((claim, counts));
        }
    }

    /// Returns the decision, once it is certain.
    pub fn decision(&self) -> Option<Decision> {
        let needed = majority(self.of.len());
        if let Some(token) = self.agreed() {
            return Some(Decision::Stands { token });
        }
        // If a majority lacks it, it is lost: it is not restored from the others.
        let lacking = self.votes().filter(|claim| *claim == Claim::Lacks).count();
        let is_missing = lacking >= needed;
        if !is_missing && self.losses().count() <= self.of.len() - needed {
            return None;
        }
        let severity = |loss: &Loss| match loss {
            Loss::Resumed => 0,
            Loss::Expired => 1,
            _ => 2,
        };
        Some(Decision::Refused(
            match self.losses().min_by_key(severity) {
                Some(loss @ (Loss::Resumed | Loss::Expired)) => loss,
                Some(loss) if !is_missing => loss,
                _ => Loss::Deleted,
            },
        ))
    }

    /// Returns whether there may be a decision once so many masters more have answered.
    pub fn may_decide(&self, unheard: usize) -> bool {
        let (all, needed) = (self.of.len(), majority(self.of.len()));
        let known = self.of.iter().flatten().count();
        known + unheard >= needed.min(all - needed + 1)
    }

    /// Returns the repair of masters that lack it or have an older token; `None` if no master with a vote has it.
    pub fn mend(&self) -> Option<Mend> {
        let token = self.agreed().or_else(|| self.tokens().max())?;
        let places = self.of.iter().enumerate().filter(|(_, of)| match of {
            Some((Claim::Has { token: has }, _)) => *has < token,
            Some((Claim::Lacks, _)) => true,
            Some((Claim::Gone(_), _)) | None => false,
        });
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        (!places.is_empty()).then_some(Mend { token, places })
    }

    /// Returns whether a master with a vote has it with this token.
    pub fn has_token(&self, token: i64) -> bool {
        self.tokens().any(|has| has == token)
    }

    /// Returns whether a master with a vote knows that another stream has resumed it.
    pub fn was_resumed(&self) -> bool {
        self.losses().any(|loss| loss == Loss::Resumed)
    }

    /// Returns whether a master has it, or has not answered.
    pub fn may_be_anywhere(&self) -> bool {
        let mut all = self.of.iter();
        all.any(|of| matches!(of, None | Some((Claim::Has { .. }, _))))
    }

    fn votes(&self) -> impl Iterator<Item = Claim> {
        let votes = self.of.iter().flatten().filter(|(_, counts)| *counts);
        votes.map(|(claim, _)| *claim)
    }

    fn losses(&self) -> impl Iterator<Item = Loss> {
        self.votes().filter_map(|claim| match claim {
            Claim::Gone(loss) => Some(loss),
            Claim::Has { .. } | Claim::Lacks => None,
        })
    }

    /// Returns the token that a majority has.
    fn agreed(&self) -> Option<i64> {
        let needed = majority(self.of.len());
        let (token, number) = largest(self.tokens())?;
        (number >= needed).then_some(token)
    }

    fn tokens(&self) -> impl Iterator<Item = i64> + Clone {
        let counted = self.of.iter().flatten().filter(|(_, counts)| *counts);
        counted.filter_map(|(claim, _)| match claim {
            Claim::Has { token } => Some(*token),
            Claim::Lacks | Claim::Gone(_) => None,
        })
    }
}
