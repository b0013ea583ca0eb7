//! Coordinators' side of the candidacies: the real adapter of each stream, between its messages and its session.

use leasehold_client::simulation::StreamEnd as ClientEnd;
use leasehold_core::session::{Phase, Session};
use leasehold_proto::v1::{CampaignRequest, SessionResponse};
use leasehold_server::{convert::stream::Kind, services::election::campaign::Campaign};
use prost::Message;

use crate::world::World;

#[derive(Default)]
pub(super) struct Adapter {
    campaign: Campaign,
    is_open: bool,
}

impl World {
    /// A coordinator takes in a message of a candidate.
    pub(crate) fn hear_candidate(&mut self, number: usize, stream: usize, bytes: &[u8]) {
        let message = CampaignRequest::decode(bytes).unwrap();
        let is_there = self.has_open_session(number, stream);
        let adapter = self.candidates.adapters.get_mut(&stream);
        let adapter = adapter.expect("it is a candidacy");
        if !std::mem::replace(&mut adapter.is_open, true) {
            let granted = self.rights.granted();
            let opened = adapter
                .campaign
                .open(message, self.checks.bounds(), &granted);
            return match opened {
                Ok(request) => self.open_or_refuse(number, stream, request, Kind::Candidacy),
                Err(refusal) => {
                    self.seen.refused_by_rights += 1;
                    let end = ClientEnd::Status(Box::new(refusal.into()));
                    self.end_candidacy(stream, end);
                }
            };
        }
        if !is_there {
            return;
        }
        let request = adapter.campaign.hear(message);
        self.send_responses(stream);
        if let Some(request) = request {
            self.on_request(number, stream, request);
        }
        self.pass_on_candidate(number, stream);
    }

    fn has_open_session(&self, number: usize, stream: usize) -> bool {
        let served = self.coordinators[number].sessions.get(&stream);
        let phase = served.and_then(|served| served.session.as_ref().map(Session::phase));
        phase == Some(Phase::Open)
    }

    /// Gives a candidacy's session the requests that its adapter has of itself.
    pub(crate) fn pass_on_candidate(&mut self, number: usize, stream: usize) {
        while self.has_open_session(number, stream)
            && let Some(adapter) = self.candidates.adapters.get_mut(&stream)
            && let Some(request) = adapter.campaign.take_request()
        {
            self.on_request(number, stream, request);
        }
    }

    /// A candidacy's session answers, or its stream ends.
    pub(crate) fn answer_candidate(
        &mut self,
        stream: usize,
        said: Result<SessionResponse, ClientEnd>,
    ) {
        match said {
            Ok(answer) => {
                if let Some(adapter) = self.candidates.adapters.get_mut(&stream) {
                    adapter.campaign.on_answer(answer);
                }
                self.send_responses(stream);
            }
            Err(end) => self.end_candidacy(stream, end),
        }
    }

    fn send_responses(&mut self, stream: usize) {
        let at = self.now + self.candidates.dice.delay();
        let Some(adapter) = self.candidates.adapters.get_mut(&stream) else {
            return;
        };
        while let Some(response) = adapter.campaign.next_response() {
            let line = self.streams.get_mut(&stream);
            match (response, line) {
                (Ok(response), Some(line)) if !line.is_coordinator_gone => {
                    line.down.push(at, Ok(response.encode_to_vec()));
                }
                (Ok(_), _) => {}
                (Err(status), _) => {
                    return self.end_candidacy(stream, ClientEnd::Status(Box::new(status)));
                }
            }
        }
    }

    fn end_candidacy(&mut self, stream: usize, end: ClientEnd) {
        let at = self.now + self.candidates.dice.delay();
        if let Some(stream) = self.streams.get_mut(&stream)
            && !stream.is_coordinator_gone
        {
            stream.is_coordinator_gone = true;
            stream.down.push(at, Err(end));
        }
    }
}
