//! Status of every coordinator that a client's endpoints stand for; each coordinator answers for itself.

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};

use crate::{
    Admin,
    calls::limited,
    error::Failure,
    proto::{
        FromWire,
        v1::{self, admin_service_client::AdminServiceClient},
    },
    session::{Candidate, addresses},
    settings::Settings,
    view::CoordinatorView,
};

/// The state of one coordinator, or the reason why it could not be asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CoordinatorStatus {
    /// The endpoint that leads to it.
    pub endpoint: String,
    /// Its address; none if the endpoint's host name has none.
    pub address: Option<SocketAddr>,
    /// The coordinator's answer, or why there is none.
    pub status: Result<CoordinatorView, Failure>,
    /// Times of this machine's wall clock at which the call began and ended. They bound the moment of `time` in the answer.
    pub asked: (SystemTime, SystemTime),
}

impl CoordinatorStatus {
    /// Returns whether it answered that it serves.
    pub fn is_serving(&self) -> bool {
        self.status.as_ref().is_ok_and(|status| status.serving)
    }
}

impl Admin {
    /// Asks every coordinator how it is doing, all at once: each address that an endpoint's host name resolves to is one,
    /// except that a name for this machine, such as `localhost`, is one coordinator at whichever address answers. A
    /// coordinator that answers at several addresses is shown once. Returns within the limit, in the order of the endpoints.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    ///
    /// let coordinators = client.admin().status(Duration::from_secs(5)).await;
    /// assert!(coordinators[0].is_serving());
    /// # Ok(()) });
    /// ```
    pub async fn status(&self, limit: Duration) -> Vec<CoordinatorStatus> {
        let settings = self.settings();
        let within = Within {
            limit,
            deadline: Instant::now() + limit,
        };
        let urls = settings.endpoints.urls().iter();
        let asked = join_all(urls.map(|url| within.at_endpoint(settings, url))).await;
        let mut rows: Vec<CoordinatorStatus> = Vec::new();
        for row in asked.into_iter().flatten() {
            let is_same = |other: &CoordinatorStatus| match (&row.status, &other.status) {
                (Ok(row), Ok(other)) => row.coordinator == other.coordinator,
                _ => row.address.is_some() && row.address == other.address,
            };
            if !rows.iter().any(is_same) {
                rows.push(row);
            }
        }
        rows
    }
}

/// The time that all of it has.
struct Within {
    limit: Duration,
    deadline: Instant,
}

impl Within {
    async fn at_endpoint(&self, settings: &Settings, url: &str) -> Vec<CoordinatorStatus> {
        let mut candidates = Vec::new();
        let mut rows = Vec::new();
        for found in addresses(url, self.limit).await {
            match found {
                Ok(candidate) => candidates.push(candidate),
                Err(error) => rows.push(CoordinatorStatus {
                    endpoint: url.to_owned(),
                    address: None,
                    status: Err(Failure::unconnected(url, error)),
                    asked: (SystemTime::now(), SystemTime::now()),
                }),
            }
        }
        let is_here = candidates.iter().all(|one| one.address.ip().is_loopback());
        let asked = candidates.into_iter().map(|one| self.ask(settings, one));
        let asked = join_all(asked).await;
        if is_here {
            let answer = asked.iter().position(|row| row.status.is_ok()).unwrap_or(0);
            rows.extend(asked.into_iter().nth(answer));
        } else {
            rows.extend(asked);
        }
        rows
    }

    async fn ask(&self, settings: &Settings, candidate: Candidate) -> CoordinatorStatus {
        let Candidate { endpoint, address } = candidate;
        let began = SystemTime::now();
        let status = match settings.call_target(&endpoint, Some(address)) {
            Err(error) => Err(Failure::unconnected(&endpoint, error)),
            Ok(target) => {
                let mut stub = AdminServiceClient::new(target.connect_lazy());
                let asked = timeout_at(
                    self.deadline,
                    stub.get_status(limited(v1::GetStatusRequest {})),
                );
                match asked.await {
                    Ok(Ok(answer)) => Ok(CoordinatorView::from_wire(answer.into_inner())),
                    Ok(Err(status)) => Err(Failure::at(&endpoint, status)),
                    Err(_) => Err(Failure::unanswered(&endpoint, self.limit)),
                }
            }
        };
        CoordinatorStatus {
            endpoint: endpoint.to_string(),
            address: Some(address),
            status,
            asked: (began, SystemTime::now()),
        }
    }
}
