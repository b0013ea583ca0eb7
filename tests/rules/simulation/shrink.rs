//! Shrinking of a seed that fails, to the faults that it takes.

use std::{
    collections::BTreeSet,
    panic::{self, AssertUnwindSafe},
};

use crate::{
    weather::{DISTURBED, Weather},
    world::World,
};

/// Returns a smallest set of the numbers up to `count` with which it still fails: leaving any one out, or any run of them that was
/// tried, it does not. It has to fail with all of them.
fn smallest(count: u64, mut fails: impl FnMut(&BTreeSet<u64>) -> bool) -> BTreeSet<u64> {
    let mut kept: BTreeSet<u64> = (1..=count).collect();
    let mut size = kept.len().div_ceil(2);
    while size > 0 {
        let before = kept.len();
        let all: Vec<u64> = kept.iter().copied().collect();
        for run in all.chunks(size) {
            let mut fewer = kept.clone();
            fewer.retain(|number| !run.contains(number));
            if fails(&fewer) {
                kept = fewer;
            }
        }
        // One that was needed for another's sake may be needless now.
        if size > 1 || kept.len() == before {
            size /= 2;
        }
    }
    kept
}

/// Returns the faults that a seed takes to fail, and how many it had; `None` if it does not fail.
pub(crate) fn shrink(weather: Weather, seed: u64) -> Option<(BTreeSet<u64>, u64)> {
    let fails = |only: Option<&BTreeSet<u64>>| {
        let mut world = World::new(weather, seed);
        world.only = only.cloned();
        panic::catch_unwind(AssertUnwindSafe(|| world.live())).is_err()
    };
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let count = fails(None).then(|| DISTURBED.get());
    let shrunk = count.map(|count| (smallest(count, |only| fails(Some(only))), count));
    panic::set_hook(hook);
    shrunk
}

#[test]
fn what_it_takes_is_found_and_nothing_else() {
    for takes in [&[][..], &[1], &[3, 17], &[2, 3, 4, 40], &[40]] {
        let takes: BTreeSet<u64> = takes.iter().copied().collect();
        let mut tries = 0;
        let found = smallest(40, |only| {
            tries += 1;
            takes.is_subset(only)
        });
        assert_eq!(found, takes);
        assert!(tries < 130, "{tries}");
    }
}

#[test]
fn what_is_needed_for_another_s_sake_goes_with_it() {
    // 5 alone fails; 9 fails only beside 5 or 6.
    let found = smallest(10, |only| {
        only.contains(&9) && (only.contains(&5) || only.contains(&6))
    });
    assert_eq!(found.len(), 2);
}
