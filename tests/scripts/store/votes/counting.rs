//! Properties of the count of votes.

use std::time::Duration;

use leasehold_store::quorum::decide::{
    Obstacle, Tally, Verdict, Vote, free_in, is_race, largest, majority, stands, token,
};
use proptest::{collection::vec, prelude::*};

fn votes() -> impl Strategy<Value = Vec<Vote>> {
    vec(
        prop_oneof![Just(Vote::Yes), Just(Vote::No), Just(Vote::Out)],
        3..=9,
    )
}

fn tally(masters: usize, votes: &[Vote]) -> Tally {
    let mut tally = Tally::new(masters);
    for vote in votes {
        tally.count(*vote);
    }
    tally
}

fn number(votes: &[Vote], of: Vote) -> usize {
    votes.iter().filter(|vote| **vote == of).count()
}

proptest! {
    #![proptest_config(super::config())]

    /// A verdict stands whatever comes after it, and comes with the last vote at the latest.
    #[test]
    fn a_verdict_is_certain(votes in votes()) {
        for rule in [Tally::attempt, Tally::standing] {
            let whole = rule(&tally(votes.len(), &votes));
            prop_assert!(whole.is_some());
            for heard in 0..votes.len() {
                let early = rule(&tally(votes.len(), &votes[..heard]));
                prop_assert!(early.is_none() || early == whole, "{early:?} became {whole:?}");
            }
        }
    }

    /// The coordinator waits for no vote that can't change the outcome.
    #[test]
    fn no_vote_is_waited_for_in_vain(votes in votes(), heard in 0_usize..9) {
        let heard = heard.min(votes.len());
        for rule in [Tally::attempt, Tally::standing] {
            if rule(&tally(votes.len(), &votes[..heard])).is_some() {
                continue;
            }
            let ends = [Vote::Yes, Vote::No, Vote::Out].map(|rest| {
                let mut all = votes[..heard].to_vec();
                all.resize(votes.len(), rest);
                rule(&tally(votes.len(), &all))
            });
            prop_assert!(ends.iter().any(|end| *end != ends[0]), "{ends:?}");
        }
    }

    /// Only a majority of all masters grants; two of them have one in common.
    #[test]
    fn only_a_majority_of_all_masters_agrees(votes in votes()) {
        let masters = votes.len();
        let agreed = number(&votes, Vote::Yes) >= majority(masters);
        for rule in [Tally::attempt, Tally::standing] {
            let verdict = rule(&tally(masters, &votes)).unwrap();
            prop_assert_eq!(verdict == Verdict::Agreed, agreed);
        }
        prop_assert!(2 * majority(masters) > masters);
    }

    /// A grant that may stand is given up only if no majority could have it, even if all silent masters had granted it.
    #[test]
    fn nothing_is_given_up_that_may_stand(votes in votes()) {
        let verdict = tally(votes.len(), &votes).standing().unwrap();
        let most = votes.len() - number(&votes, Vote::No);
        prop_assert_eq!(verdict == Verdict::Refused, most < majority(votes.len()));
    }

    /// An attempt is refused only by a majority that voted; with fewer votes nobody can tell.
    #[test]
    fn too_few_votes_are_no_refusal(votes in votes()) {
        let tally = tally(votes.len(), &votes);
        let enough = tally.votes() >= majority(votes.len());
        prop_assert_eq!(tally.attempt() == Some(Verdict::Undecided), !enough);
    }

    /// The token that is written back is larger than that of any grant that a majority had written back: one of those that
    /// propose knows of it.
    #[test]
    fn the_token_is_above_what_any_majority_knows(
        counters in vec(0_i64..1000, 5),
        granted in 0_i64..2000,
        wrote in Just((0..5).collect::<Vec<usize>>()).prop_shuffle(),
        votes in Just((0..5).collect::<Vec<usize>>()).prop_shuffle(),
        above in proptest::option::of(0_i64..3000),
    ) {
        let mut counters = counters;
        for master in &wrote[..3] {
            counters[*master] = counters[*master].max(granted);
        }
        let proposed = votes[..3].iter().map(|master| counters[*master] + 1);
        let token = token(proposed, above);
        prop_assert!(token > granted);
        prop_assert!(above.is_none_or(|above| token > above));
    }

    /// A grant whose reply was lost stands where a majority has it, unless it is being undone; what is written back then is
    /// spared by what undoes it.
    #[test]
    fn a_grant_that_is_being_undone_does_not_stand(
        standing in vec(1_i64..4, 0..=5),
        fresh in 4_i64..9,
        undone in proptest::option::of(1_i64..9),
    ) {
        let stands = stands(5, &standing, undone);
        for token in 1..4 {
            let number = standing.iter().filter(|standing| **standing == token).count();
            let is_undone = undone.is_some_and(|undone| undone >= token);
            prop_assert_eq!(stands == Some(token), number >= majority(5) && !is_undone);
        }
        let written = token(standing.into_iter().chain([fresh]), undone);
        prop_assert!(undone.is_none_or(|undone| written > undone));
    }

    /// A holder that is settled anywhere, or has a majority, is nobody to race with.
    #[test]
    fn nobody_races_with_a_holder(holders in vec((0_u8..3, any::<bool>()), 1..=5)) {
        let obstacles: Vec<_> = holders
            .iter()
            .map(|(holder, is_settled)| Obstacle { holder, left: None, is_settled: *is_settled })
            .collect();
        let (_, most) = largest(holders.iter().map(|(holder, _)| holder)).unwrap();
        let expected = most < 3 && holders.iter().all(|(_, is_settled)| !is_settled);
        prop_assert_eq!(is_race(5, &obstacles), expected);
    }

    /// A majority is free at the computed time, and not before.
    #[test]
    fn it_is_known_when_enough_masters_are_free(left in vec(proptest::option::of(0_u64..9), 1..=5)) {
        let left: Vec<_> = left.into_iter().map(|left| left.map(Duration::from_secs)).collect();
        let free = 5 - left.len();
        let free_at = |when: Duration| {
            free + left.iter().flatten().filter(|left| **left <= when).count() >= majority(5)
        };
        match free_in(5, free, left.iter().copied()) {
            Some(when) => {
                prop_assert!(free_at(when));
                prop_assert!(when.is_zero() || !free_at(when - Duration::from_nanos(1)));
            }
            None => prop_assert!(!free_at(Duration::from_secs(100))),
        }
    }
}
