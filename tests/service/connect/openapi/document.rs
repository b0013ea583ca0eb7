//! OpenAPI description of the methods that can be called with JSON over HTTP/1.1, generated from the proto files.

use prost_reflect::{
    DescriptorPool, MethodDescriptor, ServiceDescriptor,
    prost_types::method_options::IdempotencyLevel,
};
use serde_json::{Map, Value, json};

use super::{
    comments::{self, Comments},
    schemas::{Schemas, Side},
};

const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/commented_descriptors.bin"));

const INTRODUCTION: &str = "\
Locks, semaphores and elections over plain HTTP. Each method of the gRPC services can be called with JSON, on the same port, with \
the same limits, permissions and errors.

Sessions and candidacies (`LockService.Session`, `ElectionService.Campaign`) are not described here: they stream both ways, which \
needs HTTP/2. A lock of `Acquire` has no stream: the client renews it before its TTL has passed.

Requests with an unknown field, or with one that occurs twice, are refused. They may have the names of the proto files too, such \
as `owner_id`. Answers leave out fields that have their default, and later versions may add fields. All methods take binary \
messages of protobuf as well (`application/proto`, `application/connect+proto`), and are those of the \
[Connect protocol](https://connectrpc.com/docs/protocol).";

const ENVELOPE: &str = "\
Request and answer consist of messages with a prefix of five bytes: a byte of flags, and the length of the message in four bytes, \
the most significant first. The request is one message. The answer is any number of them, and ends with an `EndOfStream`, \
which has the flag 2. The schemas are those of the messages without their prefixes. The status is 200 even if the call fails: \
`EndOfStream` has the error.";

/// Codes of errors, with the status of HTTP that an answer has.
const CODES: [(&str, u16); 16] = [
    ("invalid_argument", 400),
    ("failed_precondition", 400),
    ("out_of_range", 400),
    ("unauthenticated", 401),
    ("permission_denied", 403),
    ("not_found", 404),
    ("already_exists", 409),
    ("aborted", 409),
    ("resource_exhausted", 429),
    ("canceled", 499),
    ("unknown", 500),
    ("internal", 500),
    ("data_loss", 500),
    ("unimplemented", 501),
    ("unavailable", 503),
    ("deadline_exceeded", 504),
];

/// Returns the document as it is committed.
pub(super) fn generate() -> String {
    let mut pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
    pool.decode_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .unwrap();
    let document = serde_json::to_string_pretty(&describe(&pool)).unwrap();
    document + "\n"
}

fn describe(pool: &DescriptorPool) -> Value {
    let comments = Comments::of(pool);
    let mut schemas = Schemas::new(&comments);
    let error = schemas.add("Error", error());
    schemas.add("EndOfStream", end_of_stream(&error));
    let mut paths = Map::new();
    let mut tags = Vec::new();
    for service in pool.services() {
        let name = service.full_name();
        let description = comments.describe(&service.parent_file(), service.path(), name);
        tags.push(json!({"name": service.name(), "description": description}));
        for method in service.methods() {
            if !method.is_client_streaming() {
                let path = format!("/{name}/{}", method.name());
                paths.insert(path, path_item(&service, &method, &comments, &mut schemas));
            }
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Leasehold",
            "version": env!("CARGO_PKG_VERSION"),
            "description": INTRODUCTION,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:7420", "description": "A coordinator on its default address"}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas.finish(),
            "parameters": parameters(),
            "responses": error_responses(&error),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token that the coordinator accepts: a static one, or a JWT.",
                },
                "certificate": {"type": "mutualTLS", "description": "A client certificate."},
            },
        },
        // A coordinator without identities takes every call.
        "security": [{}, {"bearer": []}, {"certificate": []}],
    })
}

fn path_item(
    service: &ServiceDescriptor,
    method: &MethodDescriptor,
    comments: &Comments,
    schemas: &mut Schemas<'_>,
) -> Value {
    let file = service.parent_file();
    let mut description = comments.describe(&file, method.path(), method.full_name());
    let summary = comments::summary(&description).to_owned();
    let request = schemas.message(&method.input(), Side::Request);
    let answer = schemas.message(&method.output(), Side::Answer);
    let output = method.output();
    let meaning = comments.describe(&output.parent_file(), output.path(), output.full_name());
    let content_type = if method.is_server_streaming() {
        description += "\n\n";
        description += ENVELOPE;
        "application/connect+json"
    } else {
        "application/json"
    };
    let id = format!("{}_{}", service.name(), method.name());
    let mut post = json!({
        "tags": [service.name()],
        "operationId": id,
        "summary": summary,
        "description": description,
        "parameters": [parameter("ProtocolVersion"), parameter("TimeoutMs")],
        "requestBody": {"required": true, "content": {content_type: {"schema": request}}},
    });
    // Probes have no identity.
    if service.package_name() == "grpc.health.v1" {
        post["security"] = json!([]);
    }
    if method.is_server_streaming() {
        let end = json!({"$ref": "#/components/schemas/EndOfStream"});
        let message = json!({"anyOf": [answer, end]});
        post["responses"] = json!({
            "200": {"description": meaning, "content": {content_type: {"schema": message}}},
            "default": {"$ref": "#/components/responses/Other"},
        });
        return json!({"post": post});
    }
    let mut responses = json!({
        "200": {"description": meaning, "content": {content_type: {"schema": answer}}},
        "default": {"$ref": "#/components/responses/Other"},
    });
    for (_, status) in CODES {
        let shared = format!("#/components/responses/Error{status}");
        responses[status.to_string()] = json!({"$ref": shared});
    }
    post["responses"] = responses;
    if !is_free_of_side_effects(method) {
        return json!({"post": post});
    }
    let mut get = post.clone();
    if let Some(get) = get.as_object_mut() {
        get.remove("requestBody");
    }
    get["operationId"] = json!(format!("{id}_get"));
    get["parameters"] = json!([
        {
            "name": "message",
            "in": "query",
            "required": true,
            "description": "The request, in JSON.",
            "content": {content_type: {"schema": request}},
        },
        parameter("Encoding"),
        parameter("Base64"),
        parameter("Connect"),
        parameter("TimeoutMs"),
    ]);
    json!({"get": get, "post": post})
}

