//! Service of the conformance suite: answers as each request defines it, with what it received.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use prost_types::Any;
use tokio::time::sleep;
use tonic::{Request, Response, Status, Streaming};

use super::{
    caller::{Caller, any, metadata, status},
    proto::{
        BidiStreamRequest, BidiStreamResponse, ClientStreamRequest, ClientStreamResponse,
        ConformancePayload, IdempotentUnaryRequest, IdempotentUnaryResponse, ServerStreamRequest,
        ServerStreamResponse, UnaryRequest, UnaryResponse, UnaryResponseDefinition,
        conformance_service_server::ConformanceService, unary_response_definition,
    },
    stream::{Responses, responses},
};

/// The suite's service.
#[derive(Debug)]
pub(super) struct Conformance;

/// Answers a call that has one response.
async fn one_response<T: Send + 'static>(
    caller: &Caller,
    definition: Option<UnaryResponseDefinition>,
    requests: Vec<Any>,
    of: fn(ConformancePayload) -> T,
) -> Result<Response<Responses<T>>, Status> {
    let definition = definition.unwrap_or_default();
    let headers = metadata(&definition.response_headers)?;
    let trailers = metadata(&definition.response_trailers)?;
    sleep(Duration::from_millis(definition.response_delay_ms.into())).await;
    let info = Some(caller.info(requests));
    let (data, error) = match definition.response {
        Some(unary_response_definition::Response::ResponseData(data)) => (data, None),
        Some(unary_response_definition::Response::Error(error)) => (Vec::new(), Some(error)),
        None => (Vec::new(), None),
    };
    let mut items = Vec::new();
    if error.is_some() {
        items.push(Err(status(error, info, trailers)));
    } else {
        let payload = ConformancePayload {
            data,
            request_info: info,
        };
        items.extend([Ok(of(payload)), Err(status(None, None, trailers))]);
    }
    let mut response = Response::new(stream::iter(items).boxed());
    *response.metadata_mut() = headers;
    Ok(response)
}

/// Makes a response of a payload.
macro_rules! of {
    ($response:ident) => {
        |payload| $response {
            payload: Some(payload),
        }
    };
}

#[tonic::async_trait]
impl ConformanceService for Conformance {
    type UnaryStream = Responses<UnaryResponse>;
    type ServerStreamStream = Responses<ServerStreamResponse>;
    type ClientStreamStream = Responses<ClientStreamResponse>;
    type BidiStreamStream = Responses<BidiStreamResponse>;
    type IdempotentUnaryStream = Responses<IdempotentUnaryResponse>;

    async fn unary(
        &self,
        request: Request<UnaryRequest>,
    ) -> Result<Response<Self::UnaryStream>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let requests = vec![any("UnaryRequest", &request)];
        one_response(
            &caller,
            request.response_definition,
            requests,
            of!(UnaryResponse),
        )
        .await
    }

    async fn idempotent_unary(
        &self,
        request: Request<IdempotentUnaryRequest>,
    ) -> Result<Response<Self::IdempotentUnaryStream>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let requests = vec![any("IdempotentUnaryRequest", &request)];
        one_response(
            &caller,
            request.response_definition,
            requests,
            of!(IdempotentUnaryResponse),
        )
        .await
    }

    async fn client_stream(
        &self,
        request: Request<Streaming<ClientStreamRequest>>,
    ) -> Result<Response<Self::ClientStreamStream>, Status> {
        let caller = Caller::of(&request)?;
        let mut stream = request.into_inner();
        let mut definition = None;
        let mut requests = Vec::new();
        while let Some(request) = stream.message().await? {
            requests.push(any("ClientStreamRequest", &request));
            if requests.len() == 1 {
                definition = request.response_definition;
            }
        }
        one_response(&caller, definition, requests, of!(ClientStreamResponse)).await
    }

    async fn server_stream(
        &self,
        request: Request<ServerStreamRequest>,
    ) -> Result<Response<Self::ServerStreamStream>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let requests = vec![any("ServerStreamRequest", &request)];
        let definition = request.response_definition.unwrap_or_default();
        let of = of!(ServerStreamResponse);
        responses(caller, definition, of, |script| script.finish(requests))
    }

    async fn bidi_stream(
        &self,
        request: Request<Streaming<BidiStreamRequest>>,
    ) -> Result<Response<Self::BidiStreamStream>, Status> {
        let caller = Caller::of(&request)?;
        let mut stream = request.into_inner();
        let mut requests = Vec::new();
        let mut definition = None;
        let mut is_full_duplex = false;
        while !is_full_duplex && let Some(request) = stream.message().await? {
            requests.push(any("BidiStreamRequest", &request));
            if requests.len() == 1 {
                is_full_duplex = request.full_duplex;
                definition = request.response_definition;
            }
        }
        let of = of!(BidiStreamResponse);
        let definition = definition.unwrap_or_default();
        responses(caller, definition, of, move |mut script| async move {
            while is_full_duplex && script.respond(&requests).await {
                requests.clear();
                match stream.message().await? {
                    Some(request) => requests.push(any("BidiStreamRequest", &request)),
                    None => break,
                }
            }
            script.finish(requests).await
        })
    }
}
