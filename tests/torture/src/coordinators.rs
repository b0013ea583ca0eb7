//! Coordinators, each of which comes back on its own port.

use std::{fs::OpenOptions, io::Write, net::Ipv4Addr, sync::Arc, time::Duration};

use leasehold_client::Admin;
use leasehold_tests::{Coordinator, CoordinatorProcess, Host, Network, ports::free_port};

use rustix::process::Signal;

use crate::{TTL, credentials::Credentials, planted, record::Record, store::Store};

/// Time that a coordinator gives its clients to leave.
const DRAIN: Duration = Duration::from_secs(3);
/// Longest time until a coordinator that was asked to end has ended.
const ENDED: Duration = Duration::from_secs(30);

/// The coordinators.
pub(crate) struct Coordinators {
    all: Vec<Seat>,
    record: Arc<Record>,
    /// Credentials, if they speak TLS.
    credentials: Option<Arc<Credentials>>,
    /// Fault that is planted in them.
    planted: Option<String>,
    /// Coordinators that panicked.
    panics: usize,
}

/// What a coordinator keeps over a restart.
struct Place {
    url: String,
    host: Option<Host>,
    port: u16,
}

struct Seat {
    place: Place,
    process: CoordinatorProcess,
}

impl Coordinators {
    /// Starts as many as the store's topology allows.
    pub(crate) async fn start(
        store: &mut Store,
        network: Option<&Network>,
        credentials: Option<Arc<Credentials>>,
        planted: Option<String>,
        record: Arc<Record>,
    ) -> Self {
        let mut all = Vec::new();
        for _ in 0..store.coordinators() {
            let place = Place {
                url: store.url().await,
                host: network.map(Network::host),
                port: free_port(),
            };
            let start = || place.start(planted.as_deref(), credentials.as_deref());
            let process = tokio::task::block_in_place(start);
            all.push(Seat { place, process });
        }
        Self {
            all,
            record,
            credentials,
            planted,
            panics: 0,
        }
    }

    /// Returns the host of each; none without a network.
    pub(crate) fn hosts(&self) -> Vec<Host> {
        let hosts = self.all.iter().filter_map(|seat| seat.place.host.clone());
        hosts.collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns the URLs.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        let endpoints = self.all.iter();
        endpoints.map(|seat| seat.process.endpoint()).collect()
    }

    /// Returns the credentials of all, if they speak TLS.
    pub(crate) fn credentials(&self) -> Option<&Arc<Credentials>> {
        self.credentials.as_ref()
    }

    /// Returns a way to look into the coordinator at a URL.
    pub(crate) fn admin(&self, endpoint: &str) -> Admin {
        match &self.credentials {
            Some(credentials) => credentials.admin(endpoint),
            None => Admin::connect(endpoint).expect("a URL"),
        }
    }

    /// Has all of them take their configuration over anew.
    pub(crate) fn reload(&mut self) {
        for seat in &mut self.all {
            seat.process.child().signal(Signal::HUP);
        }
    }

    pub(crate) fn process(&self, number: usize) -> &CoordinatorProcess {
        &self.all[number].process
    }

    pub(crate) fn kill(&mut self, number: usize) {
        self.all[number].process.kill();
    }

    /// Ends one with SIGTERM, and waits until it is gone.
    pub(crate) async fn drain(&mut self, number: usize) {
        let process = &mut self.all[number].process;
        process.terminate();
        let status = process.child().wait(ENDED).await;
        assert!(status.success(), "{status:?}\n{}", process.log());
    }

    /// Starts one that has ended, where it was.
    pub(crate) fn start_again(&mut self, number: usize) {
        self.keep_log(number);
        let seat = &mut self.all[number];
        let (planted, credentials) = (self.planted.as_deref(), self.credentials.as_deref());
        seat.process = tokio::task::block_in_place(|| seat.place.start(planted, credentials));
    }

    /// Keeps all logs beside the history, and returns how many coordinators panicked.
    pub(crate) fn finish(mut self) -> usize {
        for number in 0..self.count() {
            self.keep_log(number);
        }
        self.panics
    }

    fn keep_log(&mut self, number: usize) {
        let log = self.all[number].process.log();
        self.panics += usize::from(log.contains("panicked at"));
        self.record.counted(&format!("coordinator-{number}"), &log);
        let path = self.record.path(&format!("coordinator-{number}"));
        let path = path.with_extension("log");
        let kept = OpenOptions::new().append(true).create(true).open(path);
        kept.and_then(|mut file| file.write_all(log.as_bytes()))
            .expect("the log can be kept");
    }
}

impl Place {
    fn start(&self, fault: Option<&str>, credentials: Option<&Credentials>) -> CoordinatorProcess {
        let drain = format!("{}ms", DRAIN.as_millis());
        let (ttl, most) = (
            format!("{}s", TTL.as_secs()),
            format!("{}s", TTL.as_secs() + 1),
        );
        let address = self.host.as_ref().map(Host::address);
        let address = address.unwrap_or(Ipv4Addr::LOCALHOST);
        let listen = format!("{address}:{}", self.port);
        // Beyond loopback it would need TLS, or leave to do without.
        let admin = format!("{}:0", Ipv4Addr::LOCALHOST);
        let protection = match credentials {
            Some(credentials) => credentials.flags(),
            None => vec!["--insecure".to_owned()],
        };
        let mut options = Coordinator::process().host(self.host.as_ref());
        if let Some(fault) = fault {
            options = options.environment(planted::VARIABLE, fault);
        }
        options
            .store(&self.url)
            .arguments(["--listen", &listen, "--admin-listen", &admin])
            .arguments(protection)
            .arguments(["--drain-timeout", &drain])
            .arguments(["--default-ttl", &ttl, "--max-ttl", &most])
            .start_unready()
    }
}
