//! Coordinator whose permissions and tokens change, and its callers.

use std::{fs, path::PathBuf, thread, time::Duration};

use leasehold_proto::v1::{
    admin_service_client::AdminServiceClient, election_service_client::ElectionServiceClient,
    lock_service_client::LockServiceClient,
};
use leasehold_server::{
    Listeners, Reload,
    access::tokens::new_token,
    config::{Action, Config},
    reload::Reloader,
};
pub(super) use leasehold_tests::raw::reason;
use leasehold_tests::raw::{RawCandidate, RawSession, connect, error_info, with_token};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status, transport::Channel};

/// The TTL of sessions whose end is waited for.
pub(super) const TTL: Duration = Duration::from_secs(2);
/// Longest time until the coordinator obeys a changed file.
pub(super) const NOTICED: Duration = Duration::from_secs(8);

/// A coordinator with tokens, and a configuration that can be put in force anew.
pub(super) struct Site {
    folder: TempDir,
    flags: Vec<String>,
    endpoint: String,
    reloader: Reloader,
    shutdown: CancellationToken,
    thread: Option<thread::JoinHandle<()>>,
}

impl Site {
    /// Starts one that asks for tokens, with these tables of permissions.
    pub(super) fn start(permissions: &str) -> Self {
        Self::start_with(permissions, &["--token-file", "tokens"])
    }

    /// Starts one with these flags; a file that they name is one of its folder.
    pub(super) fn start_with(permissions: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start_in(folder, permissions, flags)
    }

    /// Does the same in a folder that has files already.
    pub(super) fn start_in(folder: TempDir, permissions: &str, flags: &[&str]) -> Self {
        let tokens = folder.path().join("tokens");
        if !tokens.exists() {
            fs::write(tokens, "").unwrap();
        }
        let flags = flags.iter().map(|flag| match *flag {
            "tokens" | "jwks.json" | "key.pem" => folder.path().join(flag).display().to_string(),
            other => other.to_owned(),
        });
        let flags: Vec<String> = flags.collect();
        let config = configuration(&folder, &flags, permissions);
        let (reloader, reload) = Reloader::start(config);
        let (grpc, admin) = (listen(), listen());
        let endpoint = format!("http://{}", grpc.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let serving = shutdown.clone();
        let thread = thread::spawn(move || serve(reload, grpc, admin, serving));
        Self {
            folder,
            flags,
            endpoint,
            reloader,
            shutdown,
            thread: Some(thread),
        }
    }

    /// Puts other permissions in force.
    pub(super) fn permit(&mut self, permissions: &str) {
        let config = configuration(&self.folder, &self.flags, permissions);
        assert!(self.reloader.apply(Ok(config)));
    }

    /// Asks for tokens from now on.
    pub(super) fn ask_for_tokens(&mut self) {
        let tokens = self.file("tokens").display().to_string();
        self.reconfigure(vec!["--token-file".to_owned(), tokens]);
    }

    /// Puts other flags in force, without permissions.
    pub(super) fn reconfigure(&mut self, flags: Vec<String>) {
        self.flags = flags;
        self.permit("");
    }

    /// Returns a file of its folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts other text in the place of a file of its folder, in one step.
    pub(super) fn replace(&self, name: &str, text: &str) {
        let new = self.file("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.file(name)).unwrap();
    }

    /// Returns the URL at which it serves.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns a caller that shows this, or nothing.
    pub(super) async fn caller(&self, token: Option<&str>) -> Caller {
        Caller {
            channel: connect(&self.endpoint).await,
            token: token.map(str::to_owned),
        }
    }

    /// Returns a new caller with a token of its own, which the coordinator knows already.
    pub(super) async fn newcomer(&self, name: &str) -> Caller {
        let (token, line) = token(name);
        let before = fs::read_to_string(self.file("tokens")).unwrap();
        self.replace("tokens", &format!("{before}{line}\n"));
        let caller = self.caller(Some(&token)).await;
        caller.until_known().await;
        caller
    }

    /// Takes the tokens of a name out of the file.
    pub(super) fn remove(&self, name: &str) {
        let before = fs::read_to_string(self.file("tokens")).unwrap();
        let others = before
            .lines()
            .filter(|line| !line.starts_with(&format!("{name} ")));
        let others: String = others.map(|line| format!("{line}\n")).collect();
        self.replace("tokens", &others);
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || thread::panicking(),
                "the coordinator panicked"
            );
        }
    }
}

