//! Second look at a peer that closed a connection without an answer, as servers of HTTP/1 do with HTTP/2.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Time limit of a look.
const LIMIT: Duration = Duration::from_secs(2);
/// What a client of HTTP/2 begins with: the preface, and empty settings.
const HTTP_2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const HTTP_1: &[u8] = b"GET / HTTP/1.1\r\nHost: leasehold\r\nConnection: close\r\n\r\n";

/// Returns whether the peer serves HTTP/1 and no HTTP/2: the admin port of a coordinator, for example. A coordinator that stops closes
/// connections too, but does not go on to serve one of both.
pub(super) async fn serves_http_1_only(peer: SocketAddr) -> bool {
    let look = async {
        let is_http_1 = answer(peer, HTTP_1).await?.starts_with(b"HTTP/1");
        Ok::<_, io::Error>(
            is_http_1 && !matches!(answer(peer, HTTP_2).await, Ok(said) if !said.is_empty()),
        )
    };
    matches!(timeout(LIMIT, look).await, Ok(Ok(true)))
}

/// Returns the first bytes of an answer; none if the peer closes the connection.
async fn answer(peer: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(peer).await?;
    stream.write_all(request).await?;
    let mut said = vec![0; 16];
    let length = stream.read(&mut said).await?;
    said.truncate(length);
    Ok(said)
}
