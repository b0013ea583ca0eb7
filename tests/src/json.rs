//! gRPC channels that speak JSON to the coordinator: a client of the Connect protocol between a test's stubs and the wire. So a
//! suite that is written for gRPC runs over JSON as it is.

use std::{
    error::Error,
    net::{IpAddr, SocketAddr},
    sync::LazyLock,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::{Stream, StreamExt, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Frame, Incoming},
    client::conn::http2::{self, SendRequest},
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_server::connect::timeout_of_grpc;
use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions,
};
use serde_json::Value;
use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tonic::{
    Code,
    transport::{Channel, Endpoint, Uri},
};
use tower::service_fn as connector_fn;

type BoxError = Box<dyn Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Flag of the envelope that ends a stream.
const END: u8 = 2;
/// Bytes of the prefix of a message: flags and length, in gRPC and in Connect alike.
const PREFIX: usize = 5;

/// Time within which the end of a refused stream comes. A stream that is not refused may say nothing before its first request.
const REFUSED_BY: Duration = Duration::from_millis(100);

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let mut pool = DescriptorPool::global();
    for set in [
        leasehold_proto::v1::DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
    ] {
        pool.decode_file_descriptor_set(set)
            .expect("the descriptors are valid");
    }
    pool
});

/// Returns a connection to a coordinator, from an address if one is given, over which calls go in JSON; those of services without descriptors stay gRPC's.
///
/// # Errors
///
/// If it can't be made.
pub(crate) async fn connect(
    endpoint: Endpoint,
    from: Option<IpAddr>,
) -> Result<Channel, tonic::transport::Error> {
    let connector = connector_fn(move |uri: Uri| async move {
        let address = uri.authority().ok_or("no authority")?.as_str();
        let socket = match from {
            None => TcpStream::connect(address).await?,
            Some(from) => {
                let socket = TcpSocket::new_v4()?;
                socket.bind(SocketAddr::new(from, 0))?;
                socket.connect(address.parse()?).await?
            }
        };
        socket.set_nodelay(true)?;
        let (requests, coordinator) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await?;
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let serve = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let calls = service_fn(move |request| call(requests.clone(), request));
        tokio::spawn(async move {
            // Each connection ends with the other.
            tokio::select! {
                _ = serve.serve_connection(TokioIo::new(theirs), calls) => {}
                _ = coordinator => {}
            }
        });
        Ok::<_, BoxError>(TokioIo::new(ours))
    });
    endpoint.connect_with_connector(connector).await
}

async fn call(
    mut requests: SendRequest<Body>,
    request: Request<Incoming>,
) -> Result<Response<Body>, BoxError> {
    let Some(method) = method(request.uri().path()) else {
        let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
        let response = requests.send_request(request).await?;
        return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
    };
    let is_unary = !method.is_client_streaming() && !method.is_server_streaming();
    let (mut parts, body) = request.into_parts();
    let content_type = if is_unary {
        "application/json"
    } else {
        "application/connect+json"
    };
    parts
        .headers
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    parts.headers.remove("te");
    if let Some(limit) = timeout_of_grpc(&parts.headers) {
        parts.headers.remove("grpc-timeout");
        let millis = limit.as_millis();
        parts
            .headers
            .insert("connect-timeout-ms", millis.to_string().parse()?);
    }
    let input = method.input();
    let body = if is_unary {
        let mut body = body.collect().await?.to_bytes();
        body.advance(PREFIX);
        Full::new(json(&input, body)?)
            .map_err(|never| match never {})
            .boxed_unsync()
    } else {
        let messages = messages(body, move |_, message| {
            Ok(Frame::data(envelope(0, &json(&input, message)?)))
        });
        StreamBody::new(messages).boxed_unsync()
    };
    let response = requests
        .send_request(Request::from_parts(parts, body))
        .await?;
    let (mut parts, body) = response.into_parts();
    if parts.status != StatusCode::OK {
        let error = body.collect().await?.to_bytes();
        let status = status(&serde_json::from_slice(&error)?)?;
        parts.headers.extend(status);
        return Ok(answer(
            parts.headers,
            StreamBody::new(stream::empty()).boxed_unsync(),
        ));
    }
    let output = method.output();
    if !is_unary {
        let mut messages = Box::pin(messages(body, move |flags, message| {
            if flags & END == 0 {
                return Ok(Frame::data(envelope(0, &binary(&output, &message)?)));
            }
            let end: Value = serde_json::from_slice(&message)?;
            status(&end["error"]).map(Frame::trailers)
        }));
        // Connect's head says nothing of a refusal, which follows at once; gRPC's does, and stubs expect it there.
        let first = match timeout(REFUSED_BY, messages.next()).await {
            Ok(Some(Ok(frame))) if frame.is_trailers() => {
                parts
                    .headers
                    .extend(frame.into_trailers().unwrap_or_default());
                None
            }
            Ok(first) => first,
            Err(_) => None,
        };
        let messages = stream::iter(first).chain(messages);
        return Ok(answer(
            parts.headers,
            StreamBody::new(messages).boxed_unsync(),
        ));
    }
    let message = body.collect().await?.to_bytes();
    let message = envelope(0, &binary(&output, &message)?);
    let frames = [Frame::data(message), Frame::trailers(status(&Value::Null)?)];
    let frames = stream::iter(frames.map(Ok));
    Ok(answer(
        parts.headers,
        StreamBody::new(frames).boxed_unsync(),
    ))
}

