//! Certificates that end in a week: of a coordinator, of each server of a store, and in the files that the doctor is given.

use std::{path::Path, time::Duration};

use leasehold_tests::{
    Authority, Coordinator, RedisServer, certificates::Issued, ports::free_port,
    redis_server::RedisOptions, wait,
};

use super::site::{Diagnosis, LIMIT, doctor, endpoints, two};

const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Redis server with a second port, for TLS.
struct TlsServer {
    redis: RedisServer,
    port: u16,
}

impl TlsServer {
    /// Starts a server that shows this certificate to clients, and that speaks TLS with other servers, too.
    fn start(authority: &Authority, shown: &Issued, options: RedisOptions) -> Self {
        let port = free_port();
        let (number, ca) = (port.to_string(), authority.ca());
        let own = authority.client("redis").issue();
        let mut options = options;
        for (setting, value) in [
            ("--tls-port", &*number),
            ("--tls-replication", "yes"),
            ("--tls-auth-clients", "optional"),
            ("--tls-ca-cert-file", text(&ca)),
            ("--tls-cert-file", text(&shown.cert)),
            ("--tls-key-file", text(&shown.key)),
            ("--tls-client-cert-file", text(&own.cert)),
            ("--tls-client-key-file", text(&own.key)),
        ] {
            options = options.arguments([setting, value]);
        }
        let redis = options.start();
        Self { redis, port }
    }

    /// Returns the host and the port with TLS.
    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns its name in findings.
    fn name(&self) -> String {
        format!("Redis at {}", self.address())
    }

