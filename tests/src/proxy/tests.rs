use std::{io, net::Ipv4Addr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, timeout},
};

use super::{Cut, Direction, FaultProxy, Flow, SocketAddr};

async fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    address
}

async fn exchange(stream: &mut TcpStream, text: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(text).await?;
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn forwards_delays_and_keeps_what_it_held() {
    let proxy = FaultProxy::start(echo().await).await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    assert_eq!(exchange(&mut stream, b"one").await.unwrap(), b"one");

    proxy.set_delay(Duration::from_millis(20));
    let began = Instant::now();
    exchange(&mut stream, b"two").await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(40));
    proxy.set_delay(Duration::ZERO);

    proxy.black_hole();
    let mut other = TcpStream::connect(proxy.address()).await.unwrap();
    let limit = Duration::from_millis(50);
    assert!(timeout(limit, exchange(&mut other, b"x")).await.is_err());
    assert!(
        timeout(limit, exchange(&mut stream, b"three"))
            .await
            .is_err()
    );
    proxy.forward();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"three");
}

#[tokio::test]
async fn drops_replies_only() {
    let proxy = FaultProxy::start(echo().await).await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    exchange(&mut stream, b"one").await.unwrap();
    proxy.set_flow(Direction::ToClient, Flow::Discard);
    let limit = Duration::from_millis(50);
    assert!(timeout(limit, exchange(&mut stream, b"two")).await.is_err());
    proxy.forward();
    assert_eq!(exchange(&mut stream, b"six").await.unwrap(), b"six");
}

#[tokio::test]
async fn cuts_and_refuses() {
    let proxy = FaultProxy::start(echo().await).await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    exchange(&mut stream, b"one").await.unwrap();
    proxy.cut(Cut::Fin).await;
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);

    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    exchange(&mut stream, b"one").await.unwrap();
    proxy.cut(Cut::Rst).await;
    let error = stream.read(&mut [0; 1]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

    proxy.set_refuse(true).await;
    let error = TcpStream::connect(proxy.address()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    proxy.set_refuse(false).await;
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    exchange(&mut stream, b"one").await.unwrap();
}
