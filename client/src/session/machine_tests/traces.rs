//! Requests tell the trace that they are part of, whenever they come to be sent.

use super::{life::draining, *};
use crate::trace::TraceContext;

fn trace(span: u8) -> Option<TraceContext> {
    TraceContext::new([1; 16], [span; 8], 1)
}

/// Returns the traces of the next requests.
fn sent(session: &mut Session) -> Vec<Option<TraceContext>> {
    let outputs = std::iter::from_fn(|| session.machine.next_output());
    let sent = outputs.filter_map(|output| match output {
        Output::Send(_, request) => Some(request.traceparent.parse().ok()),
        _ => None,
    });
    sent.collect()
}

/// Returns a session that holds a lock, and is about to move to another stream: requests are put off.
fn moving() -> Session {
    let mut session = Session::holding(0);
    session.message(10, 0, draining());
    session.connect(20).unwrap();
    session
}

#[test]
fn an_acquire_that_is_asked_again_is_part_of_the_same_trace() {
    let mut session = Session::open_at(0);
    let spec = AcquireSpec {
        trace: trace(1),
        ..exclusive(&[1])
    };
    session.machine.acquire(at(1), 1, spec, 1);
    assert_eq!(sent(&mut session), [trace(1)]);
    session.stream_ends(2, StreamEnd::Left);
    session.seen();
    session.stream = session.machine.connected(at(3), "http://test".into());
    // The `open` is part of none.
    assert_eq!(sent(&mut session), [None]);
    let opened = v1::SessionResponse {
        request_id: 1,
        response: Some(moves::opened(&[])),
    };
    session.machine.message(at(4), session.stream, opened);
    assert_eq!(sent(&mut session), [trace(1)]);
}

#[test]
fn requests_put_off_keep_the_trace_in_which_they_were_made() {
    let mut session = moving();
    let (key, lease) = session.leases[0].clone();
    session
        .machine
        .change(at(30), key, Change::Downgrade, trace(2), 70);
    assert_eq!(sent(&mut session), []);
    session.machine.attempt_failed(at(40), Fate::Declined);
    assert_eq!(sent(&mut session), [trace(2)]);

    let mut session = moving();
    lease.end(at(30), LostReason::Released).ok();
    let key = session.leases[0].0;
    session.machine.release(at(30), key, trace(3), Some(80));
    assert_eq!(sent(&mut session), []);
    session.machine.attempt_failed(at(40), Fate::Declined);
    assert_eq!(sent(&mut session), [trace(3)]);
}
