//! Clients.

use leasehold_client::{Client, ClientBuilder, Endpoints};
use serde_json::{Value, json};

use crate::{
    failure::Failed,
    request::{Request, millis},
    world::World,
};

/// Makes a client; its default session is the one that the runner means.
pub(crate) async fn connect(world: &World, request: &Request) -> Result<Value, Failed> {
    let endpoints: Endpoints = request.endpoints.join(",").into();
    let client = builder(request).connect(endpoints).await?;
    let session = client.default_session().info();
    world.add_client(&request.name, client);
    Ok(json!({ "session_id": session.map(|session| session.session_id) }))
}

fn builder(request: &Request) -> ClientBuilder {
    let mut builder = Client::builder();
    if let Some(name) = &request.client_name {
        builder = builder.client_name(name);
    }
    if let Some(ttl) = millis(request.ttl_ms) {
        builder = builder.ttl(ttl);
    }
    if let Some(grace) = millis(request.grace_ms) {
        builder = builder.disconnect_grace(grace);
    }
    if let Some(timeout) = millis(request.connect_timeout_ms) {
        builder = builder.connect_timeout(timeout);
    }
    let backoff = millis(request.backoff_min_ms).zip(millis(request.backoff_max_ms));
    if let Some((min, max)) = backoff {
        builder = builder.backoff(min, max);
    }
    if let Some(tls) = &request.tls {
        if let Some(ca) = &tls.ca {
            builder = builder.tls_ca(ca);
        }
        if let (Some(cert), Some(key)) = (&tls.cert, &tls.key) {
            builder = builder.tls_identity(cert, key);
        }
        if let Some(name) = &tls.server_name {
            builder = builder.tls_server_name(name);
        }
    }
    if let Some(file) = &request.token_file {
        builder = builder
            .bearer_token_file(file)
            .allow_plaintext_credentials();
    }
    builder
}

/// Closes a client.
pub(crate) async fn close(world: &World, request: &Request) -> Result<Value, Failed> {
    world.client(&request.on)?.close().await;
    Ok(json!({}))
}
