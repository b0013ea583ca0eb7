//! Coordinators, and the sessions whose locks the page shows.

use std::{fs, time::Duration};

use leasehold_client::{Client, Leadership, LockGuard, Session};
use leasehold_server::access::tokens::new_token;
use leasehold_tests::{Coordinator, CoordinatorProcess, RedisServer, ports::free_port};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// Permissions of the callers of the coordinator that asks for tokens.
const PERMISSIONS: &str = r#"
[[permission]]
identities = ["token:viewer", "token:operator"]
allow = ["inspect"]
locks = [""]
elections = [""]

[[permission]]
identities = ["token:operator"]
allow = ["administer"]
locks = [""]
elections = [""]

[[permission]]
identities = ["token:partial"]
allow = ["inspect"]
locks = ["live/"]
"#;

/// Names of the tokens.
const CALLERS: [&str; 3] = ["viewer", "operator", "partial"];
/// Locks that one session holds.
const CROWD: usize = 10_000;
/// Names in one acquire.
const SLICE: usize = 64;

/// Coordinators, tokens, and clients with their locks.
pub(crate) struct Site {
    /// The page is this one's.
    open: CoordinatorProcess,
    /// Named in the settings of the former.
    other: CoordinatorProcess,
    secured: CoordinatorProcess,
    /// Has locks of its own, very many.
    crowded: CoordinatorProcess,
    tokens: Vec<String>,
    _clients: Clients,
    _folder: TempDir,
    _redis: [RedisServer; 2],
}

/// Clients that live as long as the site.
struct Clients {
    _sessions: Vec<Session>,
    _guards: Vec<LockGuard>,
    _leader: Leadership,
    _waiting: Vec<JoinHandle<()>>,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let redis = [RedisServer::start(), RedisServer::start()];
        let url = redis[0].url();
        let other = Coordinator::process()
            .store(&url)
            .arguments(["--name", "other", "--cors-origins", "*"])
            .start();
        let address = format!("127.0.0.1:{}", free_port());
        let known = format!("http://{address},{}", other.endpoint());
        let open = Coordinator::process()
            .store(&url)
            .arguments(["--name", "open", "--listen", &address])
            .arguments(["--page-coordinators", &known])
            .start();
        let folder = tempfile::tempdir().unwrap();
        let (tokens, lines): (Vec<_>, Vec<_>) = CALLERS
            .iter()
            .map(|caller| {
                let printed = new_token(caller).unwrap();
                let (token, line) = printed.trim().split_once('\n').unwrap();
                (token.to_owned(), line.to_owned())
            })
            .unzip();
        let write = |name: &str, contents: &str| {
            let path = folder.path().join(name);
            fs::write(&path, contents).unwrap();
            path.display().to_string()
        };
        let secured = Coordinator::process()
            .store(&url)
            .arguments(["--name", "secured"])
            .arguments([
                "--token-file".to_owned(),
                write("tokens", &lines.join("\n")),
            ])
            .arguments(["--config".to_owned(), write("permissions", PERMISSIONS)])
            .start();
        let crowded = Coordinator::process().store(redis[1].url()).start();
        Self {
            _clients: Clients::start([&open, &other, &crowded]).await,
            open,
            other,
            secured,
            crowded,
            tokens,
            _folder: folder,
            _redis: redis,
        }
    }

    /// Returns what the scenarios need to know: for each page its admin port, and the ports that it may call.
    pub(crate) fn described(&self) -> Value {
        let [viewer, operator, partial] = &self.tokens[..] else {
            unreachable!("each caller has a token")
        };
        json!({
            "open": {
                "admin": self.open.admin_endpoint(),
                "allowed": [self.open.endpoint(), self.other.endpoint()],
            },
            "secured": {
                "admin": self.secured.admin_endpoint(),
                "allowed": [self.secured.endpoint()],
            },
            "crowded": {
                "admin": self.crowded.admin_endpoint(),
                "allowed": [self.crowded.endpoint()],
            },
            "viewer": viewer,
            "operator": operator,
            "partial": partial,
        })
    }
}

impl Clients {
    async fn start([open, other, crowded]: [&CoordinatorProcess; 3]) -> Self {
        let client = Client::connect(open.endpoint()).await.unwrap();
        let elsewhere = Client::connect(other.endpoint()).await.unwrap();
        let apart = Client::connect(crowded.endpoint()).await.unwrap();
        let session = async |name: &str, client: &Client| {
            let session = client
                .session()
                .client_name(name)
                .metadata("version", "1.4");
            session.ttl(Duration::from_secs(60)).open().await.unwrap()
        };
        let mut guards = Vec::with_capacity(CROWD + 2);
        let crowd = session("crowd", &apart).await;
        let names: Vec<_> = (0..CROWD)
            .map(|number| format!("crowd/{number:05}"))
            .collect();
        for slice in names.chunks(SLICE) {
            guards.extend(crowd.lock_all(slice.iter().cloned()).await.unwrap());
        }
        let holder = session("checkout-1", &client).await;
        guards.push(holder.lock("shop/orders").await.unwrap());
        let doomed = session("doomed", &client).await;
        guards.push(doomed.lock("doomed/lock").await.unwrap());
        let leader = session("node-1", &client).await;
        let leadership = leader
            .election("captain")
            .campaign("10.0.0.1:8080")
            .await
            .unwrap();
        let waiter = session("checkout-2", &elsewhere).await;
        let candidate = session("node-2", &elsewhere).await;
        let queued = waiter.lock("shop/orders");
        let election = candidate.election("captain");
        let waiting = vec![
            tokio::spawn(async move { drop(queued.await) }),
            tokio::spawn(async move {
                let _leadership = election.campaign("10.0.0.2:8080").await;
                std::future::pending::<()>().await;
            }),
        ];
        Self {
            _sessions: vec![crowd, holder, doomed, leader, waiter, candidate],
            _guards: guards,
            _leader: leadership,
            _waiting: waiting,
        }
    }
}