fn answer(mut headers: HeaderMap, body: Body) -> Response<Body> {
    headers.remove("content-length");
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response
}

fn method(path: &str) -> Option<MethodDescriptor> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    let service = POOL.get_service_by_name(service)?;
    service.methods().find(|it| it.name() == method)
}

fn json(message: &MessageDescriptor, binary: Bytes) -> Result<Bytes, BoxError> {
    let message = DynamicMessage::decode(message.clone(), binary)?;
    let mut json = serde_json::Serializer::new(Vec::new());
    message.serialize_with_options(&mut json, &SerializeOptions::new())?;
    Ok(json.into_inner().into())
}

fn binary(message: &MessageDescriptor, json: &[u8]) -> Result<Bytes, BoxError> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let message = DynamicMessage::deserialize(message.clone(), &mut json)?;
    json.end()?;
    Ok(message.encode_to_vec().into())
}

fn envelope(flags: u8, message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX + message.len());
    bytes.put_u8(flags);
    bytes.put_u32(u32::try_from(message.len()).expect("a message is short"));
    bytes.put_slice(message);
    bytes.freeze()
}

/// Returns what becomes of the messages of a body, each as soon as it is whole.
fn messages(
    body: Incoming,
    convert: impl Fn(u8, Bytes) -> Result<Frame<Bytes>, BoxError>,
) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> {
    let state = (body, BytesMut::new(), convert);
    stream::try_unfold(state, |(mut body, mut read, convert)| async move {
        loop {
            if let Some(prefix) = read.first_chunk::<PREFIX>() {
                let [flags, length @ ..] = *prefix;
                let whole = PREFIX + u32::from_be_bytes(length) as usize;
                if read.len() >= whole {
                    let message = read.split_to(whole).freeze().slice(PREFIX..);
                    let frame = convert(flags, message)?;
                    return Ok(Some((frame, (body, read, convert))));
                }
            }
            let Some(frame) = body.frame().await else {
                return Ok(None);
            };
            if let Ok(data) = frame?.into_data() {
                read.extend_from_slice(&data);
            }
        }
    })
}

/// Returns the trailers of gRPC for an error of Connect; `null` is none.
fn status(error: &Value) -> Result<HeaderMap, BoxError> {
    let mut trailers = HeaderMap::new();
    let name = HeaderName::from_static;
    if error.is_null() {
        trailers.insert(name("grpc-status"), HeaderValue::from_static("0"));
        return Ok(trailers);
    }
    let code = code(error["code"].as_str().ok_or("an error without a code")?)?;
    let message = error["message"].as_str().unwrap_or_default();
    let mut details = Vec::new();
    for detail in error["details"].as_array().into_iter().flatten() {
        let kind = detail["type"].as_str().ok_or("a detail without a type")?;
        let value = detail["value"].as_str().ok_or("a detail without a value")?;
        details.push(prost_types::Any {
            type_url: format!("type.googleapis.com/{kind}"),
            value: STANDARD_NO_PAD.decode(value)?,
        });
    }
    let status = tonic_types::pb::Status {
        code: code.into(),
        message: message.to_owned(),
        details,
    };
    let details = status.encode_to_vec().into();
    let status = tonic::Status::with_details(code, message, details);
    status.add_header(&mut trailers)?;
    Ok(trailers)
}

fn code(name: &str) -> Result<Code, BoxError> {
    let codes = (1..=16).map(Code::from_i32);
    let snake = |code: &Code| {
        let mut snake = String::new();
        for letter in format!("{code:?}").chars() {
            if letter.is_uppercase() && !snake.is_empty() {
                snake.push('_');
            }
            snake.extend(letter.to_lowercase());
        }
        // Connect spells it as Americans do.
        snake.replace("cancelled", "canceled")
    };
    let mut named = codes.filter(|code| snake(code) == name);
    named.next().ok_or_else(|| format!("no code {name}").into())
}
