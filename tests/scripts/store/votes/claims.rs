//! Properties of the decision on a hold that is renewed or resumed, from the masters' claims.

use leasehold_core::command::Loss;
use leasehold_store::quorum::{
    claims::{Claim, Claims, Decision, Mend},
    decide::majority,
};
use proptest::{collection::vec, prelude::*};

/// Answer of a master, and whether it has a vote; `None` if it does not answer.
type Said = Option<(Claim, bool)>;

fn said() -> impl Strategy<Value = Said> {
    let loss = prop_oneof![Just(Loss::Taken), Just(Loss::Expired), Just(Loss::Resumed)];
    let claim = prop_oneof![
        4 => (1..=2_i64).prop_map(|token| Claim::Has { token }),
        2 => Just(Claim::Lacks),
        2 => loss.prop_map(Claim::Gone),
    ];
    prop_oneof![
        1 => Just(None),
        5 => (claim, prop::bool::weighted(0.9)).prop_map(Some),
    ]
}

fn all() -> impl Strategy<Value = Vec<Said>> {
    vec(said(), 3..=9)
}

fn claims(masters: usize, said: &[Said]) -> Claims {
    let mut claims = Claims::new(masters);
    for (place, said) in said.iter().enumerate() {
        if let Some((claim, counts)) = said {
            claims.note(place, *claim, *counts);
        }
    }
    claims
}

fn votes(said: &[Said], is: impl Fn(Claim) -> bool) -> usize {
    let said = said.iter().flatten();
    said.filter(|(claim, counts)| *counts && is(*claim)).count()
}

fn is_gone(claim: Claim) -> bool {
    matches!(claim, Claim::Gone(_))
}

proptest! {
    #![proptest_config(super::config())]

    /// A hold stands if and only if a majority of all masters has it with one token.
    #[test]
    fn only_a_majority_has_it(said in all()) {
        let claims = claims(said.len(), &said);
        let agreed = (1..=2).find(|token| {
            votes(&said, |claim| claim == Claim::Has { token: *token }) >= majority(said.len())
        });
        match claims.decision() {
            Some(Decision::Stands { token }) => prop_assert_eq!(agreed, Some(token)),
            _ => prop_assert_eq!(agreed, None),
        }
    }

    /// A renewal or a resume is refused only if the masters that may still have the hold are no majority, or a majority lacks it.
    #[test]
    fn nothing_is_refused_that_may_stand(said in all()) {
        let claims = claims(said.len(), &said);
        if let Some(Decision::Refused(loss)) = claims.decision() {
            let lack = votes(&said, |claim| claim == Claim::Lacks);
            let may_have = said.len() - votes(&said, is_gone);
            prop_assert!(may_have < majority(said.len()) || lack >= majority(said.len()));
            let was_resumed = votes(&said, |claim| claim == Claim::Gone(Loss::Resumed)) > 0;
            prop_assert_eq!(loss == Loss::Resumed, was_resumed);
            prop_assert_eq!(claims.was_resumed(), was_resumed);
        }
    }

    /// A master that had only missed something is as one that lacks the hold and has not voted, and may vote again.
    #[test]
    fn a_loss_that_is_taken_back_is_as_if_it_had_not_been_reported(said in all(), place in 0_usize..9) {
        let place = place % said.len();
        let mut silent = said.clone();
        silent[place] = None;
        let mut waived = claims(said.len(), &said);
        waived.note(place, Claim::Lacks, false);
        let mut silent = claims(said.len(), &silent);
        prop_assert_eq!(waived.decision(), silent.decision());
        if let Some(Mend { token, places }) = waived.mend() {
            prop_assert!(places.contains(&place) && waived.has_token(token));
            waived.note(place, Claim::Has { token }, true);
            silent.note(place, Claim::Has { token }, true);
            prop_assert_eq!(waived.decision(), silent.decision());
        }
    }

    /// A decision stands whatever the other masters answer.
    #[test]
    fn a_decision_is_certain(said in all(), heard in 0_usize..9) {
        let heard = heard.min(said.len());
        let early = claims(said.len(), &said[..heard]).decision();
        let whole = claims(said.len(), &said).decision();
        match early {
            None => {}
            Some(Decision::Stands { .. }) => prop_assert_eq!(early, whole),
            Some(Decision::Refused(_)) => prop_assert!(matches!(whole, Some(Decision::Refused(_)))),
        }
    }

    /// Masters are waited for as long as their answers may bring a decision.
    #[test]
    fn whoever_may_decide_is_waited_for(said in all(), heard in 0_usize..9) {
        let heard = heard.min(said.len());
        if claims(said.len(), &said).decision().is_some() {
            prop_assert!(claims(said.len(), &said[..heard]).may_decide(said.len() - heard));
        }
    }

    /// A token is written again only if a voter has it, only to masters that lack it and can take it, and only if a majority
    /// has no other token.
    #[test]
    fn it_is_set_where_it_lacks(said in all()) {
        let claims = claims(said.len(), &said);
        let Some(Mend { token, places }) = claims.mend() else {
            return Ok(());
        };
        let with_it = votes(&said, |claim| claim == Claim::Has { token });
        prop_assert!(with_it > 0);
        for place in &places {
            match said[*place] {
                Some((Claim::Lacks, _)) => {}
                Some((Claim::Has { token: has }, _)) => prop_assert!(has < token),
                other => prop_assert!(false, "{other:?}"),
            }
        }
        if let Some(Decision::Stands { token: agreed }) = claims.decision() {
            prop_assert_eq!(agreed, token);
        }
        // Set wherever it was lacking, it stands wherever it may.
        let mut mended = claims.clone();
        for place in &places {
            mended.note(*place, Claim::Has { token }, true);
        }
        let newer = votes(&said, |claim| matches!(claim, Claim::Has { token: has } if has > token));
        let may_have = said.iter().flatten().filter(|(claim, _)| !is_gone(*claim)).count();
        let abstaining = said.iter().flatten().filter(|(claim, counts)| {
            !*counts && *claim == Claim::Has { token }
        });
        let abstaining_newer = said.iter().flatten().filter(|(claim, counts)| {
            !*counts && matches!(claim, Claim::Has { token: has } if *has > token)
        });
        let stands = may_have - newer - abstaining.count() - abstaining_newer.count();
        prop_assert_eq!(
            mended.decision() == Some(Decision::Stands { token }),
            stands >= majority(said.len())
        );
    }
}

#[test]
fn a_majority_that_has_nothing_has_lost_it() {
    let lacking = [Some((Claim::Lacks, true)); 3];
    let has = [Some((Claim::Has { token: 1 }, true)); 2];
    let said: Vec<Said> = has.into_iter().chain(lacking).collect();
    let claims = claims(5, &said);
    assert_eq!(claims.decision(), Some(Decision::Refused(Loss::Deleted)));
    assert!(claims.may_be_anywhere());
    let lacking = claims_of_all(Claim::Lacks);
    assert!(!lacking.may_be_anywhere());
    assert!(Claims::new(5).may_be_anywhere());
}

#[test]
fn nobody_is_waited_for_whose_answer_decides_nothing() {
    let failed = claims(3, &[None, None, None]);
    assert!(!failed.may_decide(1));
    assert!(failed.may_decide(2));
}

fn claims_of_all(claim: Claim) -> Claims {
    claims(5, &[Some((claim, true)); 5])
}
