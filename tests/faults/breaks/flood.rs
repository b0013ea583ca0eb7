//! More requests at once than a session may have in flight.

use std::{collections::BTreeMap, time::Duration};

use leasehold_proto::v1::{SessionSetValue, session_request::Request, session_response::Response};
use leasehold_tests::{Coordinator, RawSession, RedisServer, alone::alone, raw::PROMPT, report};
use tonic::Code;

const TTL: Duration = Duration::from_secs(60);
const AT_MOST: usize = 1_024;
const REQUESTS: usize = 1_500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_the_bound_are_refused_while_redis_is_stopped_and_the_session_lives() {
    let _alone = alone().await;
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let held = session.acquire("flood").await;

    redis.stop();
    let mut first = None;
    let sending = async {
        for number in 0..REQUESTS {
            let request = Request::SetValue(SessionSetValue {
                name: "flood".to_owned(),
                owner_id: held.lock.owner_id.clone(),
                value: number.to_string().into_bytes(),
            });
            let id = session.send(request).await;
            first.get_or_insert(id);
        }
    };
    tokio::time::timeout(PROMPT, sending)
        .await
        .expect("the coordinator reads on");
    let first = first.unwrap();

    let mut answers = BTreeMap::new();
    let mut refused = 0;
    let mut running = false;
    while answers.len() < REQUESTS {
        let message = session.next(2 * PROMPT).await.expect("the stream is up");
        let message = message.expect("the stream is up");
        let answer = match message.response.unwrap() {
            Response::ValueSet(set) => {
                assert!(set.value_set);
                "set".to_owned()
            }
            Response::Error(failure) if failure.reason == "TOO_MANY_REQUESTS" => {
                assert_eq!(failure.code, Code::ResourceExhausted as i32, "{failure:?}");
                refused += 1;
                failure.reason
            }
            Response::Error(failure) => {
                assert_eq!(failure.code, Code::Unavailable as i32, "{failure:?}");
                failure.reason
            }
            other => panic!("{other:?}"),
        };
        let earlier = answers.insert(message.request_id, answer);
        assert_eq!(earlier, None, "answered twice");
        if refused == REQUESTS - AT_MOST && !running {
            redis.cont();
            running = true;
        }
    }
    let mut kinds = BTreeMap::new();
    for answer in answers.values() {
        *kinds.entry(answer.as_str()).or_insert(0) += 1;
    }
    report(format!("{REQUESTS} requests at once: {kinds:?}"));
    assert_eq!(refused, REQUESTS - AT_MOST, "{kinds:?}");
    // The earlier ones were taken.
    let bound = first + AT_MOST as u64;
    for (id, answer) in &answers {
        assert_eq!(*id >= bound, answer == "TOO_MANY_REQUESTS", "{id}");
    }
    session.heartbeat().await;
    assert!(session.unread_unasked().is_empty());
    assert!(session.release(&held.lock).await);
    session.close().await;
}
