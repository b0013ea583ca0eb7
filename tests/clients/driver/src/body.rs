//! Bodies: work that runs under a lock or in a term, until the runner or the client ends it.

use std::{thread, time::Duration};

use leasehold_client::{LockWatch, WithLockError};
use serde_json::{Value, json};

use crate::{
    acquire::{Ask, cleanup},
    failure::Failed,
    hold::Handle,
    output::{answer, boot_ns, say},
    request::Request,
    world::{Shared, World},
};

/// Way in which the runner ends a body.
#[derive(Debug)]
pub(crate) enum End {
    Finish,
    Fail(String),
}

/// Error of a body, or of its lock.
#[derive(thiserror::Error, Debug)]
pub(crate) enum BodyError {
    #[error(transparent)]
    Lock(#[from] WithLockError),
    #[error("{0}")]
    Own(String),
}

impl From<BodyError> for Failed {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Lock(error) => Self::from(error),
            BodyError::Own(message) => Self::new("body").with("body", json!(message)),
        }
    }
}

/// Runs a body under a lock, and answers when the client has returned.
pub(crate) async fn body(world: &Shared, request: Request) {
    let call = async {
        let client = world.client(&request.on)?;
        let run = |watches| run(world, &request, watches);
        match Ask::new(world, &client, &request)? {
            Ask::Lock(ask) => ask.try_with(|watch| run(vec![watch])).await,
            Ask::Locks(ask) => ask.try_with(run).await,
            Ask::Permits(ask) => ask.try_with(|watch| run(vec![watch])).await,
        }?;
        Ok(json!({}))
    };
    let done = world.cancellable(request.id, call).await;
    answer(request.id, done);
}

/// Is the body.
pub(crate) async fn run(
    world: &World,
    request: &Request,
    watches: Vec<LockWatch>,
) -> Result<(), BodyError> {
    let token = watches
        .first()
        .map(|watch| watch.fencing_token().to_string());
    let end = world.add_body(&request.name);
    world.add_handle(&request.name, Handle::of_body(watches));
    let mut running = Running {
        handle: request.name.clone(),
        cleanup: cleanup(request),
        done: false,
    };
    running.tell("started", token);
    // The sender is dropped only after it was used.
    let end = end.await;
    running.done = true;
    match end {
        Ok(End::Fail(message)) => Err(BodyError::Own(message)),
        _ => Ok(()),
    }
}

/// A body that runs. It is cancelled if it is dropped before it is done.
struct Running {
    handle: String,
    cleanup: Duration,
    done: bool,
}

impl Running {
    fn tell(&self, what: &str, token: Option<String>) {
        let mut event =
            json!({ "ev": "body", "h": self.handle, "what": what, "boot_ns": boot_ns() });
        if let Some(token) = token {
            event["token"] = json!(token);
        }
        say(&event);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.done {
            self.tell("cancelled", None);
            thread::sleep(self.cleanup);
        }
        self.tell("ended", None);
    }
}

/// Ends the body that runs under a handle.
pub(crate) fn end(world: &World, request: &Request) -> Result<Value, Failed> {
    let end = match request.op.as_str() {
        "finish" => End::Finish,
        _ => End::Fail(request.message.clone()),
    };
    world.end_body(&request.h, end)?;
    Ok(json!({}))
}
