//! The servers that the demonstration needs: those that are named on the command line, or else its own.

use std::{
    env,
    net::{Ipv4Addr, TcpListener},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use redis::aio::MultiplexedConnection;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::timeout,
};

use crate::process::Process;

/// Longest time that a server may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that is there to use.
#[derive(Debug)]
pub struct Service {
    /// Its URL. That of Redis may hold a password.
    pub url: String,
    /// The process, if it is ours: it ends when this is dropped.
    _process: Option<Process>,
}

/// Returns the given Redis, or starts one.
///
/// # Errors
///
/// If the one that was named does not answer, or none can be started.
pub async fn redis(url: Option<String>) -> anyhow::Result<Service> {
    if let Some(url) = url {
        connect(&url).await?;
        return Ok(Service {
            url,
            _process: None,
        });
    }
    // Another program may take the port before Redis does.
    for _ in 0..5 {
        if let Some(service) = start_redis().await? {
            return Ok(service);
        }
    }
    bail!("failed to start redis-server: no port stayed free for it");
}

/// Returns a connection to Redis.
///
/// # Errors
///
/// If the URL is invalid, or Redis does not answer.
pub async fn connect(url: &str) -> anyhow::Result<MultiplexedConnection> {
    let client = redis::Client::open(url).context("failed to read the URL of Redis")?;
    let connection = timeout(PATIENCE, client.get_multiplexed_async_connection());
    let connection = connection.await.context("Redis does not answer")?;
    connection.context("failed to connect to Redis")
}

/// Starts a Redis. Returns `None` if another program has taken the port.
async fn start_redis() -> anyhow::Result<Option<Service>> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port();
    let mut command = Command::new("redis-server");
    command
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(["--save", "", "--appendonly", "no"])
        .current_dir(env::temp_dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut process = match Process::start("redis-server", command) {
        Ok(process) => process,
        Err(error) => bail!(
            "{error:#}. Install it (on Debian: apt-get install redis-server), or name a server that is running with \
             --redis redis://HOST:PORT"
        ),
    };
    let url = format!("redis://127.0.0.1:{port}");
    let ours = format!("process_id:{}\r\n", process.id());
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if process.try_wait()?.is_some() {
            return Ok(None);
        }
        if let Ok(mut connection) = connect(&url).await {
            let info = redis::cmd("INFO").arg("server").to_owned();
            let info: String = info.query_async(&mut connection).await?;
            return Ok(info.contains(&ours).then_some(Service {
                url,
                _process: Some(process),
            }));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bail!("redis-server did not answer within {PATIENCE:?}");
}

/// Returns the given coordinator, or starts one that keeps its locks in this Redis.
///
/// # Errors
///
/// If none can be started.
pub async fn coordinator(endpoint: Option<String>, redis: &Service) -> anyhow::Result<Service> {
    if let Some(url) = endpoint {
        return Ok(Service {
            url,
            _process: None,
        });
    }
    let program = env::current_exe()?.with_file_name("leasehold-server");
    if !program.exists() {
        bail!(
            "there is no coordinator at {}: build it first (cargo build -p leasehold-server), or name one that is \
             running with --endpoint http://HOST:PORT",
            program.display()
        );
    }
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("LEASEHOLD_") {
            command.env_remove(name);
        }
    }
    command
        .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .args(["--log", "warn"])
        .env("LEASEHOLD_STORE", &redis.url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut process = Process::start("leasehold-server", command)?;
    let output = process.take_stdout().context("its output is piped")?;
    let mut lines = BufReader::new(output).lines();
    let first = timeout(PATIENCE, lines.next_line()).await;
    let first = first.context("leasehold-server did not say where it listens")??;
    let address = first.as_deref().and_then(|line| {
        let mut words = line.split_whitespace();
        words.find_map(|word| word.strip_prefix("grpc="))
    });
    let Some(address) = address else {
        bail!("leasehold-server did not say where it listens, but {first:?}");
    };
    let url = format!("http://{address}");
    // Whatever else it says must not fill the pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok(Service {
        url,
        _process: Some(process),
    })
}
