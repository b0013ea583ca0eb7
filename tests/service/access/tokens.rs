//! Static tokens: those that let a caller in, and those that do not.

use std::fs;

use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::site::{Site, reason};

#[tokio::test]
async fn only_a_whole_token_of_the_file_lets_in() {
    let site = Site::start("");
    let caller = site.newcomer("a").await;
    let token = caller.token.clone().unwrap();
    caller.is_known().await.unwrap();
    let line = fs::read_to_string(site.file("tokens")).unwrap();
    let hash = line.trim().split_once("sha256:").unwrap().1;
    let mut longer = token.clone();
    longer.push('0');
    for wrong in [
        "",
        "x",
        &token[..token.len() - 1],
        &token[3..],
        &longer,
        &token.to_uppercase(),
        hash,
    ] {
        let stranger = site.caller(Some(wrong)).await;
        let refused = stranger.is_known().await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{wrong}");
        assert_eq!(reason(&refused), "UNAUTHENTICATED");
        assert!(wrong.is_empty() || !refused.message().contains(wrong) || wrong == "x");
    }
    for header in [
        format!("Basic {token}"),
        token.clone(),
        format!("Bearer{token}"),
        "Bearer".to_owned(),
    ] {
        let mut request = tonic::Request::new(leasehold_proto::v1::ListSessionsRequest::default());
        request
            .metadata_mut()
            .insert("authorization", header.parse().unwrap());
        let refused = caller.admin().list_sessions(request).await.unwrap_err();
        assert_eq!(reason(&refused), "UNAUTHENTICATED", "{header}");
    }
    // Which of two counts would be anybody's guess.
    let mut request = caller.says(leasehold_proto::v1::ListSessionsRequest::default());
    request
        .metadata_mut()
        .append("authorization", "Bearer x".parse().unwrap());
    let refused = caller.admin().list_sessions(request).await.unwrap_err();
    assert_eq!(reason(&refused), "UNAUTHENTICATED");
}

#[tokio::test]
async fn a_file_that_makes_no_sense_leaves_the_one_before_in_force() {
    let site = Site::start("");
    let first = site.newcomer("a").await;
    let good = fs::read_to_string(site.file("tokens")).unwrap();
    site.replace("tokens", "a sha256:none\n");
    fs::remove_file(site.file("tokens")).unwrap();
    site.replace("tokens", &good);
    // It is read by now: whoever came with it is let in.
    let second = site.newcomer("b").await;
    first.is_known().await.unwrap();
    second.is_known().await.unwrap();
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_token_that_is_taken_away_while_the_file_cannot_be_read_is_gone_when_it_can() {
    use leasehold_tests::{Coordinator, process::limit_open_files, raw::connect, wait};

    use super::site::{Caller, NOTICED, ends, token};

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    let (token, line) = token("a");
    fs::write(&file, line).unwrap();
    let coordinator = Coordinator::process()
        .arguments(["--token-file", file.to_str().unwrap()])
        .start();
    let caller = Caller {
        channel: connect(&coordinator.endpoint()).await,
        token: Some(token),
    };
    let mut session = caller.session().await;
    // The file says nothing of why it can't be read, nor of when it can.
    let before = limit_open_files(coordinator.id(), 0);
    fs::write(&file, "").unwrap();
    let refused = "identities and permissions stay as they were";
    wait::until("the error to be logged", NOTICED, || async {
        let log = coordinator.log();
        if log.contains(refused) {
            Ok(())
        } else {
            Err(log)
        }
    })
    .await;
    caller.is_known().await.unwrap();
    limit_open_files(coordinator.id(), before);
    ends(&mut session, "UNAUTHENTICATED").await;
    assert_eq!(coordinator.log().matches(refused).count(), 1);
}

#[tokio::test]
async fn of_health_nothing_is_open_but_what_there_is() {
    let site = Site::start("");
    let nobody = site.caller(None).await;
    let mut client = tonic::client::Grpc::new(nobody.channel);
    for (method, code) in [("Check", Code::Ok), ("X", Code::Unauthenticated)] {
        client.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
        let path = format!("/grpc.health.v1.Health/{method}");
        let request = tonic::Request::new(HealthCheckRequest::default());
        let answer = client.unary(request, path.parse().unwrap(), codec).await;
        assert_eq!(
            answer.map_or_else(|status| status.code(), |_| Code::Ok),
            code
        );
    }
}
