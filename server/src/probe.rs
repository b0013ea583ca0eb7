//! `leasehold-server probe`: asks a coordinator on this machine whether it is ready, for health checks where there is no curl.

mod trusting;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Builder,
    time::timeout,
};
use tokio_util::either::Either;

use crate::config::Config;

/// Time within which the coordinator must answer: it needs no other server for that.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most bytes that are read of an answer. A reason is one line.
const MAX_ANSWER: u64 = 16 * 1024;

/// Asks the coordinator that runs with this configuration on this machine whether it serves locks, and returns its answer, such
/// as `ready`. Blocks for at most three seconds; call it outside of a runtime.
///
/// # Errors
///
/// If it does not answer, or answers that it is not ready.
pub fn probe(config: &Config) -> Result<String, String> {
    let address = reachable(config.admin_listen);
    if address.port() == 0 {
        return Err(format!(
            "failed to ask the coordinator: admin-listen is {address}, a free port; give the one that it took as --admin-listen"
        ));
    }
    let runtime = Builder::new_current_thread().enable_all().build();
    let answer = runtime
        .and_then(|runtime| {
            runtime.block_on(async { timeout(PATIENCE, ask(config, address)).await? })
        })
        .map_err(|error| format!("failed to ask the coordinator at {address}: {error}"))?;
    let answer = String::from_utf8_lossy(&answer);
    match read(&answer) {
        Some((true, reason)) => Ok(reason.to_owned()),
        Some((false, reason)) => Err(format!("not ready: {reason}")),
        None => Err(format!(
            "failed to understand the answer of {address}: it is not HTTP; is this the admin port?"
        )),
    }
}

/// Returns the address at which this machine reaches a coordinator that listens on `address`.
const fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}

/// Sends the request, and returns the answer.
async fn ask(config: &Config, address: SocketAddr) -> io::Result<Vec<u8>> {
    let socket = TcpStream::connect(address).await?;
    let mut stream = if config.admin_tls {
        Either::Left(trusting::encrypted(socket).await?)
    } else {
        Either::Right(socket)
    };
    // HTTP/1.0: the answer is not in chunks, and ends with the connection.
    let request = format!("GET /readyz HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    match stream.take(MAX_ANSWER).read_to_end(&mut answer).await {
        // TLS ended without close_notify. A cut-off answer fails to parse.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(answer),
    }
}

/// Returns whether an HTTP answer is a success, and the first line of its body, or of its head if it has none.
fn read(answer: &str) -> Option<(bool, &str)> {
    let (status, rest) = answer.split_once("\r\n")?;
    let code = status.strip_prefix("HTTP/1.")?.get(2..5)?;
    let body = rest.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let reason = body.lines().next().unwrap_or(status);
    Some((code == "200", reason))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{SocketAddr, TcpListener},
        thread,
    };

    use super::{probe, reachable, read};
    use crate::config::Config;

    fn asking(admin_listen: SocketAddr) -> Config {
        Config {
            admin_listen,
            ..Config::default()
        }
    }

    /// Returns a configuration whose admin port gives this answer, once.
    fn answering(answer: &'static str) -> Config {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let admin_listen = SocketAddr::from(([0, 0, 0, 0], listener.local_addr().unwrap().port()));
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = [0; 256];
            let length = socket.read(&mut request).unwrap();
            assert!(request[..length].starts_with(b"GET /readyz HTTP/1.0\r\n"));
            socket.write_all(answer.as_bytes()).unwrap();
        });
        asking(admin_listen)
    }

    #[test]
    fn the_coordinators_answer_is_printed() {
        let ready = probe(&answering(
            "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nready\n",
        ));
        assert_eq!(ready.unwrap(), "ready");
        let draining = probe(&answering(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 9\r\n\r\ndraining\n",
        ));
        assert_eq!(draining.unwrap_err(), "not ready: draining");
        let foreign = probe(&answering("SSH-2.0-OpenSSH_9.2\r\n"));
        assert!(foreign.unwrap_err().contains("it is not HTTP"));
        let silent = probe(&answering(""));
        assert!(silent.unwrap_err().contains("it is not HTTP"));
    }

    #[test]
    fn nobody_there_is_an_error() {
        let unknown = probe(&asking(SocketAddr::from(([127, 0, 0, 1], 0))));
        assert!(unknown.unwrap_err().contains("give the one that it took"));
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let nobody = probe(&asking(address));
        assert!(nobody.unwrap_err().contains(&format!("at {address}: ")));
    }

    #[test]
    fn every_interface_is_asked_on_loopback() {
        for (listen, asked) in [
            ("0.0.0.0:7421", "127.0.0.1:7421"),
            ("[::]:7421", "[::1]:7421"),
            ("10.1.2.3:7421", "10.1.2.3:7421"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()), asked.parse().unwrap());
        }
    }

    #[test]
    fn an_answer_without_a_body_is_its_status() {
        assert_eq!(
            read("HTTP/1.0 404 Not Found\r\n\r\n"),
            Some((false, "HTTP/1.0 404 Not Found"))
        );
        assert_eq!(read("HTTP/1"), None);
    }
}