    /// Has it show another certificate, as `docs/doctor.md` tells an operator to.
    fn show(&self, issued: &Issued) {
        let files = [
            "tls-cert-file",
            text(&issued.cert),
            "tls-key-file",
            text(&issued.key),
        ];
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg(&files);
        command.exec(&mut self.redis.connection()).unwrap();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn durable() -> RedisOptions {
    RedisServer::options().append_only()
}

/// Returns the subjects of the warnings of certificates, each of which is to end in 6 days.
fn ending(told: &Diagnosis) -> Vec<&str> {
    let found = told.findings.iter();
    let found = found.filter(|it| it["check"] == "certificate-ends");
    let subjects = found.map(|it| {
        assert_eq!(it["severity"], "warning", "{it}");
        assert!(
            it["what"].as_str().unwrap().ends_with(" expires in 6 days"),
            "{it}"
        );
        assert_eq!(it["link"], "docs/doctor.md#certificate-ends");
        it["subject"].as_str().unwrap()
    });
    subjects.collect()
}

/// Returns the subjects of a store's certificates that end. The coordinator, which has another store, is asked for nothing else.
fn ending_of(store: &str, authority: &Authority) -> Vec<String> {
    let coordinator = Coordinator::in_process();
    let ca = authority.ca();
    let told = doctor(
        &coordinator.endpoint(),
        Some(store),
        &["--store-ca", text(&ca)],
    );
    let away = told
        .kinds()
        .into_iter()
        .find(|(check, _)| check.starts_with("store-un"));
    assert_eq!(away, None, "{told:?}");
    ending(&told).into_iter().map(str::to_owned).collect()
}

#[test]
fn the_certificate_of_a_coordinator_ends_in_a_week() {
    let authority = Authority::new("servers");
    let issued = authority.server().expires_in(WEEK).issue();
    let coordinator = Coordinator::process().arguments(issued.flags()).start();
    let ca = authority.ca();
    let ca = ca.to_str().unwrap();
    let told = doctor(&coordinator.endpoint(), None, &["--ca", ca]);
    assert_eq!(told.kinds(), [("certificate-ends", "warning")]);
    assert!(
        told.finding("certificate-ends")["what"]
            .as_str()
            .unwrap()
            .contains("6 days"),
        "{told:?}"
    );
    // The system does not trust the authority.
    let told = doctor(&coordinator.endpoint(), None, &[]);
    assert_eq!(told.kinds(), [("coordinator-refuses", "error")]);
    assert_eq!(told.code, 77);
}

#[test]
fn a_certificate_of_redis_or_of_the_doctor_ends_in_a_week() {
    let authority = Authority::new("all");
    let server = |left| authority.server().expires_in(left).issue();
    let client = |left| authority.client("ops").expires_in(left).issue();
    let [(later, client_later), (soon, client_soon)] =
        [MONTH, WEEK].map(|left| (server(left), client(left)));
    let redis = TlsServer::start(&authority, &later, durable());
    let store = format!("rediss://{}", redis.address());
    let ca = authority.ca();
    let of_store = ["--store-ca", text(&ca)];
    let flags = [later.flags(), authority.of_clients()].concat();
    let flags: Vec<_> = flags.iter().map(String::as_str).chain(of_store).collect();
    let coordinators = two(&store, &flags);
    let endpoints = endpoints(&coordinators);
    let run = |ca: &Path, client: &Issued, to_store: &Issued| {
        let identity = ["--ca", text(ca), "--cert", text(&client.cert)];
        let key = ["--key", text(&client.key)];
        let to_store = [
            "--store-cert",
            text(&to_store.cert),
            "--store-key",
            text(&to_store.key),
        ];
        let more = [&identity[..], &key, &of_store, &to_store].concat();
        doctor(&endpoints, Some(&store), &more)
    };

    // Coordinators that have just started may not have seen their store.
    wait::until_blocking("a healthy deployment", LIMIT, || {
        let told = run(&ca, &client_later, &client_later);
        if told.kinds().is_empty() {
            Ok(())
        } else {
            Err(told)
        }
    });
    let told = run(&ca, &client_soon, &client_later);
    let file = client_soon.cert.display();
    assert_eq!(ending(&told), [format!("{file} (--cert)")]);
    assert_eq!((told.findings.len(), told.code), (1, 6), "{told:?}");
    let told = run(&ca, &client_later, &client_soon);
    assert_eq!(ending(&told), [format!("{file} (--store-cert)")]);
    assert_eq!((told.findings.len(), told.code), (1, 6), "{told:?}");

    redis.show(&soon);
    let told = run(&ca, &client_later, &client_later);
    assert_eq!(ending(&told), [redis.name()]);
    assert_eq!((told.findings.len(), told.code), (1, 6), "{told:?}");
    redis.show(&later);
    assert_eq!(run(&ca, &client_later, &client_later).kinds(), []);
}

#[test]
fn an_authority_ends_in_a_week_and_another_one_is_beside_it() {
    let former = Authority::expires_in("former", WEEK);
    let issued = former.server().expires_in(MONTH).issue();
    let redis = TlsServer::start(&former, &issued, durable());
    let store = format!("rediss://{}", redis.address());
    let ca = former.ca();
    let flags = [&issued.flags()[..], &[format!("--store-ca={}", text(&ca))]].concat();
    let coordinator = Coordinator::process()
        .store(&store)
        .arguments(flags)
        .start();
    let run = |ca: &Path| {
        let files = ["--ca", text(ca), "--store-ca", text(ca)];
        doctor(&coordinator.endpoint(), Some(&store), &files)
    };
    let told = run(&ca);
    let file = ca.display();
    let [ca_file, store_ca_file] = ["--ca", "--store-ca"].map(|it| format!("{file} ({it})"));
    // Redis shows its authority behind its certificate.
    assert_eq!(ending(&told), [redis.name(), ca_file, store_ca_file]);
    // During a change of authorities, the file has both.
    let next = Authority::new("next");
    let both = former.directory().join("both.pem");
    let pems = [&ca, &next.ca()].map(|path| std::fs::read_to_string(path).unwrap());
    std::fs::write(&both, pems.concat()).unwrap();
    assert_eq!(ending(&run(&both)), [redis.name()]);
}

#[test]
fn certificates_of_sentinels_and_replicas_end_in_a_week() {
    let authority = Authority::new("servers");
    let [later, soon] = [MONTH, WEEK].map(|left| authority.server().expires_in(left).issue());
    let master = TlsServer::start(&authority, &later, durable());
    let port = master.port.to_string();
    let follows = durable().arguments(["--replicaof", "127.0.0.1", &port]);
    let replica = TlsServer::start(&authority, &later, follows);
    let watches = format!("sentinel monitor locks 127.0.0.1 {port} 1\n");
    let options = RedisServer::options().sentinel(watches);
    let sentinel = TlsServer::start(&authority, &soon, options);
    let store = format!("rediss+sentinel://{}/locks", sentinel.address());
    wait::until_blocking("the replica to be in step", LIMIT, || {
        let info: String = redis::cmd("INFO")
            .query(&mut master.redis.connection())
            .unwrap();
        info.contains("state=online").then_some(()).ok_or(info)
    });
    let sentinel = format!("the sentinel at {}", sentinel.address());
    assert_eq!(
        ending_of(&store, &authority),
        std::slice::from_ref(&sentinel)
    );
    replica.show(&soon);
    assert_eq!(
        ending_of(&store, &authority),
        [replica.name(), sentinel.clone()]
    );
    master.show(&soon);
    let all = [master.name(), replica.name(), sentinel];
    assert_eq!(ending_of(&store, &authority), all);
}