/// Caller with its credentials.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) channel: Channel,
    pub(super) token: Option<String>,
}

impl Caller {
    /// Returns a request with its credentials.
    pub(super) fn says<T>(&self, message: T) -> Request<T> {
        with_token(message, self.token.as_deref())
    }

    pub(super) fn locks(&self) -> LockServiceClient<Channel> {
        LockServiceClient::new(self.channel.clone())
    }

    pub(super) fn elections(&self) -> ElectionServiceClient<Channel> {
        ElectionServiceClient::new(self.channel.clone())
    }

    pub(super) fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel.clone())
    }

    /// Opens a session with its credentials, which sends heartbeats by itself.
    pub(super) async fn session(&self) -> RawSession {
        let mut session = self.try_session().await.unwrap();
        session.say_open(TTL).await;
        session.keep_alive(TTL / 4);
        session
    }

    /// Opens a stream with its credentials, and sends nothing on it.
    pub(super) async fn try_session(&self) -> Result<RawSession, Status> {
        RawSession::stream_as(self.channel.clone(), self.token.as_deref()).await
    }

    pub(super) async fn campaign(&self, election: &str) -> Result<RawCandidate, Status> {
        let token = self.token.as_deref();
        RawCandidate::try_campaign_as(self.channel.clone(), token, (election, b""), TTL).await
    }

    /// Returns whether the coordinator admits it at all.
    pub(super) async fn is_known(&self) -> Result<(), Status> {
        let request = self.says(leasehold_proto::v1::ListSessionsRequest::default());
        self.admin().list_sessions(request).await.map(drop)
    }

    /// Checks that the coordinator refuses it for this reason.
    pub(super) async fn is_refused(&self, why: &str) {
        let refused = self.is_known().await.unwrap_err();
        assert_eq!(reason(&refused), why, "{refused:?}");
    }

    /// Waits until it is admitted.
    pub(super) async fn until_known(&self) {
        tokio::time::timeout(NOTICED, async {
            while self.is_known().await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .expect("the coordinator reads the file again");
    }
}

/// Waits until a stream ends for this reason.
pub(super) async fn ends(session: &mut RawSession, why: &str) {
    let status = session.end(NOTICED).await.unwrap_err();
    assert_eq!(reason(&status), why, "{status:?}");
}

/// Returns a fresh token, and its line.
pub(super) fn token(name: &str) -> (String, String) {
    let made = new_token(name).unwrap();
    let (token, line) = made.trim_end().split_once('\n').unwrap();
    (token.to_owned(), line.to_owned())
}

/// Returns the missing permission and the name that a refusal mentions.
pub(super) fn missing(status: &Status) -> (String, String) {
    assert_eq!(status.code(), tonic::Code::PermissionDenied, "{status:?}");
    let mut info = error_info(status);
    assert_eq!(info.reason, "PERMISSION_DENIED");
    let mut take = |key| info.metadata.remove(key).unwrap();
    let told = (take("permission"), take("name"));
    assert!(info.metadata.is_empty(), "{info:?}");
    told
}

/// Returns a table that permits something to the token of this name.
pub(super) fn table(who: &str, allow: &str, place: &str, prefix: &str) -> String {
    format!(
        "[[permission]]\nidentities = [\"{who}\"]\nallow = [\"{allow}\"]\n{place} = [\"{prefix}\"]\n"
    )
}

fn configuration(folder: &TempDir, flags: &[String], permissions: &str) -> Config {
    let path = folder.path().join("leasehold.toml");
    fs::write(&path, permissions).unwrap();
    let mut arguments = vec!["leasehold-server".to_owned(), "--config".to_owned()];
    arguments.push(path.display().to_string());
    arguments.extend(flags.iter().cloned());
    let arguments = arguments.into_iter().map(Into::into);
    match Config::from_args(arguments, |_| None) {
        Ok(Action::Serve(mut config)) => {
            config.drain_timeout = Duration::from_millis(1);
            *config
        }
        other => panic!("it does not serve: {other:?}"),
    }
}

fn listen() -> std::net::TcpListener {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn serve(
    reload: Reload,
    grpc: std::net::TcpListener,
    admin: std::net::TcpListener,
    shutdown: CancellationToken,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let served = runtime.unwrap().block_on(async {
        let listeners = Listeners {
            grpc: TcpListener::from_std(grpc).unwrap(),
            admin: TcpListener::from_std(admin).unwrap(),
        };
        leasehold_server::run(reload, listeners, shutdown).await
    });
    served.unwrap();
}
