//! Comments of the proto files, as descriptions in Markdown that use the names of JSON.

use std::collections::HashMap;

use prost_reflect::{DescriptorPool, FileDescriptor};

/// Descriptions of the health service, whose descriptors have no comments.
const HEALTH: [(&str, &str); 12] = [
    (
        "grpc.health.v1.Health",
        "Says whether the coordinator serves, as probes and load balancers ask it. It needs no identity.",
    ),
    (
        "grpc.health.v1.Health.Check",
        "Returns whether the coordinator serves. Fails with `not_found` for an unknown service.",
    ),
    (
        "grpc.health.v1.Health.Watch",
        "Streams whether the coordinator serves: the present state, and then every change.",
    ),
    (
        "grpc.health.v1.HealthCheckRequest",
        "Asks whether a service is served.",
    ),
    (
        "grpc.health.v1.HealthCheckRequest.service",
        "A service's full name, for example `leasehold.v1.LockService`. Default: all of them. They all have the same state.",
    ),
    (
        "grpc.health.v1.HealthCheckResponse",
        "Whether a service is served.",
    ),
    ("grpc.health.v1.HealthCheckResponse.status", "The state."),
    (
        "grpc.health.v1.HealthCheckResponse.ServingStatus",
        "The state of a service.",
    ),
    (
        "grpc.health.v1.HealthCheckResponse.UNKNOWN",
        "Never sent by a coordinator.",
    ),
    ("grpc.health.v1.HealthCheckResponse.SERVING", "It serves."),
    (
        "grpc.health.v1.HealthCheckResponse.NOT_SERVING",
        "It does not serve now; `/readyz` of the admin port says why.",
    ),
    (
        "grpc.health.v1.HealthCheckResponse.SERVICE_UNKNOWN",
        "There is no such service. Sent by `Watch` only.",
    ),
];

/// Descriptions of what the proto files declare.
#[derive(Debug)]
pub(super) struct Comments {
    by_place: HashMap<(String, Vec<i32>), String>,
    /// Names of fields in JSON, by those in the proto files.
    fields: HashMap<String, String>,
}

impl Comments {
    pub(super) fn of(pool: &DescriptorPool) -> Self {
        let messages = pool.all_messages();
        let fields = messages.flat_map(|message| message.fields().collect::<Vec<_>>());
        let fields = fields.map(|field| (field.name().to_owned(), field.json_name().to_owned()));
        let mut by_place = HashMap::new();
        for file in pool.files() {
            let info = file.file_descriptor_proto().source_code_info.as_ref();
            for location in info.into_iter().flat_map(|info| &info.location) {
                if let Some(comment) = &location.leading_comments {
                    let place = (file.name().to_owned(), location.path.clone());
                    by_place.insert(place, comment.clone());
                }
            }
        }
        Self {
            by_place,
            fields: fields.collect(),
        }
    }

    /// Returns the description of the item at this place, which must have one.
    pub(super) fn describe(&self, file: &FileDescriptor, path: &[i32], name: &str) -> String {
        if let Some(comment) = self.by_place.get(&(file.name().to_owned(), path.to_vec())) {
            return self.to_markdown(comment);
        }
        let known = HEALTH.iter().find(|(known, _)| *known == name);
        known.map_or_else(
            || panic!("{name} has no comment"),
            |(_, text)| (*text).to_owned(),
        )
    }

    /// Joins the lines of each paragraph, and gives fields their names in JSON.
    fn to_markdown(&self, comment: &str) -> String {
        let lines = comment.lines().map(str::trim);
        let paragraphs = lines.collect::<Vec<_>>();
        let paragraphs = paragraphs.split(|line| line.is_empty());
        let paragraphs = paragraphs.filter(|lines| !lines.is_empty());
        let paragraphs = paragraphs.map(|lines| lines.join(" "));
        let text = paragraphs.collect::<Vec<_>>().join("\n\n");
        // Every second part is between backquotes.
        let parts = text.split('`').enumerate().map(|(place, part)| {
            let field = self.fields.get(part).filter(|_| place % 2 == 1);
            field.map_or(part, String::as_str)
        });
        parts.collect::<Vec<_>>().join("`")
    }
}

/// Returns the first sentence of a description, or its beginning up to a colon, without its full stop.
pub(super) fn summary(description: &str) -> &str {
    let ends = [". ", ": ", "\n"].map(|end| description.find(end));
    let end = ends.into_iter().flatten().min();
    let summary = end.map_or(description, |end| &description[..end]);
    summary.trim_end_matches('.')
}