fn is_free_of_side_effects(method: &MethodDescriptor) -> bool {
    let options = method.method_descriptor_proto().options.as_ref();
    options.is_some_and(|options| options.idempotency_level() == IdempotencyLevel::NoSideEffects)
}

fn parameter(name: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{name}")})
}

fn parameters() -> Value {
    json!({
        "ProtocolVersion": {
            "name": "connect-protocol-version",
            "in": "header",
            "description": "The version of the Connect protocol. It may be left out.",
            "schema": {"type": "string", "enum": ["1"]},
        },
        "TimeoutMs": {
            "name": "connect-timeout-ms",
            "in": "header",
            "description": "Time for the call, in milliseconds. After it, the call fails with `deadline_exceeded`. Default: no bound.",
            "schema": {"type": "integer", "minimum": 0, "maximum": 9_999_999_999_u64},
        },
        "Encoding": {
            "name": "encoding",
            "in": "query",
            "required": true,
            "description": "The form of `message`.",
            "schema": {"type": "string", "enum": ["json"]},
        },
        "Base64": {
            "name": "base64",
            "in": "query",
            "description": "`1` if `message` is that JSON in URL-safe base64.",
            "schema": {"type": "string", "enum": ["1"]},
        },
        "Connect": {
            "name": "connect",
            "in": "query",
            "description": "The version of the Connect protocol. It may be left out.",
            "schema": {"type": "string", "enum": ["v1"]},
        },
    })
}

fn error_responses(error: &Value) -> Value {
    let content = json!({"application/json": {"schema": error}});
    let mut responses = json!({
        "Other": {
            "description": "The request was refused before it became a call: for its path, method, content type, size or version of HTTP.",
            "content": content,
        },
    });
    for (_, status) in CODES {
        let same = CODES.iter().filter(|(_, other)| *other == status);
        let codes: Vec<_> = same.map(|(code, _)| format!("`{code}`")).collect();
        let mut description = format!("The call failed with {}.", codes.join(" or "));
        if status == 404 {
            description += " With `unimplemented`: the coordinator has no such method.";
        }
        responses[format!("Error{status}")] =
            json!({"description": description, "content": content});
    }
    responses
}

fn error() -> Value {
    json!({
        "type": "object",
        "description": "A call that failed. Decide by the `reason` of the `google.rpc.ErrorInfo` among the details, and by the code where \
            there is none.",
        "required": ["code"],
        "properties": {
            "code": {
                "type": "string",
                "enum": CODES.map(|(code, _)| code),
                "description": "The kind of failure.",
            },
            "message": {"type": "string", "description": "What failed and what to do, for people."},
            "details": {
                "type": "array",
                "description": "Details for programs.",
                "items": {
                    "type": "object",
                    "required": ["type", "value"],
                    "properties": {
                        "type": {
                            "type": "string",
                            "description": "The full name of the detail's message: `google.rpc.ErrorInfo`, `google.rpc.BadRequest` or \
                                `google.rpc.RetryInfo`.",
                        },
                        "value": {
                            "type": "string",
                            "contentEncoding": "base64",
                            "description": "The message in binary, as base64 without padding.",
                        },
                        "debug": {
                            "type": "object",
                            "description": "The same message in JSON. That of `google.rpc.ErrorInfo` has `domain`, which is `leasehold`, \
                                `reason` and `metadata`.",
                        },
                    },
                },
            },
        },
        "examples": [{
            "code": "invalid_argument",
            "message": "name must not be empty",
            "details": [{
                "type": "google.rpc.ErrorInfo",
                "value": "Cg1JTlZBTElEX0ZJRUxEEglsZWFzZWhvbGQ",
                "debug": {"reason": "INVALID_FIELD", "domain": "leasehold"},
            }],
        }],
    })
}

fn end_of_stream(error: &Value) -> Value {
    let mut failure = error.clone();
    failure["description"] =
        json!("The error that ended the stream. Left out if the stream is complete.");
    json!({
        "type": "object",
        "description": "The last message of a stream, which has the flag 2.",
        "properties": {
            "error": failure,
            "metadata": {
                "type": "object",
                "description": "Trailers of the call: values by name.",
                "additionalProperties": {"type": "array", "items": {"type": "string"}},
            },
        },
    })
}
