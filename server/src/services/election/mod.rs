//! `ElectionService`: candidacies, leaders and their observers.

mod answers;
pub mod campaign;
mod candidacy;

use std::sync::Arc;

use futures_util::stream;
use leasehold_core::{name::LockName, watch::Leader};
use leasehold_proto::v1::{
    CampaignRequest, CampaignResponse, LeaderRequest, LeaderResponse, ObserveRequest,
    ObserveResponse, election_service_server::ElectionService,
};
use tonic::{Request, Response, Status, Streaming};

use self::candidacy::{Candidacy, FirstMessage};
use super::{
    names,
    server_stream::{self, ServerStream},
    streams::{Streams, draining},
};
use crate::{
    access::rules::{Permission, Place},
    convert::{self, stream::Kind},
    coordinator::Coordinator,
    status::Refusal,
    watch::Watching,
};

/// The service.
#[derive(Clone, Debug)]
pub struct Elections {
    /// The parts that the services share.
    pub streams: Streams,
    /// The source of news of leaders.
    pub watching: Watching,
}

#[tonic::async_trait]
impl ElectionService for Elections {
    type CampaignStream = ServerStream<CampaignResponse>;
    type ObserveStream = ServerStream<ObserveResponse>;

    async fn campaign(
        &self,
        request: Request<Streaming<CampaignRequest>>,
    ) -> Result<Response<Self::CampaignStream>, Status> {
        let (_, extensions, messages) = request.into_parts();
        let first = FirstMessage {
            coordinator: self.streams.coordinator.clone(),
            rights: self.streams.access.rights(&extensions)?,
        };
        let candidacy = Arc::<Candidacy>::default();
        let requests = candidacy.requests(messages, Some(first));
        let answers = self.streams.begin(&extensions, requests, Kind::Candidacy)?;
        Ok(Response::new(candidacy.responses(answers)))
    }

    async fn leader(
        &self,
        request: Request<LeaderRequest>,
    ) -> Result<Response<LeaderResponse>, Status> {
        let coordinator = &self.streams.coordinator;
        let rights = self.streams.access.rights(request.extensions())?;
        let name = election(&request.into_inner().election, coordinator)?;
        rights.check(Permission::Inspect, Place::Election, name.as_str())?;
        let view = names::view(coordinator, &name, 0).await;
        let view = view.map_err(|refusal| rights.shown(refusal))?;
        let leader = Leader::of(&view).as_ref().map(convert::leader);
        Ok(Response::new(LeaderResponse { leader }))
    }

    async fn observe(
        &self,
        request: Request<ObserveRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        let coordinator = &self.streams.coordinator;
        let rights = self.streams.access.rights(request.extensions())?;
        let account = self.streams.account(request.extensions());
        let name = election(&request.into_inner().election, coordinator)?;
        rights.check(Permission::Inspect, Place::Election, name.as_str())?;
        server_stream::check_feeds(coordinator.store())?;
        let place = coordinator.limits().watcher(account)?;
        let observer = self.watching.observe(name.clone()).await;
        let observer = observer.ok_or_else(draining)?;
        let kept = (coordinator.metrics().observers.track(), place);
        let messages = stream::unfold((observer, kept), |(mut observer, kept)| async {
            let observed = observer.next().await?;
            let response = ObserveResponse {
                leader: observed.leader.as_ref().map(convert::leader),
                skipped: observed.skipped,
            };
            Some((response, (observer, kept)))
        });
        let draining = self.streams.shutdown.draining.clone();
        let lost = rights.lost(Permission::Inspect, Place::Election, name);
        let stream = server_stream::tell(messages, draining, lost);
        Ok(Response::new(stream))
    }
}

fn election(name: &str, coordinator: &Coordinator) -> Result<LockName, Refusal> {
    convert::lock_name("election", name, coordinator.store())
}
