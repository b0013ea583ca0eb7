//! Claims of the masters on a hold that is taken over, and the decision that follows from them.
//!
//! The same owner id may have been granted in vain before: what counts together is what has the same token.

use leasehold_core::command::Loss;

use super::decide::{largest, majority};

/// What one master has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is there, under its next owner id, with this token.
    Has {
        /// The token.
        token: i64,
    },
    /// Nothing of it is known there, and it may be set again.
    Lacks,
    /// It is not there, and can't be.
    Gone(Loss),
}

/// What all masters have, as far as they said.
#[derive(Clone, Debug)]
pub struct Claims {
    /// By the place of the master: what it has, and whether that counts.
    of: Vec<Option<(Claim, bool)>>,
}

/// What a takeover came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A majority has it, with this token.
    Resumed {
        /// The token.
        token: i64,
    },
    /// No majority could have it, whatever the others say.
    Refused(Loss),
}

/// What may yet make a majority of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mend {
    /// The token of what is to be set.
    pub token: i64,
    /// Where.
    pub places: Vec<usize>,
}

impl Claims {
    /// Of so many masters, none of which has said anything.
    pub fn new(masters: usize) -> Self {
        Self {
            of: vec![None; masters],
        }
    }

    /// Notes what a master has, in place of what it said before.
    pub fn note(&mut self, place: usize, claim: Claim, counts: bool) {
        if let Some(of) = self.of.get_mut(place) {
            *of = Some((claim, counts));
        }
    }

    /// What it has come to, once that is certain.
    pub fn decision(&self) -> Option<Decision> {
        let needed = majority(self.of.len());
        let number = |is: &dyn Fn(Claim) -> bool| self.votes().filter(|claim| is(*claim)).count();
        if let Some(token) = self.agreed() {
            return Some(Decision::Resumed { token });
        }
        // A majority that has nothing has lost it: it is not made anew from what the others have.
        let is_missing = number(&|claim| claim == Claim::Lacks) >= needed;
        let gone = number(&|claim| matches!(claim, Claim::Gone(_)));
        if !is_missing && gone <= self.of.len() - needed {
            return None;
        }
        let mut losses: Vec<Loss> = self.losses().collect();
        losses.sort_by_key(|loss| match loss {
            Loss::Resumed => 0,
            Loss::Expired => 1,
            _ => 2,
        });
        let loss = match losses.first() {
            Some(loss @ (Loss::Resumed | Loss::Expired)) => *loss,
            Some(loss) if !is_missing => *loss,
            _ => Loss::Deleted,
        };
        Some(Decision::Refused(loss))
    }

    /// What to set where it is not, or with an older token; `None` where no master that has a vote has it.
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

    /// Whether a master has it, or may have it, as it has not said.
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

    /// The token that a majority has.
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
