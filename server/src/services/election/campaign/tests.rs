//! Candidacies: answers in their order, their ends, and the streams of both directions.

mod messages;
mod resigns;

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use leasehold_proto::v1::{
    CampaignProclaim, CampaignResign, GrantedLock, LostLock, SessionHeartbeat, SessionHeartbeatAck,
    SessionNotGranted, SessionOpened, SessionQueued, SessionReleaseRequested, SessionReleased,
    SessionValueSet,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic_types::StatusExt;

use self::messages::*;
use super::*;
use crate::services::election::candidacy::Candidacy;

#[test]
fn it_is_told_of_its_place_and_then_of_its_election() {
    let mut campaign = campaign();
    assert_eq!(told(&mut campaign, ACQUIRE, queued()), ["campaigning 3"]);
    assert_eq!(told(&mut campaign, ACQUIRE, granted()), ["elected 5"]);
    assert!(campaign.next_request.is_none());
    assert!(!campaign.is_ending());
}

#[test]
fn nothing_comes_before_it_was_taken_in() {
    let mut campaign = campaign();
    let beat = Ask::Heartbeat(SessionHeartbeat { sequence: 1 });
    let (asked, said) = hear(&mut campaign, beat);
    assert!(matches!(asked, Some((UNASKED, Request::Heartbeat(_)))));
    assert!(said.is_empty());
    assert!(say(&mut campaign, UNASKED, heartbeat(1)).is_empty());
    assert_eq!(hear(&mut campaign, proclaim(b"early")), (None, Vec::new()));
    assert_eq!(campaign.answers.len(), 2);
    let said = told(&mut campaign, ACQUIRE, granted());
    let expected = ["campaigning 0", "heartbeat 1", "NOT_LEADER", "elected 5"];
    assert_eq!(said, expected);
    assert_eq!(campaign.answers.len(), 0);
}

#[test]
fn proclaims_are_answered_in_their_order_whatever_the_store_does() {
    let mut campaign = leading();
    let mut ids = Vec::new();
    for value in [&b"one"[..], b"two"] {
        let (asked, said) = hear(&mut campaign, proclaim(value));
        let Some((id, Request::SetValue(set))) = asked else {
            panic!("{asked:?}");
        };
        assert_eq!((&set.name[..], &set.owner_id[..]), ("leader", &OWNER[..]));
        assert_eq!(set.value, value);
        assert!(said.is_empty());
        ids.push(id);
    }
    // Refused at once, but answered in its turn; heartbeats overtake.
    let heard = hear(&mut campaign, proclaim(&[0; 4097]));
    assert_eq!(heard, (None, Vec::new()));
    assert_eq!(told(&mut campaign, UNASKED, heartbeat(1)), ["heartbeat 1"]);
    assert!(say(&mut campaign, ids[1], value_set(true)).is_empty());
    assert_eq!(
        kinds(&refuse(&mut campaign, ids[0], Reason::StoreIndeterminate)),
        ["STORE_INDETERMINATE", "proclaimed", "INVALID_FIELD"]
    );
    let (asked, _) = hear(&mut campaign, proclaim(b"three"));
    let (id, _) = asked.unwrap();
    assert_eq!(told(&mut campaign, id, value_set(false)), ["LOCK_LOST"]);
    assert!(
        campaign.next_request.is_none(),
        "the candidacy is as it was"
    );
}

#[test]
fn a_leader_is_told_that_it_is_asked_to_resign_and_leads_on() {
    let requested = || {
        Response::ReleaseRequested(SessionReleaseRequested {
            name: "leader".to_owned(),
            owner_id: OWNER.to_vec(),
            reason: "maintenance".to_owned(),
            within: None,
        })
    };
    let mut campaign = leading();
    let asked = say(&mut campaign, UNASKED, requested());
    assert_eq!(kinds(&asked), ["asked: maintenance"]);
    let (asked, _) = hear(&mut campaign, proclaim(b"still here"));
    assert!(matches!(asked, Some((_, Request::SetValue(_)))));
    // It resigns already.
    hear(&mut campaign, resign());
    assert!(say(&mut campaign, UNASKED, requested()).is_empty());
}

#[test]
fn a_loss_is_the_last_word() {
    let mut campaign = leading();
    hear(&mut campaign, proclaim(b"in flight"));
    let lock = LostLock {
        name: "leader".to_owned(),
        owner_id: OWNER.to_vec(),
        reason: LostReason::Forced.into(),
    };
    let lost = Response::Lost(SessionLost { locks: vec![lock] });
    assert_eq!(told(&mut campaign, UNASKED, lost), ["lost Forced"]);
    assert_closes(&mut campaign);
}

#[test]
fn a_candidacy_that_can_not_be_had_ends_with_the_reason() {
    let refusal = |request_id, reason| {
        let failure = convert::failure(Refusal::new(reason, "no"));
        SessionResponse {
            request_id,
            response: Some(Response::Error(failure)),
        }
    };
    let mut refused = campaign();
    refused.on_answer(refusal(ACQUIRE, Reason::StoreUnavailable));
    assert_eq!(fails(&mut refused), "STORE_UNAVAILABLE");

    let mut waiting = campaign();
    say(&mut waiting, ACQUIRE, queued());
    waiting.on_answer(SessionResponse {
        request_id: ACQUIRE,
        response: Some(not_granted()),
    });
    assert_eq!(fails(&mut waiting), "STORE_GARBLED", "never silently");

    let mut resigning = leading();
    hear(&mut resigning, resign());
    resigning.on_answer(refusal(RESIGN, Reason::StoreIndeterminate));
    assert_eq!(fails(&mut resigning), "STORE_INDETERMINATE");
}

#[tokio::test]
async fn both_directions_of_a_stream_wake_each_other() {
    let candidacy = Arc::<Candidacy>::default();
    let (name, value) = ("leader".to_owned(), b"first".to_vec());
    candidacy.campaign.lock().begin(name, value);
    let (messages, heard) = mpsc::unbounded_channel();
    let (answers, given) = mpsc::unbounded_channel();
    let mut requests = candidacy.requests(UnboundedReceiverStream::new(heard), None);
    let mut responses = Arc::clone(&candidacy).responses(UnboundedReceiverStream::new(given));
    let answer = |request_id, response| {
        let answer = SessionResponse {
            request_id,
            response: Some(response),
        };
        answers.send(Ok(answer)).unwrap();
    };
    let kind = |request: Option<Result<SessionRequest, Status>>| {
        let request = request.unwrap().unwrap().request.unwrap();
        std::mem::discriminant(&request)
    };
    let acquire = Request::Acquire(SessionAcquire::default());
    let asked = kind(requests.next().await);
    assert_eq!(asked, std::mem::discriminant(&acquire));

    // Before the session is open: what the translator answers by itself waits for that.
    let early = Ask::Proclaim(CampaignProclaim::default());
    for message in [early, resign()] {
        let request = Some(message);
        messages.send(Ok(CampaignRequest { request })).unwrap();
    }
    drop(messages);
    // The end is no end.
    assert!(requests.next().now_or_never().is_none());
    assert!(responses.next().now_or_never().is_none());
    answer(UNASKED, Response::Opened(SessionOpened::default()));
    answer(ACQUIRE, queued());
    let cancel = Request::Cancel(SessionCancel::default());
    let (said, asked) = tokio::join!(
        responses.by_ref().take(2).collect::<Vec<_>>(),
        requests.next()
    );
    let said = said.into_iter().map(|said| said.unwrap().response.unwrap());
    let said = kinds(&said.collect::<Vec<_>>());
    assert_eq!(said, ["campaigning 3", "NOT_LEADER"]);
    assert_eq!(kind(asked), std::mem::discriminant(&cancel));
    answer(ACQUIRE, not_granted());
    let close = Request::Close(SessionClose {});
    let (said, asked) = tokio::join!(responses.next(), requests.next());
    let said = said.unwrap().unwrap().response.unwrap();
    assert_eq!(kinds(&[said]), ["resigned false"]);
    assert_eq!(kind(asked), std::mem::discriminant(&close));
    drop(answers);
    assert!(responses.next().await.is_none());
}

#[test]
fn invalid_messages_are_refused_and_change_nothing() {
    let mut campaign = leading();
    let again = Ask::Campaign(CampaignOpen::default());
    let (asked, said) = hear(&mut campaign, again);
    assert!(asked.is_none());
    assert_eq!(kinds(&said), ["ALREADY_OPEN"]);
    assert!(campaign.hear(CampaignRequest { request: None }).is_none());
    let unknown = super::tests::said(&mut campaign);
    assert_eq!(kinds(&unknown), ["UNKNOWN_REQUEST"]);
    let refused = refuse(&mut campaign, UNASKED, Reason::InvalidField);
    assert_eq!(kinds(&refused), ["INVALID_FIELD"]);
    assert!(campaign.next_request.is_none());
    assert!(!campaign.is_ending());
}
