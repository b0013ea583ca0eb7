//! `examples/php`: pages of PHP that sell a stock under a lock.

use std::{
    fs,
    net::TcpStream,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use leasehold_tests::{
    ChildProcess, Coordinator,
    http::{FORCE_RELEASE, GET_LOCK},
    ports::free_port,
    wait,
};
use serde_json::{Value, json};

use crate::curl::call;

const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/php");

/// A web server with PHP, which serves one request at a time.
struct WebServer {
    process: ChildProcess,
    port: u16,
}

impl WebServer {
    fn start(coordinator: &str, stock: &Stock, payment: &str) -> Self {
        let port = free_port();
        let mut command = Command::new("php");
        command
            .args(["-S", &format!("127.0.0.1:{port}"), "-t", PAGES])
            .env("LEASEHOLD_ENDPOINT", coordinator)
            .env("STOCK_DIR", stock.folder.path())
            .env("PAYMENT_SECONDS", payment)
            .stderr(Stdio::null());
        let process = ChildProcess::spawn("php", command);
        wait::until_blocking("php to listen", Duration::from_secs(10), || {
            TcpStream::connect(("127.0.0.1", port)).map(drop)
        });
        Self { process, port }
    }

    /// Asks for one piece; returns the status and the text.
    fn buy(&self) -> (u16, String) {
        let url = format!("http://127.0.0.1:{}/sell.php?sku=lamp", self.port);
        let output = Command::new("curl")
            .args(["--silent", "--write-out", "%{http_code}", &url])
            .output()
            .unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let (text, status) = output.rsplit_once('\n').expect("a status after the text");
        (status.parse().unwrap(), text.to_owned())
    }
}

/// File with the stock.
struct Stock {
    folder: tempfile::TempDir,
}

impl Stock {
    fn new(left: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stock = json!({"left": left, "token": 0}).to_string();
        fs::write(folder.path().join("lamp.json"), stock).unwrap();
        Self { folder }
    }

    fn left(&self) -> u64 {
        let text = fs::read_to_string(self.folder.path().join("lamp.json")).unwrap();
        let stock: Value = serde_json::from_str(&text).unwrap();
        stock["left"].as_u64().unwrap()
    }
}

/// Waits until the lock has a holder.
fn await_holder(coordinator: &str) {
    wait::until_blocking("a holder", Duration::from_secs(10), || {
        let answer = call(coordinator, GET_LOCK, &json!({"name": "stock/lamp"}));
        let held = answer["lock"]["holders"].is_array();
        held.then_some(()).ok_or(answer)
    });
}

#[test]
fn many_requests_sell_each_piece_once() {
    needs!("curl", "php");
    let coordinator = Coordinator::process().start();
    let stock = Stock::new(10);
    let servers: Vec<_> = (0..4)
        .map(|_| WebServer::start(&coordinator.endpoint(), &stock, "0.05"))
        .collect();
    let buyers = |server: &WebServer| (0..4).map(|_| server.buy()).collect::<Vec<_>>();
    let answers: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = servers
            .iter()
            .map(|server| scope.spawn(|| buyers(server)))
            .collect();
        let answers = threads.into_iter().map(|thread| thread.join().unwrap());
        answers.flatten().collect()
    });
    let mut tokens: Vec<_> = answers
        .iter()
        .filter(|(status, _)| *status == 200)
        .map(|(_, text)| text.clone())
        .collect();
    let sold_out = answers.iter().filter(|(status, _)| *status == 410).count();
    assert_eq!((tokens.len(), sold_out), (10, 6), "{answers:?}");
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 10, "each under a token of its own");
    assert_eq!(stock.left(), 0);
}

#[test]
fn a_request_that_lost_its_lock_sells_nothing() {
    needs!("curl", "php");
    let coordinator = Coordinator::process().start();
    let stock = Stock::new(10);
    let server = WebServer::start(&coordinator.endpoint(), &stock, "2");
    let (status, text) = thread::scope(|scope| {
        let buyer = scope.spawn(|| server.buy());
        await_holder(&coordinator.endpoint());
        call(
            &coordinator.endpoint(),
            FORCE_RELEASE,
            &json!({"name": "stock/lamp"}),
        );
        buyer.join().unwrap()
    });
    assert_eq!((status, stock.left()), (503, 10), "{text}");
    assert!(text.contains("was lost"), "{text}");
}

#[test]
fn a_request_that_was_stopped_for_longer_than_its_lock_lasts_sells_nothing() {
    needs!("curl", "php");
    let coordinator = Coordinator::process().start();
    let stock = Stock::new(10);
    let first = WebServer::start(&coordinator.endpoint(), &stock, "2");
    let second = WebServer::start(&coordinator.endpoint(), &stock, "0.01");
    thread::scope(|scope| {
        let stopped = scope.spawn(|| first.buy());
        await_holder(&coordinator.endpoint());
        first.process.stop();
        let (status, text) = second.buy();
        assert_eq!((status, stock.left()), (200, 9), "{text}");
        first.process.cont();
        let (status, text) = stopped.join().unwrap();
        assert_eq!((status, stock.left()), (503, 9), "{text}");
        assert!(text.contains("is over"), "{text}");
    });
}

#[test]
fn a_page_without_a_coordinator_says_that_it_is_busy() {
    needs!("curl", "php");
    let stock = Stock::new(10);
    let endpoint = format!("http://127.0.0.1:{}", free_port());
    let server = WebServer::start(&endpoint, &stock, "0");
    assert_eq!(server.buy().0, 503);
    assert_eq!(stock.left(), 10);
}
