//! Server under test for the conformance suite of Connect, gRPC-Web and gRPC: the suite's service behind the coordinator's listener
//! and layers.
//!
//! The suite's runner starts it once for each configuration, writes a `ServerCompatRequest` to its standard input, reads a
//! `ServerCompatResponse` from its standard output, and ends it by a signal.

mod caller;
mod service;
mod stream;

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
};

use anyhow::{Context, anyhow, bail};
use leasehold_server::{
    Config, Liveness, Reload,
    access::{Access, AccessLayer},
    config::Action,
    connect::ConnectLayer,
    limits::{LimitLayer, Limits},
    listener::{self, Connections, ListenerOptions, http2_server},
    telemetry::{Metrics, RequestLayer, Traces},
    tls::Tls,
};
use prost::Message;
use prost_reflect::DescriptorPool;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::codegen::http::Response;
use tower::util::MapResponseLayer;

use self::{
    proto::{
        ServerCompatRequest, ServerCompatResponse,
        conformance_service_server::ConformanceServiceServer,
    },
    service::Conformance,
};

/// Messages and services of the suite.
mod proto {
    #![allow(
        dead_code,
        missing_docs,
        unreachable_pub,
        clippy::all,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "generated code"
    )]
    tonic::include_proto!("connectrpc.conformance.v1");

    /// Descriptors of the suite's files, with all methods as they are declared.
    pub(super) const DESCRIPTORS: &[u8] =
        include_bytes!(concat!(env!("OUT_DIR"), "/conformance_descriptors.bin"));
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let asked = read_request().context("failed to read the runner's request")?;
    let files = tempfile::tempdir()?;
    let config = configuration(&asked, &files)?;
    serve(config, &asked).await
}

/// Reads what the runner asks for: a message behind its length.
fn read_request() -> anyhow::Result<ServerCompatRequest> {
    let mut stdin = io::stdin().lock();
    let mut length = [0; 4];
    stdin.read_exact(&mut length)?;
    let mut message = vec![0; usize::try_from(u32::from_be_bytes(length))?];
    stdin.read_exact(&mut message)?;
    Ok(ServerCompatRequest::decode(&*message)?)
}

fn write_response(response: &ServerCompatResponse) -> anyhow::Result<()> {
    let message = response.encode_to_vec();
    let mut stdout = io::stdout().lock();
    stdout.write_all(&u32::try_from(message.len())?.to_be_bytes())?;
    stdout.write_all(&message)?;
    Ok(stdout.flush()?)
}

/// Returns a coordinator's configuration with the certificates that the runner gave, which go into `files`.
fn configuration(asked: &ServerCompatRequest, files: &TempDir) -> anyhow::Result<Config> {
    let mut flags = vec!["leasehold-server".into()];
    let mut set = |flag: &str, name: &str, contents: &[u8]| -> anyhow::Result<()> {
        let path = files.path().join(name);
        write_private(&path, contents)?;
        flags.extend([flag.into(), path.into()]);
        Ok(())
    };
    if let Some(creds) = &asked.server_creds {
        set("--tls-cert", "server.pem", &creds.cert)?;
        set("--tls-key", "server.key", &creds.key)?;
    }
    if !asked.client_tls_cert.is_empty() {
        set("--tls-client-ca", "client.pem", &asked.client_tls_cert)?;
    }
    match Config::from_args(flags, |_| None) {
        Ok(Action::Serve(config)) => Ok(*config),
        Ok(_) => bail!("the flags do not serve"),
        Err(faults) => Err(anyhow!(faults.join("\n"))),
    }
}

fn write_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(contents)
}

/// Removes the details of an error that no handler answered with, because the suite expects none there. Each error of a coordinator
/// has some. The suite's handlers send headers first, so that theirs are in trailers.
fn without_details<B>(mut response: Response<B>) -> Response<B> {
    response.headers_mut().remove("grpc-status-details-bin");
    response
}

/// Serves as the coordinator does: the same listener, the same layers in the same order.
async fn serve(config: Config, asked: &ServerCompatRequest) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let reload = Reload::from(config);
    let config = reload.current();
    let liveness = Liveness::default();
    let connections = Connections::new();
    let metrics = Metrics::new(connections.clone(), config.metrics);
    let tls = Tls::start(&reload, &liveness, &stop).map_err(|error| anyhow!(error))?;
    let limits = Limits::new(reload.clone());
    let access = Access::start(reload.clone(), tls.as_ref(), &liveness, stop.clone());
    let access = access.map_err(|error| anyhow!(error))?;
    let traces = Traces::start(&config, "conformance")?;
    let largest = usize::try_from(asked.message_receive_limit)?;
    let pool = DescriptorPool::decode(proto::DESCRIPTORS)?;
    let service = ConformanceServiceServer::new(Conformance);
    let router = http2_server(&config)
        .layer(ConnectLayer::new(pool, largest))
        .layer(MapResponseLayer::new(without_details))
        .layer(metrics.rpc_layer())
        .layer(AccessLayer::new(access, limits.clone()))
        .layer(RequestLayer::new(traces))
        .layer(LimitLayer::new(limits))
        .add_service(service.max_decoding_message_size(largest));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let options = ListenerOptions {
        tls,
        ..ListenerOptions::from(&*config)
    };
    let incoming = listener::accept(listener, options, connections, stop);
    let creds = asked.server_creds.as_ref();
    write_response(&ServerCompatResponse {
        host: address.ip().to_string(),
        port: u32::from(address.port()),
        pem_cert: creds.map(|creds| creds.cert.clone()).unwrap_or_default(),
    })?;
    Ok(router.serve_with_incoming(incoming).await?)
}
