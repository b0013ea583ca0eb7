//! Resignations: of a leader, of a candidate that waits, and those that cross a grant.

use super::*;

/// Gives a candidacy the last answer of its session, after which it says whether it led, and closes.
fn resigned(campaign: &mut Campaign, (request_id, answer): (u64, Response), led: bool) {
    let said = told(campaign, request_id, answer);
    assert_eq!(said, [format!("resigned {led}")]);
    assert_closes(campaign);
}

#[test]
fn a_leader_that_resigns_is_told_what_the_release_found() {
    for led in [true, false] {
        let mut campaign = leading();
        let (asked, _) = hear(&mut campaign, proclaim(b"last"));
        let (proclaimed, _) = asked.unwrap();
        let (asked, said) = hear(&mut campaign, resign());
        let Some((RESIGN, Request::Release(release))) = asked else {
            panic!("{asked:?}");
        };
        assert_eq!(&release.name[..], "leader");
        assert_eq!(&release.owner_id[..], &OWNER[..]);
        assert!(said.is_empty());
        assert!(campaign.is_ending());
        // A second resign and a proclaim behind it do nothing.
        assert_eq!(hear(&mut campaign, resign()), (None, Vec::new()));
        assert_eq!(hear(&mut campaign, proclaim(b"none")), (None, Vec::new()));
        assert!(say(&mut campaign, RESIGN, released(led)).is_empty());
        let said = told(&mut campaign, proclaimed, value_set(true));
        assert_eq!(said, ["proclaimed".to_owned(), format!("resigned {led}")]);
        assert_closes(&mut campaign);
    }
}

#[test]
fn a_candidate_that_resigns_while_it_waits_is_cancelled() {
    let mut campaign = campaign();
    say(&mut campaign, ACQUIRE, queued());
    let (asked, _) = hear(&mut campaign, resign());
    let Some((_, Request::Cancel(cancel))) = asked else {
        panic!("{asked:?}");
    };
    assert_eq!(cancel.acquire_request_id, ACQUIRE);
    resigned(&mut campaign, (ACQUIRE, not_granted()), false);
}

#[test]
fn a_grant_that_crosses_a_resign_is_given_back_and_not_told() {
    let mut campaign = campaign();
    say(&mut campaign, ACQUIRE, queued());
    hear(&mut campaign, resign());
    assert!(say(&mut campaign, ACQUIRE, granted()).is_empty());
    let release = asked_next(&mut campaign);
    assert!(matches!(release, Some(Request::Release(_))), "{release:?}");
    resigned(&mut campaign, (RESIGN, released(true)), true);
}

#[test]
fn a_resign_before_the_store_has_answered_waits_for_what_it_is_to_end() {
    // It turns out to wait.
    let mut waiting = campaign();
    assert_eq!(hear(&mut waiting, resign()), (None, Vec::new()));
    assert!(waiting.is_ending());
    assert_eq!(told(&mut waiting, ACQUIRE, queued()), ["campaigning 3"]);
    let cancel = asked_next(&mut waiting);
    assert!(matches!(cancel, Some(Request::Cancel(_))), "{cancel:?}");
    resigned(&mut waiting, (ACQUIRE, not_granted()), false);
    // It turns out to lead.
    let mut elected = campaign();
    hear(&mut elected, resign());
    assert_eq!(told(&mut elected, ACQUIRE, granted()), ["campaigning 0"]);
    let release = asked_next(&mut elected);
    assert!(matches!(release, Some(Request::Release(_))), "{release:?}");
    resigned(&mut elected, (RESIGN, released(true)), true);
}
