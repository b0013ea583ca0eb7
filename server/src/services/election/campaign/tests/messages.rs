//! Candidacies at the points where tests begin, and the messages that they exchange with their candidate and their session.

use super::*;

pub(super) const OWNER: [u8; 16] = [7; 16];

/// Returns a candidacy whose session is open and whose acquire was sent.
pub(super) fn campaign() -> Campaign {
    let mut campaign = Campaign::default();
    campaign.begin("leader".to_owned(), b"first".to_vec());
    let opened = Response::Opened(SessionOpened::default());
    assert!(say(&mut campaign, UNASKED, opened).is_empty());
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

pub(super) fn leading() -> Campaign {
    let mut campaign = campaign();
    let said = told(&mut campaign, ACQUIRE, granted());
    assert_eq!(said, ["campaigning 0", "elected 5"]);
    campaign
}

pub(super) fn say(campaign: &mut Campaign, request_id: u64, response: Response) -> Vec<Say> {
    campaign.on_answer(SessionResponse {
        request_id,
        response: Some(response),
    });
    said(campaign)
}

/// Gives the campaign an answer of its session, and returns the kinds of what its candidate is told.
pub(super) fn told(campaign: &mut Campaign, request_id: u64, response: Response) -> Vec<String> {
    kinds(&say(campaign, request_id, response))
}

pub(super) fn refuse(campaign: &mut Campaign, request_id: u64, reason: Reason) -> Vec<Say> {
    let failure = convert::failure(Refusal::new(reason, "no"));
    say(campaign, request_id, Response::Error(failure))
}

pub(super) fn said(campaign: &mut Campaign) -> Vec<Say> {
    let said = std::iter::from_fn(|| campaign.next_response());
    said.map(|said| said.unwrap().response.unwrap()).collect()
}

/// Returns the reason with which the stream ends. The session is closed then.
pub(super) fn fails(campaign: &mut Campaign) -> String {
    let status = campaign.next_response().unwrap().unwrap_err();
    assert!(matches!(asked_next(campaign), Some(Request::Close(_))));
    assert!(said(campaign).is_empty());
    status.get_details_error_info().unwrap().reason
}

/// Gives the campaign a message, and returns the request to the session and the immediate answers.
pub(super) fn hear(campaign: &mut Campaign, ask: Ask) -> (Option<(u64, Request)>, Vec<Say>) {
    let asked = campaign.hear(CampaignRequest { request: Some(ask) });
    let asked = asked.map(|asked| (asked.request_id, asked.request.unwrap()));
    (asked, said(campaign))
}

pub(super) fn asked_next(campaign: &mut Campaign) -> Option<Request> {
    campaign.next_request.take()?.request
}

pub(super) fn proclaim(value: &[u8]) -> Ask {
    let value = value.to_vec();
    Ask::Proclaim(CampaignProclaim { value })
}

pub(super) fn resign() -> Ask {
    Ask::Resign(CampaignResign {})
}

pub(super) fn queued() -> Response {
    Response::Queued(SessionQueued {
        position: 3,
        ticket: OWNER.to_vec(),
    })
}

pub(super) fn granted() -> Response {
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

pub(super) fn not_granted() -> Response {
    Response::NotGranted(SessionNotGranted::default())
}

pub(super) fn released(released: bool) -> Response {
    Response::Released(SessionReleased {
        released,
        hold_count: 0,
    })
}

pub(super) fn value_set(value_set: bool) -> Response {
    Response::ValueSet(SessionValueSet { value_set })
}

pub(super) fn heartbeat(acked_heartbeat: u64) -> Response {
    Response::Heartbeat(SessionHeartbeatAck {
        acked_heartbeat,
        valid_for: None,
        next_within: None,
    })
}

/// Returns the kinds of the messages, for comparison.
pub(super) fn kinds(said: &[Say]) -> Vec<String> {
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

pub(super) fn assert_closes(campaign: &mut Campaign) {
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
