//! HTTP/2 by hand: frames, right or wrong.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest window that there is.
pub(crate) const HUGE: u32 = 0x7fff_ffff;

/// Settings by number.
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

const CONNECT: Duration = Duration::from_secs(10);

/// Returns a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len())
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    let mut frame = Vec::with_capacity(9 + payload.len());
    frame.extend_from_slice(&length[1..]);
    frame.extend([kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Returns the preface and the settings of a client.
pub(crate) fn beginning(settings: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (name, value) in settings {
        payload.extend_from_slice(&name.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    [PREFACE, &frame(SETTINGS, 0, 0, &payload)].concat()
}

/// Returns the headers of a gRPC call, without compression.
pub(crate) fn headers(path: &str, further: &[(&str, &str)]) -> Vec<u8> {
    // POST and http, of the static table.
    let mut block = vec![0x83, 0x86];
    block.push(0x04);
    text(&mut block, path);
    block.push(0x01);
    text(&mut block, "coordinator");
    let usual = [("content-type", "application/grpc"), ("te", "trailers")];
    for (name, value) in usual.iter().chain(further) {
        block.push(0);
        text(&mut block, name);
        text(&mut block, value);
    }
    block
}

fn text(block: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    if length < 127 {
        block.push(length as u8);
    } else {
        block.push(127);
        length -= 127;
        while length >= 128 {
            block.push((length % 128) as u8 | 128);
            length /= 128;
        }
        block.push(length as u8);
    }
    block.extend_from_slice(text.as_bytes());
}

/// Returns a gRPC message: flag, stated length, and bytes.
pub(crate) fn message(flag: u8, length: u32, bytes: &[u8]) -> Vec<u8> {
    [&[flag][..], &length.to_be_bytes(), bytes].concat()
}

/// Returns a gRPC message with its true length.
pub(crate) fn honest(message_bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message_bytes.len()).unwrap_or(u32::MAX);
    message(0, length, message_bytes)
}

/// Returns a connection from one of the abuser's own addresses, none of which a client of the measuring process has.
pub(crate) async fn connect(
    server: SocketAddr,
    receive_buffer: Option<u32>,
) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(bytes) = receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(SocketAddr::new(own_address(), 0))?;
    let stream = tokio::time::timeout(CONNECT, socket.connect(server)).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Returns 127.0.1.1 to 127.0.1.8, one after the other.
pub(crate) fn own_address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % 8;
    IpAddr::V4(Ipv4Addr::new(127, 0, 1, number + 1))
}

/// Writes; false if the other side has closed.
pub(crate) async fn write(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).await.is_ok()
}

/// Reads and throws away until the other side closes, for a while at most; true if it has closed.
pub(crate) async fn closed_within(stream: &mut TcpStream, patience: Duration) -> bool {
    let mut sink = [0; 4096];
    let reading = async {
        loop {
            match stream.read(&mut sink).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    };
    tokio::time::timeout(patience, reading).await.is_ok()
}
