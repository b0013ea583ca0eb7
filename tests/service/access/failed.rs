//! Callers that repeatedly show no valid identity, beside others at the same address that do.

use std::time::Duration;

use futures_util::future::join_all;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{
    signed::site_of_ci,
    site::{Site, reason},
};

const FLAGS: [&str; 2] = ["--max-failed-authentications-per-second", "1"];
/// Calls at a time, of each kind. Many more than may fail in the time that they take.
const CALLS: usize = 40;
const LASTS: Duration = Duration::from_secs(60);

/// Makes so many calls at once, each with one of these tokens in turn; gives the answers to each.
async fn call<const N: usize>(
    site: &Site,
    tokens: [Option<&str>; N],
) -> [Vec<Result<(), Status>>; N] {
    let mut callers = Vec::new();
    for token in tokens {
        callers.push(site.caller(token).await);
    }
    let calls = (0..CALLS)
        .flat_map(|_| &callers)
        .map(|caller| caller.is_known());
    let mut answers = [const { Vec::new() }; N];
    for (number, answer) in join_all(calls).await.into_iter().enumerate() {
        answers[number % N].push(answer);
    }
    answers
}

/// Asserts that each call was refused: the first as unknown, and later most without a check.
fn assert_limited(answers: Vec<Result<(), Status>>) {
    let mut unseen = 0;
    for answer in answers {
        let refused = answer.unwrap_err();
        match reason(&refused).as_str() {
            "UNAUTHENTICATED" => assert_eq!(refused.code(), Code::Unauthenticated),
            "RATE_LIMITED" => {
                assert_eq!(refused.code(), Code::ResourceExhausted);
                let details = refused.get_error_details();
                let info = details.error_info().unwrap();
                assert_eq!(info.metadata["setting"], FLAGS[0].trim_start_matches("--"));
                assert_eq!(info.metadata["limit"], "1");
                let retry = details.retry_info().unwrap().retry_delay.unwrap();
                assert!(
                    retry > Duration::ZERO && retry <= Duration::from_secs(1),
                    "{retry:?}"
                );
                unseen += 1;
            }
            other => panic!("{other}: {refused:?}"),
        }
    }
    assert!(
        unseen > CALLS / 2,
        "{unseen} of {CALLS} were refused without a look"
    );
}

#[tokio::test]
async fn callers_that_fail_too_often_are_refused_unseen_and_verified_callers_are_not() {
    let (site, sign_for) = site_of_ci("", &FLAGS);
    let verified = sign_for(LASTS);
    site.caller(Some(&verified)).await.is_known().await.unwrap();

    // The same but for the first character of its signature.
    let (said, signature) = verified.rsplit_once('.').unwrap();
    let other = if signature.starts_with('A') { 'B' } else { 'A' };
    let forged = format!("{said}.{other}{}", &signature[1..]);

    // No signature is checked once the budget is used up: a good token that was never seen is refused as well.
    let failing = site.caller(Some(&forged)).await;
    let mut unseen = 0;
    for number in 1..=CALLS {
        failing.is_known().await.unwrap_err();
        let fresh = sign_for(LASTS + Duration::from_secs(number as u64));
        if let Err(refused) = site.caller(Some(&fresh)).await.is_known().await {
            assert_eq!(reason(&refused), "RATE_LIMITED");
            unseen += 1;
        }
    }
    assert!(
        unseen > CALLS / 2,
        "{unseen} of {CALLS} were refused without a look"
    );

    let [forged, known] = call(&site, [Some(&forged), Some(&verified)]).await;
    assert_limited(forged);
    assert!(known.iter().all(Result::is_ok), "{known:?}");

    let [nobody, known] = call(&site, [None, Some(&verified)]).await;
    assert_limited(nobody);
    assert!(known.iter().all(Result::is_ok), "{known:?}");
}
