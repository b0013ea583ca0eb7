//! Runs of the doctor.

use std::{process::Command, time::Duration};

use leasehold_tests::{
    Coordinator, CoordinatorProcess, RedisServer, Sentinels, binaries, redis_server::RedisOptions,
    sentinels::SentinelsOptions, wait,
};
use serde_json::Value;

/// Longest time until a finding comes or goes.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

/// A server that forgets nothing.
pub(crate) fn durable() -> RedisOptions {
    RedisServer::options().append_only()
}

/// A master and replicas behind sentinels that forget nothing, and of which each waits for another one.
pub(crate) fn guarded() -> SentinelsOptions {
    (0..3).fold(Sentinels::options(), |options, index| {
        options.server(index, |it| {
            it.append_only().arguments(["--min-replicas-to-write", "1"])
        })
    })
}

/// Diagnosis of one run.
#[derive(Clone, Debug)]
pub(crate) struct Diagnosis {
    pub(crate) findings: Vec<Value>,
    pub(crate) document: Value,
    pub(crate) code: i32,
}

/// Runs the doctor to its end. The store's URL is in its environment, as it may have a password.
pub(crate) fn doctor(endpoints: &str, store: Option<&str>, more: &[&str]) -> Diagnosis {
    let mut command = Command::new(binaries::path("leasehold"));
    command
        .args(["doctor", "--json", "--endpoint", endpoints])
        .args(more);
    if let Some(store) = store {
        command.env("LEASEHOLD_STORE", store);
    }
    let output = command.output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    Diagnosis {
        findings: document["findings"].as_array().unwrap().clone(),
        document,
        code: output.status.code().unwrap(),
    }
}

/// Runs the doctor until this is all that it finds.
pub(super) fn until(endpoints: &str, store: Option<&str>, expected: &[(&str, &str)]) -> Diagnosis {
    wait::until_blocking("the doctor to find it", LIMIT, || {
        let told = doctor(endpoints, store, &[]);
        match told.kinds() == expected {
            true => Ok(told),
            false => Err(told),
        }
    })
}

impl Diagnosis {
    /// Returns the name and the severity of each finding.
    pub(crate) fn kinds(&self) -> Vec<(&str, &str)> {
        let kinds = self.findings.iter().map(|finding| {
            let field = |name: &str| finding[name].as_str().unwrap();
            (field("check"), field("severity"))
        });
        kinds.collect()
    }

    /// Returns the finding of this name.
    pub(crate) fn finding(&self, check: &str) -> &Value {
        let found = self
            .findings
            .iter()
            .find(|finding| finding["check"] == check);
        found.unwrap_or_else(|| panic!("no {check}: {self:?}"))
    }
}

/// Starts two coordinators on a store.
pub(super) fn two(store: &str, arguments: &[&str]) -> [CoordinatorProcess; 2] {
    ["a", "b"].map(|name| {
        let options = Coordinator::process()
            .store(store)
            .arguments(["--name", name]);
        options.arguments(arguments.iter().copied()).start()
    })
}

/// Returns the endpoints of coordinators, as one list.
pub(super) fn endpoints(coordinators: &[CoordinatorProcess]) -> String {
    let endpoints: Vec<_> = coordinators
        .iter()
        .map(CoordinatorProcess::endpoint)
        .collect();
    endpoints.join(",")
}
