//! A coordinator's metrics.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

const LIMIT: Duration = Duration::from_secs(5);

/// Contents of `/metrics`.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// By name with labels, as in the text format.
    series: BTreeMap<String, f64>,
}

impl Metrics {
    /// The gauges that are zero when every session is gone and has been cleaned up after.
    pub const GAUGES: [&str; 5] = [
        "leasehold_sessions",
        "leasehold_holds",
        "leasehold_waiters",
        "leasehold_contended_names",
        "leasehold_inflight_cleanups",
    ];

    /// Asks the admin listener at `address`.
    pub(super) async fn fetch(address: &str) -> Self {
        let body = timeout(LIMIT, get(address, "/metrics"))
            .await
            .expect("/metrics answers in time")
            .expect("/metrics answers");
        let series = body
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| {
                let (name, value) = line.rsplit_once(' ')?;
                Some((name.to_owned(), value.parse().ok()?))
            })
            .collect();
        Self { series }
    }

    /// Returns the sum over all label values of a metric.
    ///
    /// # Panics
    ///
    /// If there is no such metric.
    pub fn sum(&self, name: &str) -> f64 {
        self.find(name).unwrap_or_else(|| {
            panic!(
                "/metrics has no `{name}`; it has {:?}",
                self.series.keys().collect::<Vec<_>>()
            )
        })
    }

    /// Returns the sum over the series of a metric that have these labels, `name="value"`; 0 if there is none.
    pub fn of(&self, name: &str, labels: &[&str]) -> f64 {
        let with_labels = |series: &str| {
            let (of, rest) = series.split_once('{').unwrap_or((series, ""));
            let rest = rest.trim_end_matches('}');
            of == name
                && labels
                    .iter()
                    .all(|label| rest.split(',').any(|one| one == *label))
        };
        let series = self.series.iter().filter(|(series, _)| with_labels(series));
        series.map(|(_, value)| value).sum()
    }

    /// Returns each series: its name with its labels.
    pub fn series(&self) -> impl Iterator<Item = &str> {
        self.series.keys().map(String::as_str)
    }

    /// Does the same, or nothing if there is no such metric.
    pub fn find(&self, name: &str) -> Option<f64> {
        self.series
            .iter()
            .filter(|(series, _)| series.split('{').next() == Some(name))
            .map(|(_, value)| *value)
            .reduce(|sum, value| sum + value)
    }
}

/// Returns a plain GET: the body of a 200.
pub(super) async fn get(address: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request(address, path).as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    body(path, &response)
}

/// Does the same for a caller without a runtime.
pub(super) fn get_blocking(address: &str, path: &str) -> io::Result<String> {
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(request(address, path).as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    body(path, &response)
}

fn request(address: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
}

fn body(path: &str, response: &str) -> io::Result<String> {
    match response.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
        _ => Err(io::Error::other(format!(
            "GET {path} was answered: {response}"
        ))),
    }
}
