//! Opening handshakes: what is refused, origins of pages, and tokens.

use std::fs;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use leasehold_server::access::tokens::new_token;
use leasehold_tests::{
    Coordinator,
    http::{ACQUIRE, Http, SESSION, Version},
};
use serde_json::json;
use tokio_tungstenite::tungstenite::{Error, protocol::frame::coding::CloseCode};

use super::client::{address, dial};

const KEY: (&str, &str) = ("sec-websocket-key", "AAECAwQFBgcICQoLDA0ODw==");
const VERSION: (&str, &str) = ("sec-websocket-version", "13");
const OLD: (&str, &str) = ("sec-websocket-version", "8");
const UPGRADE: (&str, &str) = ("upgrade", "websocket");
const CONNECTION: (&str, &str) = ("connection", "keep-alive, Upgrade");
const PROTOCOL: &str = "sec-websocket-protocol";
/// Headers that are not right.
const SHORT: (&str, &str) = ("sec-websocket-key", "short");
const OTHER: (&str, &str) = (PROTOCOL, "other");
const TORN: (&str, &str) = (PROTOCOL, "leasehold.v1, leasehold.bearer.%");

#[tokio::test]
async fn a_handshake_that_is_not_right_is_refused() {
    let coordinator = Coordinator::in_process();
    let http = Http::of(&coordinator, Version::One);
    let good = [KEY, VERSION, UPGRADE, CONNECTION];
    for (path, headers, status) in [
        (SESSION, &good[..], 101),
        (SESSION, &[KEY, VERSION, UPGRADE], 400),
        (SESSION, &[VERSION, UPGRADE, CONNECTION], 400),
        (SESSION, &[SHORT, VERSION, UPGRADE, CONNECTION], 400),
        (SESSION, &[KEY, OLD, UPGRADE, CONNECTION], 426),
        (SESSION, &[KEY, VERSION, UPGRADE, CONNECTION, OTHER], 400),
        (SESSION, &[KEY, VERSION, UPGRADE, CONNECTION, TORN], 400),
        (SESSION, &[KEY, VERSION, CONNECTION], 505),
        (ACQUIRE, &good, 405),
        ("/leasehold.v1.LockService/Sesion", &good, 404),
    ] {
        let answer = http.bare("GET", path, headers).await;
        assert_eq!(answer.status, status, "{path} {headers:?}");
        let version = answer.header("sec-websocket-version");
        assert_eq!(version == "13", status == 426, "{headers:?}");
    }
}

/// Returns the status with which a handshake is refused.
async fn refused(coordinator: &Coordinator, headers: &[(&'static str, &str)]) -> u16 {
    match dial(address(&coordinator.endpoint()), headers).await {
        Err(Error::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was accepted with {headers:?}"),
    }
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused() {
    let coordinator = Coordinator::in_process();
    let page = ("origin", "https://app.example");
    assert_eq!(refused(&coordinator, &[page]).await, 403);
    let flags = ["--cors-origins", "https://app.example"];
    let coordinator = Coordinator::in_process_with(flags);
    let other = ("origin", "https://other.example");
    assert_eq!(refused(&coordinator, &[other]).await, 403);
    let (mut session, _) = dial(address(&coordinator.endpoint()), &[page])
        .await
        .unwrap();
    session.say_open(json!({})).await;
}

#[tokio::test]
async fn a_token_is_shown_in_a_header_or_as_a_subprotocol() {
    let folder = tempfile::tempdir().unwrap();
    let printed = new_token("shop").unwrap();
    let (token, line) = printed.trim().split_once('\n').unwrap();
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, line).unwrap();
    let config = folder.path().join("leasehold.toml");
    let permission = "[[permission]]\nidentities = [\"token:shop\"]\nallow = [\"acquire\"]\nlocks = [\"shop/\"]\n";
    fs::write(&config, permission).unwrap();
    let coordinator = Coordinator::in_process_with([
        "--config",
        config.to_str().unwrap(),
        "--token-file",
        tokens.to_str().unwrap(),
    ]);
    let address = address(&coordinator.endpoint());
    let offer = |token: &str| {
        let token = URL_SAFE_NO_PAD.encode(token);
        format!("leasehold.v1, leasehold.bearer.{token}")
    };
    let header = format!("Bearer {token}");
    for shown in [
        (PROTOCOL, &*offer(token)),
        ("authorization", header.as_str()),
    ] {
        let (mut session, response) = dial(address, &[shown]).await.unwrap();
        let selected = response.headers().get(PROTOCOL);
        let selected = selected.map(|selected| selected.to_str().unwrap());
        assert_eq!(selected, (shown.0 == PROTOCOL).then_some("leasehold.v1"));
        session.say_open(json!({})).await;
        session.acquire("shop/a").await;
        let denied = session.ask(json!({"acquire": {"name": "b"}})).await;
        assert_eq!(denied["error"]["reason"], "PERMISSION_DENIED", "{denied}");
    }
    for shown in [
        &[][..],
        &[(PROTOCOL, "leasehold.v1")],
        &[(PROTOCOL, &*offer("lh_wrong"))],
        // Two are one too many.
        &[
            (PROTOCOL, &*offer(token)),
            ("authorization", header.as_str()),
        ],
    ] {
        let (mut session, _) = dial(address, shown).await.unwrap();
        session
            .fails("unauthenticated", "UNAUTHENTICATED", CloseCode::Policy)
            .await;
    }
    let metrics = coordinator.metrics().await;
    let labels = ["method=\"Session\"", "code=\"UNAUTHENTICATED\""];
    assert_eq!(metrics.of("leasehold_rpcs_total", &labels), 4.0);
}
