//! A port that takes connections and has no coordinator behind it, as a balancer has, or a coordinator that is about to
//! crash.

use std::{error::Error, io};

use leasehold_client::{Admin, Client, ConnectError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::LIMIT;

/// Way in which such a port ends a connection.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    AtOnce,
    /// After the client's first words.
    Heard,
    /// After the request, which the transport has accepted.
    Asked,
    /// The same, but only the stream ends, by a reset.
    StreamReset,
    /// The same, but after the head of an answer, and as if all had been said.
    StreamCutShort,
}

const ENDS: [End; 5] = [
    End::AtOnce,
    End::Heard,
    End::Asked,
    End::StreamReset,
    End::StreamCutShort,
];

// HTTP/2: what a client begins with, and frames. Those about a stream are about the first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// `:status: 200`, `content-type: application/grpc`.
const HEAD: &[u8] = b"\0\0\x14\x01\x04\0\0\0\x01\x88\x0f\x10\x10application/grpc";
const RESET_CANCEL: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8];
const RESET_NO_ERROR: &[u8] = &[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 0];

async fn end(mut connection: TcpStream, how: End) -> io::Result<()> {
    if how == End::AtOnce {
        return Ok(());
    }
    connection.read_exact(&mut [0; PREFACE.len()]).await?;
    if how == End::Heard {
        return Ok(());
    }
    connection.write_all(EMPTY_SETTINGS).await?;
    loop {
        let mut frame = [0; 9];
        connection.read_exact(&mut frame).await?;
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]);
        let mut content = vec![0; length as usize];
        connection.read_exact(&mut content).await?;
        if frame[3] == HEADERS {
            break;
        }
    }
    match how {
        End::AtOnce | End::Heard | End::Asked => return Ok(()),
        End::StreamReset => connection.write_all(RESET_CANCEL).await?,
        End::StreamCutShort => {
            connection.write_all(HEAD).await?;
            connection.write_all(RESET_NO_ERROR).await?;
        }
    }
    // Until the client is gone.
    connection.read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// Takes connections and ends them in this way, until the test ends. Returns the endpoint.
async fn unanswering(how: End) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (connection, _) = listener.accept().await.unwrap();
            // The client may be the first to go.
            end(connection, how).await.ok();
        }
    });
    endpoint
}

#[tokio::test]
async fn a_first_connection_that_nobody_answers_has_reached_no_coordinator() {
    for how in ENDS {
        let endpoint = unanswering(how).await;
        let connecting = timeout(LIMIT, Client::connect(&endpoint));
        let error = connecting.await.unwrap().unwrap_err();
        assert!(
            matches!(error, ConnectError::Unreachable { .. }),
            "{how:?}: {error:?}"
        );
        assert!(error.is_retryable());
        // Why is still told.
        let why = error.source().unwrap().to_string();
        assert!(!why.is_empty(), "{how:?}");

        let admin = Admin::connect(&endpoint).unwrap();
        let asking = timeout(LIMIT, admin.get_lock("a"));
        let failure = asking.await.unwrap().unwrap_err();
        assert!(failure.is_retryable(), "{how:?}: {failure:?}");
    }
}
