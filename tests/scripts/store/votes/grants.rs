//! Acquires, releases and losses of masters in any order: at no time do two hold the lock on a majority that votes, and
//! tokens rise. A model of the masters, decided by the rules.

use leasehold_store::quorum::decide::{Tally, Verdict, Vote, majority, token};
use proptest::{collection::vec, prelude::*};

const MASTERS: usize = 5;
/// Number of steps for which a hold stands unless it is released.
const HOLD: usize = 6;

#[derive(Clone, Debug, Default)]
struct Master {
    holder: Option<(usize, usize)>,
    counter: i64,
    /// Without a vote before this step.
    votes_from: usize,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// An acquire that reaches these masters in the first round, and these in the second.
    Acquire(u8, u8),
    Release(u8),
    /// A master comes back empty.
    Lose(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (any::<u8>(), any::<u8>()).prop_map(|(one, two)| Event::Acquire(one, two)),
        2 => any::<u8>().prop_map(Event::Release),
        1 => (0..MASTERS).prop_map(Event::Lose),
    ]
}

proptest! {
    #![proptest_config(super::config())]

    #[test]
    fn exclusion_and_rising_tokens(events in vec(event(), 1..120)) {
        let mut masters = vec![Master::default(); MASTERS];
        let mut current: Option<(usize, usize)> = None;
        let mut last = 0;
        for (now, event) in events.into_iter().enumerate() {
            for master in &mut masters {
                if master.holder.is_some_and(|(_, until)| until <= now) {
                    master.holder = None;
                }
            }
            let reached = |mask: u8, master: usize| mask & (1 << master) != 0;
            match event {
                Event::Acquire(one, two) => {
                    let owner = now;
                    let mut first = Tally::new(MASTERS);
                    let mut proposed = Vec::new();
                    for (at, master) in masters.iter_mut().enumerate() {
                        let is_free = master.holder.is_none();
                        if reached(one, at) && is_free {
                            master.holder = Some((owner, now + HOLD));
                            // The clock, which never runs far behind.
                            proposed.push((master.counter + 1).max(i64::try_from(now).unwrap() * 1000));
                        }
                        match (reached(one, at) && master.votes_from <= now, is_free) {
                            (true, true) => first.count(Vote::Yes),
                            (true, false) => first.count(Vote::No),
                            _ => first.count(Vote::Out),
                        }
                    }
                    let token = token(proposed, None);
                    let mut second = Tally::new(MASTERS);
                    let is_first = first.attempt() == Some(Verdict::Agreed);
                    for (at, master) in masters.iter_mut().enumerate() {
                        let is_ours = master.holder.is_some_and(|(holder, _)| holder == owner);
                        if is_first && reached(two, at) && is_ours && master.counter < token {
                            master.counter = token;
                            if master.votes_from <= now {
                                second.count(Vote::Yes);
                                continue;
                            }
                        }
                        second.count(Vote::Out);
                    }
                    if second.attempt() == Some(Verdict::Agreed) {
                        prop_assert!(current.is_none_or(|(_, until)| until <= now));
                        prop_assert!(token > last, "{} after {}", token, last);
                        last = token;
                        current = Some((owner, now + HOLD));
                    } else {
                        // Taken back where it can be.
                        for (at, master) in masters.iter_mut().enumerate() {
                            if reached(two, at) && master.holder.is_some_and(|(holder, _)| holder == owner) {
                                master.holder = None;
                            }
                        }
                    }
                }
                Event::Release(mask) => {
                    if let Some((owner, _)) = current.take() {
                        for (at, master) in masters.iter_mut().enumerate() {
                            if reached(mask, at) && master.holder.is_some_and(|(holder, _)| holder == owner) {
                                master.holder = None;
                                master.counter += 1;
                            }
                        }
                    }
                }
                Event::Lose(master) => {
                    masters[master] = Master { votes_from: now + 2 * HOLD, ..Master::default() };
                }
            }
        }
        prop_assert_eq!(majority(MASTERS), 3);
    }
}
