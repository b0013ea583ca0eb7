#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use futures_util::FutureExt;
use leasehold_proto::v1::{
    CampaignProclaim, CampaignResign, GrantedLock, LostLock, SessionHeartbeat, SessionHeartbeatAck,
    SessionNotGranted, SessionOpened, SessionQueued, SessionReleaseRequested, SessionReleased,
    SessionValueSet,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic_types::StatusExt;

use super::*;

const OWNER: [u8; 16] = [7; 16];

/// Returns a candidacy whose session is open and whose acquire was sent.
fn campaign() -> Campaign {
    let mut campaign = Campaign::default();
    campaign.begin("leader".to_owned(), b"first".to_vec());
    assert!(
        say(
            &mut campaign,
            UNASKED,
            Response::Opened(SessionOpened::default())
        )
        .is_empty()
    );
    match asked_next(&mut campaign) {
        Some(Request::Acquire(acquire)) => {
            assert_eq!(acquire.name, "leader");
            assert_eq!(acquire.value, b"first");
            assert_eq!(acquire.wait, None, "it waits for as long as it takes");
        }
        other => panic!("{other:?}"),
    }
    campaign
}

fn leading() -> Campaign {
    let mut campaign = campaign();
    assert_eq!(
        kinds(&say(&mut campaign, ACQUIRE, granted())),
        ["campaigning 0", "elected 5"]
    );
    campaign
}

fn say(campaign: &mut Campaign, request_id: u64, response: Response) -> Vec<Say> {
    campaign.on_answer(SessionResponse {
        request_id,
        response: Some(response),
    });
    said(campaign)
}

fn refuse(campaign: &mut Campaign, request_id: u64, reason: Reason) -> Vec<Say> {
    let failure = convert::failure(Refusal::new(reason, "no"));
    say(campaign, request_id, Response::Error(failure))
}

fn said(campaign: &mut Campaign) -> Vec<Say> {
    let said = std::iter::from_fn(|| campaign.next_response());
    said.map(|said| said.unwrap().response.unwrap()).collect()
}

/// Returns the reason with which the stream ends. The session is closed then.
fn fails(campaign: &mut Campaign) -> String {
    let status = campaign.next_response().unwrap().unwrap_err();
    assert!(matches!(asked_next(campaign), Some(Request::Close(_))));
    assert!(said(campaign).is_empty());
    status.get_details_error_info().unwrap().reason
}

/// Gives the campaign a message, and returns the request to the session and the immediate answers.
fn hear(campaign: &mut Campaign, ask: Ask) -> (Option<(u64, Request)>, Vec<Say>) {
    let asked = campaign.hear(CampaignRequest { request: Some(ask) });
    let asked = asked.map(|asked| (asked.request_id, asked.request.unwrap()));
    (asked, said(campaign))
}

fn asked_next(campaign: &mut Campaign) -> Option<Request> {
    campaign.next_request.take()?.request
}

fn proclaim(value: &[u8]) -> Ask {
    let value = value.to_vec();
    Ask::Proclaim(CampaignProclaim { value })
}

fn resign() -> Ask {
    Ask::Resign(CampaignResign {})
}

fn queued() -> Response {
    Response::Queued(SessionQueued {
        position: 3,
        ticket: OWNER.to_vec(),
    })
}

fn granted() -> Response {
    let lock = GrantedLock {
        name: "leader".to_owned(),
        owner_id: OWNER.to_vec(),
        fencing_token: 5,
        hold_count: 1,
        permits: 0,
    };
    Response::Granted(SessionGranted {
        locks: vec![lock],
        ..SessionGranted::default()
    })
}

fn not_granted() -> Response {
    Response::NotGranted(SessionNotGranted::default())
}

fn released(released: bool) -> Response {
    Response::Released(SessionReleased {
        released,
        hold_count: 0,
    })
}

fn value_set(value_set: bool) -> Response {
    Response::ValueSet(SessionValueSet { value_set })
}

fn heartbeat(acked_heartbeat: u64) -> Response {
    Response::Heartbeat(SessionHeartbeatAck {
        acked_heartbeat,
        valid_for: None,
        next_within: None,
    })
}

/// Returns the kinds of the messages, for comparison.
fn kinds(said: &[Say]) -> Vec<String> {
    said.iter()
        .map(|say| match say {
            Say::Campaigning(campaigning) => format!("campaigning {}", campaigning.position),
            Say::Elected(elected) => format!("elected {}", elected.fencing_token),
            Say::Proclaimed(_) => "proclaimed".to_owned(),
            Say::Heartbeat(ack) => format!("heartbeat {}", ack.acked_heartbeat),
            Say::Lost(lost) => format!("lost {:?}", lost.reason()),
            Say::Resigned(resigned) => format!("resigned {}", resigned.led),
            Say::Draining(_) => "draining".to_owned(),
            Say::ReleaseRequested(requested) => format!("asked: {}", requested.reason),
            Say::Error(failure) => failure.reason.clone(),
        })
        .collect()
}

fn assert_closes(campaign: &mut Campaign) {
    assert!(matches!(
        asked_next(campaign),
        Some(Request::Close(SessionClose {}))
    ));
    assert!(campaign.next_request.is_none());
    // Whatever still comes, the last word was said.
    for late in [heartbeat(9), value_set(true), not_granted(), granted()] {
        assert!(say(campaign, ACQUIRE, late).is_empty());
    }
    assert_eq!(hear(campaign, proclaim(b"late")), (None, Vec::new()));
    assert!(campaign.next_request.is_none());
    assert!(campaign.is_ending());
}

#[test]
fn it_is_told_of_its_place_and_then_of_its_election() {
    let mut campaign = campaign();
    assert_eq!(
        kinds(&say(&mut campaign, ACQUIRE, queued())),
        ["campaigning 3"]
    );
    assert_eq!(
        kinds(&say(&mut campaign, ACQUIRE, granted())),
        ["elected 5"]
    );
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
    assert_eq!(
        kinds(&say(&mut campaign, ACQUIRE, granted())),
        ["campaigning 0", "heartbeat 1", "NOT_LEADER", "elected 5"]
    );
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
    assert_eq!(
        hear(&mut campaign, proclaim(&[0; 4097])),
        (None, Vec::new())
    );
    assert_eq!(
        kinds(&say(&mut campaign, UNASKED, heartbeat(1))),
        ["heartbeat 1"]
    );
    assert!(say(&mut campaign, ids[1], value_set(true)).is_empty());
    assert_eq!(
        kinds(&refuse(&mut campaign, ids[0], Reason::StoreIndeterminate)),
        ["STORE_INDETERMINATE", "proclaimed", "INVALID_FIELD"]
    );
    let (asked, _) = hear(&mut campaign, proclaim(b"three"));
    let (id, _) = asked.unwrap();
    assert_eq!(
        kinds(&say(&mut campaign, id, value_set(false))),
        ["LOCK_LOST"]
    );
    assert!(
        campaign.next_request.is_none(),
        "the candidacy is as it was"
    );
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
        assert_eq!(
            (&release.name[..], &release.owner_id[..]),
            ("leader", &OWNER[..])
        );
        assert!(said.is_empty());
        assert!(campaign.is_ending());
        // A second resign and a proclaim behind it do nothing.
        assert_eq!(hear(&mut campaign, resign()), (None, Vec::new()));
        assert_eq!(hear(&mut campaign, proclaim(b"none")), (None, Vec::new()));
        assert!(say(&mut campaign, RESIGN, released(led)).is_empty());
        assert_eq!(
            kinds(&say(&mut campaign, proclaimed, value_set(true))),
            ["proclaimed".to_owned(), format!("resigned {led}")]
        );
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
    assert_eq!(
        kinds(&say(&mut campaign, ACQUIRE, not_granted())),
        ["resigned false"]
    );
    assert_closes(&mut campaign);
}

#[test]
fn a_grant_that_crosses_a_resign_is_given_back_and_not_told() {
    let mut campaign = campaign();
    say(&mut campaign, ACQUIRE, queued());
    hear(&mut campaign, resign());
    assert!(say(&mut campaign, ACQUIRE, granted()).is_empty());
    let release = asked_next(&mut campaign);
    assert!(matches!(release, Some(Request::Release(_))), "{release:?}");
    assert_eq!(
        kinds(&say(&mut campaign, RESIGN, released(true))),
        ["resigned true"]
    );
    assert_closes(&mut campaign);
}

#[test]
fn a_resign_before_the_store_has_answered_waits_for_what_it_is_to_end() {
    // It turns out to wait.
    let mut waiting = campaign();
    assert_eq!(hear(&mut waiting, resign()), (None, Vec::new()));
    assert!(waiting.is_ending());
    assert_eq!(
        kinds(&say(&mut waiting, ACQUIRE, queued())),
        ["campaigning 3"]
    );
    let cancel = asked_next(&mut waiting);
    assert!(matches!(cancel, Some(Request::Cancel(_))), "{cancel:?}");
    assert_eq!(
        kinds(&say(&mut waiting, ACQUIRE, not_granted())),
        ["resigned false"]
    );
    assert_closes(&mut waiting);
    // It turns out to lead.
    let mut elected = campaign();
    hear(&mut elected, resign());
    assert_eq!(
        kinds(&say(&mut elected, ACQUIRE, granted())),
        ["campaigning 0"]
    );
    let release = asked_next(&mut elected);
    assert!(matches!(release, Some(Request::Release(_))), "{release:?}");
    assert_eq!(
        kinds(&say(&mut elected, RESIGN, released(true))),
        ["resigned true"]
    );
    assert_closes(&mut elected);
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
    assert_eq!(kinds(&say(&mut campaign, UNASKED, lost)), ["lost Forced"]);
    assert_closes(&mut campaign);
}

#[test]
fn a_candidacy_that_can_not_be_had_ends_with_the_reason() {
    let refusal = |request_id, reason| SessionResponse {
        request_id,
        response: Some(Response::Error(convert::failure(Refusal::new(
            reason, "no",
        )))),
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
    candidacy
        .campaign
        .lock()
        .begin("leader".to_owned(), b"first".to_vec());
    let (messages, heard) = mpsc::unbounded_channel();
    let (answers, given) = mpsc::unbounded_channel();
    let mut requests = candidacy.requests(UnboundedReceiverStream::new(heard), None);
    let mut responses = Arc::clone(&candidacy).responses(UnboundedReceiverStream::new(given));
    let answer = |request_id, response| {
        let response = Some(response);
        answers
            .send(Ok(SessionResponse {
                request_id,
                response,
            }))
            .unwrap();
    };
    let kind = |request: Option<Result<SessionRequest, Status>>| {
        let request = request.unwrap().unwrap().request.unwrap();
        std::mem::discriminant(&request)
    };
    let acquire = Request::Acquire(SessionAcquire::default());
    assert_eq!(
        kind(requests.next().await),
        std::mem::discriminant(&acquire)
    );

    // Before the session is open: what the translator answers by itself waits for that.
    let early = Ask::Proclaim(CampaignProclaim::default());
    messages
        .send(Ok(CampaignRequest {
            request: Some(early),
        }))
        .unwrap();
    messages
        .send(Ok(CampaignRequest {
            request: Some(resign()),
        }))
        .unwrap();
    drop(messages);
    assert!(
        requests.next().now_or_never().is_none(),
        "the end is no end"
    );
    assert!(responses.next().now_or_never().is_none());
    answer(UNASKED, Response::Opened(SessionOpened::default()));
    answer(ACQUIRE, queued());
    let cancel = Request::Cancel(SessionCancel::default());
    let (said, asked) = tokio::join!(
        responses.by_ref().take(2).collect::<Vec<_>>(),
        requests.next()
    );
    let said = said.into_iter().map(|said| said.unwrap().response.unwrap());
    assert_eq!(
        kinds(&said.collect::<Vec<_>>()),
        ["campaigning 3", "NOT_LEADER"]
    );
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
    assert_eq!(
        kinds(&refuse(&mut campaign, UNASKED, Reason::InvalidField)),
        ["INVALID_FIELD"]
    );
    assert!(campaign.next_request.is_none());
    assert!(!campaign.is_ending());
}
