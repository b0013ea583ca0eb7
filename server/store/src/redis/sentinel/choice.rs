//! Choice of the answer to believe when sentinels differ.

use super::super::address::Address;

/// Report of a sentinel on the master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) address: Address,
    /// The epoch, which rises with every fail-over: a sentinel that has missed one reports a smaller one.
    pub(super) epoch: u64,
}

/// Chooses the report with the newest epoch, and of several the one that most sentinels give.
///
/// A newer epoch than the `known` one counts at once, even from one sentinel, because it has won the vote of a majority. Any other
/// report replaces the known one only if more than half of all `sentinels` give it, as after they were set up again: an older
/// epoch from a few comes from sentinels that missed a fail-over.
pub(super) fn choose<'a>(
    known: Option<&'a Report>,
    reports: &[&'a Report],
    sentinels: usize,
) -> Option<&'a Report> {
    let votes = |report: &Report| {
        let same = reports
            .iter()
            .filter(|other| other.address == report.address);
        same.count()
    };
    // In reverse, because the last of equals wins, and the order of the URL should decide.
    let newest = reports.iter().rev().copied();
    let newest = newest.max_by_key(|report| (report.epoch, votes(report)));
    match (known, newest) {
        (Some(known), Some(newest))
            if newest.epoch <= known.epoch && 2 * votes(newest) <= sentinels =>
        {
            Some(known)
        }
        (known, newest) => newest.or(known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(host: &str, epoch: u64) -> Report {
        Report {
            address: Address::new(host, 6379),
            epoch,
        }
    }

    fn chosen(known: Option<(&str, u64)>, reports: &[(&str, u64)]) -> Option<(String, u64)> {
        let known = known.map(|(host, epoch)| report(host, epoch));
        let reports: Vec<_> = reports
            .iter()
            .map(|(host, epoch)| report(host, *epoch))
            .collect();
        let reports: Vec<_> = reports.iter().collect();
        choose(known.as_ref(), &reports, 3)
            .map(|report| (report.address.host.to_string(), report.epoch))
    }

    #[test]
    fn the_newest_epoch_counts() {
        let told = [("a", 4), ("b", 5), ("a", 4)];
        assert_eq!(chosen(None, &told), Some(("b".into(), 5)));
        assert_eq!(chosen(Some(("a", 4)), &told), Some(("b".into(), 5)));
        assert_eq!(chosen(Some(("a", 4)), &[("b", 5)]), Some(("b".into(), 5)));
        assert_eq!(chosen(None, &[]), None);
    }

    #[test]
    fn sentinels_that_missed_a_fail_over_are_not_believed() {
        let known = Some(("b", 5));
        for told in [&[("a", 4)][..], &[("a", 4), ("c", 3)], &[("a", 5)], &[]] {
            assert_eq!(chosen(known, told), Some(("b".into(), 5)), "{told:?}");
        }
    }

    #[test]
    fn a_majority_that_was_set_up_anew_is_believed() {
        let known = Some(("b", 5));
        assert_eq!(chosen(known, &[("c", 0), ("c", 0)]), Some(("c".into(), 0)));
        assert_eq!(
            chosen(known, &[("c", 5), ("b", 4), ("c", 5)]),
            Some(("c".into(), 5))
        );
    }

    #[test]
    fn of_equal_epochs_the_more_frequent_counts_and_then_the_first() {
        assert_eq!(
            chosen(None, &[("a", 1), ("b", 1), ("b", 1)]),
            Some(("b".into(), 1))
        );
        assert_eq!(chosen(None, &[("a", 1), ("b", 1)]), Some(("a".into(), 1)));
    }
}
