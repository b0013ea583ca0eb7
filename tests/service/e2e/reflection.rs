//! Reflection, by which grpcurl and others learn the API: both versions of it list every service and know every method.

use std::collections::BTreeSet;

use leasehold_tests::{
    Coordinator,
    raw::{PROMPT, connect},
};
use prost::Message;
use prost_types::FileDescriptorProto;
use tokio_stream::StreamExt;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::{v1, v1alpha};

/// Prefix of the services that reflection itself adds.
const OWN: &str = "grpc.reflection.";

fn assert_services(listed: Vec<String>) {
    let listed: BTreeSet<_> = listed
        .into_iter()
        .filter(|name| !name.starts_with(OWN))
        .collect();
    let expected = [
        "grpc.health.v1.Health",
        "leasehold.v1.AdminService",
        "leasehold.v1.ElectionService",
        "leasehold.v1.LockService",
    ];
    assert_eq!(listed, expected.map(ToOwned::to_owned).into());
}

fn assert_method(files: &[Vec<u8>]) {
    let files = files
        .iter()
        .map(|file| FileDescriptorProto::decode(&file[..]).unwrap());
    let methods: Vec<_> = files
        .flat_map(|file| file.service)
        .flat_map(|service| service.method)
        .filter_map(|method| method.name)
        .collect();
    assert!(
        methods.iter().any(|name| name == "ForceRelease"),
        "{methods:?}"
    );
}

macro_rules! both_answers {
    ($version:ident, $channel:expr) => {{
        use $version::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
        };
        let request = |message_request| ServerReflectionRequest {
            host: String::new(),
            message_request: Some(message_request),
        };
        let symbol = "leasehold.v1.AdminService.ForceRelease".to_owned();
        let requests = tokio_stream::iter([
            request(MessageRequest::ListServices(String::new())),
            request(MessageRequest::FileContainingSymbol(symbol)),
        ]);
        let mut client = ServerReflectionClient::new($channel);
        let mut answers = client
            .server_reflection_info(requests)
            .await
            .unwrap()
            .into_inner();
        match answers.message().await.unwrap().unwrap().message_response {
            Some(MessageResponse::ListServicesResponse(list)) => {
                assert_services(
                    list.service
                        .into_iter()
                        .map(|service| service.name)
                        .collect(),
                );
            }
            other => panic!("{other:?}"),
        }
        match answers.message().await.unwrap().unwrap().message_response {
            Some(MessageResponse::FileDescriptorResponse(files)) => {
                assert_method(&files.file_descriptor_proto);
            }
            other => panic!("{other:?}"),
        }
    }};
}

#[tokio::test]
async fn both_versions_of_reflection_list_every_service() {
    let coordinator = Coordinator::in_process();
    let channel = connect(&coordinator.endpoint()).await;
    both_answers!(v1, channel.clone());
    both_answers!(v1alpha, channel);
}

#[tokio::test]
async fn a_stream_on_which_nothing_is_asked_any_more_ends() {
    use v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest,
    };
    let coordinator = Coordinator::in_process_with(["--handshake-timeout", "300ms"]);
    let mut client = ServerReflectionClient::new(connect(&coordinator.endpoint()).await);
    for asked in [0, 1] {
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let asks = tokio_stream::iter(vec![request; asked]).chain(tokio_stream::pending());
        let ended = tokio::time::timeout(PROMPT, async {
            let Ok(answers) = client.server_reflection_info(asks).await else {
                return 0;
            };
            let mut answers = answers.into_inner();
            let mut answered = 0;
            while let Ok(Some(_)) = answers.message().await {
                answered += 1;
            }
            answered
        });
        assert_eq!(ended.await.unwrap(), asked);
    }
}

#[tokio::test]
async fn the_health_of_every_service_of_ours_is_told() {
    let coordinator = Coordinator::in_process();
    coordinator.ready().await;
    let mut health = HealthClient::new(connect(&coordinator.endpoint()).await);
    for service in [
        "",
        "leasehold.v1.AdminService",
        "leasehold.v1.ElectionService",
        "leasehold.v1.LockService",
    ] {
        let service = service.to_owned();
        let response = health.check(HealthCheckRequest { service }).await;
        assert_eq!(
            response.unwrap().into_inner().status(),
            ServingStatus::Serving
        );
    }
}
