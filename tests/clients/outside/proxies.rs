//! Real proxies before a coordinator, in the configuration that their packages' pages show, with every time and size at its default:
//! nginx ends a request whose body has 1 MiB, and HAProxy what is silent for 50 s.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use futures_util::future::join_all;
use leasehold_client::{Client, LockGuard};
use leasehold_tests::{Coordinator, ports::free_port, wait};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::sleep;

/// More than any of the proxies waits for something to be said.
const SILENCE: Duration = Duration::from_secs(65);
const LIMIT: Duration = Duration::from_secs(60);
/// Requests of the busy session, of about 60 bytes each: several times what nginx takes on one stream.
const REQUESTS: usize = 40_000;
/// Locks that it has on their way at a time.
const FLOWS: usize = 16;

/// A proxy, which ends with this value.
struct Proxy {
    process: Child,
    endpoint: String,
    _directory: TempDir,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // In order, so that its workers end with it.
        self.signal(Signal::TERM);
        let _ = self.process.wait();
    }
}

impl Proxy {
    /// Starts a proxy by the words of its command, before which the configuration is written; `{dir}` is the folder that it is in.
    fn start(words: &[&str], configuration: impl Fn(u16, &str) -> String) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (port, folder) = (free_port(), directory.path().display().to_string());
        let path: PathBuf = directory.path().join("proxy.conf");
        fs::write(path, configuration(port, &folder)).unwrap();
        let words = words.iter().map(|word| word.replace("{dir}", &folder));
        let words: Vec<_> = words.collect();
        let process = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            process,
            endpoint: format!("http://127.0.0.1:{port}"),
            _directory: directory,
        }
    }

    fn nginx(upstream: &str) -> Self {
        let words = ["nginx", "-p", "{dir}", "-c", "{dir}/proxy.conf"];
        Self::start(&words, |port, folder| {
            format!(
                "daemon off;\npid {folder}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n  access_log off;\n  server {{\n    listen 127.0.0.1:{port} http2;\n    location / {{ grpc_pass grpc://{upstream}; }}\n  }}\n}}\n"
            )
        })
    }

    fn haproxy(upstream: &str) -> Self {
        let words = ["haproxy", "-W", "-db", "-f", "{dir}/proxy.conf"];
        Self::start(&words, |port, _| {
            format!(
                "defaults\n  mode http\n  timeout connect 5s\n  timeout client 50s\n  timeout server 50s\nfrontend locks\n  bind 127.0.0.1:{port} proto h2\n  default_backend coordinators\nbackend coordinators\n  server one {upstream} proto h2\n"
            )
        })
    }

    fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.process.id().cast_signed()).unwrap();
        let _ = kill_process(process, signal);
    }

    /// Returns a client behind it, once it serves.
    async fn client(&self) -> Client {
        wait::until("the proxy to serve", LIMIT, || async {
            Client::connect(self.endpoint.clone()).await
        })
        .await
    }
}

fn holds(guard: &LockGuard, token: i64) {
    assert!(guard.is_held(), "{:?}", guard.state());
    assert_eq!(guard.fencing_token().get(), token);
}

/// A session that makes very many requests, an idle one, one that waits for long, and a watcher; and the proxy is reloaded meanwhile.
async fn nothing_is_lost(start: fn(&str) -> Proxy, reload: Signal) {
    let coordinator = Coordinator::in_process();
    let upstream = coordinator.endpoint().replace("http://", "");
    let proxy = start(&upstream);
    let client = proxy.client().await;
    let [idle, busy, waits, watches] = [
        proxy.client().await,
        client.clone(),
        proxy.client().await,
        proxy.client().await,
    ];
    let direct = Client::connect(coordinator.endpoint()).await.unwrap();
    let blocking = direct.lock("waited").await.unwrap();
    let kept = busy.lock("kept").await.unwrap();
    let idles = idle.lock("idle").await.unwrap();
    let tokens = [&kept, &idles].map(|guard| guard.fencing_token().get());
    let mut watcher = watches.admin().watch_locks("seen");
    let seen = tokio::spawn(async move {
        loop {
            let event = watcher.next().await.unwrap().unwrap();
            if format!("{event:?}").contains("seen/late") {
                return;
            }
        }
    });
    let waited = tokio::spawn(async move { waits.lock("waited").await.unwrap() });

    let requests = join_all((0..FLOWS).map(async |flow| {
        for _ in 0..REQUESTS / FLOWS / 2 {
            let guard = busy.lock(format!("busy/{flow}")).await.unwrap();
            guard.release().await.unwrap();
        }
    }));
    let reloads = async {
        sleep(SILENCE / 5).await;
        proxy.signal(reload);
        sleep(SILENCE).await;
    };
    tokio::join!(requests, reloads);

    holds(&kept, tokens[0]);
    holds(&idles, tokens[1]);
    blocking.release().await.unwrap();
    let waited = tokio::time::timeout(LIMIT, waited).await.unwrap().unwrap();
    assert!(waited.is_held());
    let late = client.lock("seen/late").await.unwrap();
    tokio::time::timeout(LIMIT, seen).await.unwrap().unwrap();
    late.release().await.unwrap();
    kept.release().await.unwrap();
    idles.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_behind_nginx() {
    needs!("nginx");
    nothing_is_lost(Proxy::nginx, Signal::HUP).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_behind_haproxy() {
    needs!("haproxy");
    nothing_is_lost(Proxy::haproxy, Signal::USR2).await;
}
