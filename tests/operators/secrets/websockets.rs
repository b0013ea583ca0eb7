//! Callers over WebSockets, who show their tokens as subprotocols.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Error, Message, client::IntoClientRequest},
};

use super::{LIMIT, guarded::Guarded, site::fresh_token};

const ROUNDS: usize = 4;

/// Opens a session with these subprotocols.
async fn dial(
    site: &Guarded,
    at: usize,
    subprotocols: &str,
) -> Result<WebSocketStream<TlsStream<TcpStream>>, Error> {
    let endpoint = site.endpoint(at);
    let address = endpoint.trim_start_matches("https://").parse().unwrap();
    let stream = site.servers.connect_http1(address).await;
    let path = "wss://localhost/leasehold.v1.LockService/Session";
    let mut request = path.into_client_request()?;
    let headers = request.headers_mut();
    headers.insert("sec-websocket-protocol", subprotocols.parse().unwrap());
    let (socket, _) = client_async(request, stream).await?;
    Ok(socket)
}

async fn next(socket: &mut WebSocketStream<TlsStream<TcpStream>>) -> Value {
    let next = timeout(LIMIT, async {
        loop {
            match socket.next().await.unwrap().unwrap() {
                Message::Ping(_) => {}
                message => return message.into_text().unwrap(),
            }
        }
    });
    serde_json::from_str(&next.await.unwrap()).unwrap()
}

/// Holds locks with a token, and is refused with others.
pub(super) async fn callers(site: &Guarded, at: usize) {
    for round in 0..ROUNDS {
        let offered = |token: &str| {
            let token = URL_SAFE_NO_PAD.encode(token);
            format!("leasehold.v1, leasehold.bearer.{token}")
        };
        let signed = site.signer.sign("JWT in use", "worker", 120);
        for token in [&site.worker.token, &signed] {
            let mut socket = dial(site, at, &offered(token)).await.unwrap();
            let name = format!("websocket/{at}/{round}/{}", token.len());
            for request in [
                json!({"open": {}}),
                json!({"acquire": {"name": name}}),
                json!({"unknown": token}),
            ] {
                let text = Message::text(request.to_string());
                socket.send(text).await.unwrap();
                let answer = next(&mut socket).await;
                match answer["granted"]["locks"][0]["ownerId"].as_str() {
                    Some(owner) => {
                        let owner = STANDARD.decode(owner).unwrap();
                        site.secrets.add("owner id", owner);
                    }
                    None => site.answers.text(answer.to_string().as_bytes()),
                }
            }
            let wrong = format!("leasehold.bearer.{}", URL_SAFE_NO_PAD.encode(token));
            let Err(Error::Http(response)) = dial(site, at, &wrong).await else {
                panic!("no subprotocol is left");
            };
            assert_eq!(response.status(), 400);
            site.errors.text(response.body().as_deref().unwrap());
        }
        let token = fresh_token(&site.secrets);
        let mut socket = dial(site, at, &offered(&token)).await.unwrap();
        let end = next(&mut socket).await;
        assert_eq!(end["end"]["error"]["code"], "unauthenticated", "{end}");
        site.errors.text(end.to_string().as_bytes());
    }
}
