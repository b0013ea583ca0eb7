//! Clients, handles, actors and calls that run, by the runner's names.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold_client::{Actor, Client};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::{body::End, failure::Failed, hold::Handle, request::Request};

/// Everything that requests name.
#[derive(Default)]
pub(crate) struct World(Mutex<Things>);

#[derive(Default)]
struct Things {
    clients: HashMap<String, Client>,
    handles: HashMap<String, Handle>,
    actors: HashMap<String, Actor>,
    /// Ends the call of a request.
    calls: HashMap<u64, oneshot::Sender<()>>,
    /// Ends the body that runs under a handle.
    bodies: HashMap<String, oneshot::Sender<End>>,
}

impl World {
    fn things(&self) -> MutexGuard<'_, Things> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add_client(&self, name: &str, client: Client) {
        self.things().clients.insert(name.to_owned(), client);
    }

    pub(crate) fn client(&self, name: &str) -> Result<Client, Failed> {
        let client = self.things().clients.get(name).cloned();
        client.ok_or_else(|| Failed::internal(format!("there is no client {name}")))
    }

    pub(crate) fn add_handle(&self, name: &str, handle: Handle) {
        self.things().handles.insert(name.to_owned(), handle);
    }

    pub(crate) fn handle(&self, name: &str) -> Result<Handle, Failed> {
        let handle = self.things().handles.get(name).cloned();
        handle.ok_or_else(|| Failed::internal(format!("there is no handle {name}")))
    }

    /// Returns the actor of this name, which is made when it is first named.
    pub(crate) fn actor(&self, name: &str, client: &Client) -> Actor {
        let mut things = self.things();
        *things
            .actors
            .entry(name.to_owned())
            .or_insert_with(|| client.actor())
    }

    /// Notes the body that runs under a handle, and returns what will end it.
    pub(crate) fn add_body(&self, handle: &str) -> oneshot::Receiver<End> {
        let (sender, end) = oneshot::channel();
        self.things().bodies.insert(handle.to_owned(), sender);
        end
    }

    pub(crate) fn end_body(&self, handle: &str, end: End) -> Result<(), Failed> {
        let body = self.things().bodies.remove(handle);
        body.and_then(|body| body.send(end).ok())
            .ok_or_else(|| Failed::internal(format!("no body runs under {handle}")))
    }

    /// Runs the call of a request until it is done or cancelled. A result that is there counts before a cancellation.
    pub(crate) async fn cancellable<T>(
        &self,
        id: u64,
        call: impl Future<Output = Result<T, Failed>>,
    ) -> Result<T, Failed> {
        let (sender, cancelled) = oneshot::channel();
        self.things().calls.insert(id, sender);
        let done = tokio::select! {
            biased;
            done = call => done,
            Ok(()) = cancelled => Err(Failed::new("cancelled")),
        };
        self.things().calls.remove(&id);
        done
    }

    /// Cancels the call of another request. It may have ended.
    pub(crate) fn cancel(&self, request: &Request) -> Result<Value, Failed> {
        if let Some(call) = self.things().calls.remove(&request.of) {
            call.send(()).ok();
        }
        Ok(json!({}))
    }
}

/// World that tasks share.
pub(crate) type Shared = Arc<World>;
