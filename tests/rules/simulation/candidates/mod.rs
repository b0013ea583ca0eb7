//! Candidates of the simulated world: each campaigns on a stream of its own, by the protocol alone, and its coordinator translates
//! that with its real adapter.
//!
//! A leader believes in its term until its own deadline, or until it hears that the term or the stream is over.

mod adapter;
mod candidacy;
mod leaders;

use std::{collections::BTreeMap, time::Duration};

use leasehold_client::simulation::StreamEnd as ClientEnd;
use leasehold_core::session::StreamEnd;
use leasehold_proto::v1::{
    CampaignOpen, CampaignProclaim, CampaignRequest, CampaignResign, CampaignResponse, Elected,
    SessionHeartbeat, campaign_request::Request as Ask, campaign_response::Response as Say,
};
use prost::Message;

use self::{
    adapter::Adapter,
    candidacy::{Line, Term, until},
};
use crate::{
    client::Stream,
    coordinator::{State, Up},
    dice::{Dice, MS},
    weather::Weather,
    world::{CLIENTS, NAMES, World, micros},
};

const CANDIDATES: usize = 3;
/// Elections, by the numbers of their names. Rights to the second one are taken away at times.
const ELECTIONS: [usize; 3] = [1, 1, 2];
/// Most proclaims of a term without an answer.
const MOST_PROCLAIMS: u64 = 4;

/// Candidates, and the adapters of their streams.
#[derive(Default)]
pub(crate) struct Candidates {
    dice: Dice,
    all: Vec<Candidate>,
    /// The coordinators' side of each stream, until that is forgotten.
    adapters: BTreeMap<usize, Adapter>,
}

struct Candidate {
    /// Candidacies so far.
    candidacies: u64,
    line: Option<Line>,
    act_at: u64,
    asleep_until: u64,
}

impl Candidates {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x2f0b_4c8e_71d9_a653);
        let all = (0..CANDIDATES).map(|_| Candidate {
            candidacies: 0,
            line: None,
            act_at: dice.below(300 * MS),
            asleep_until: 0,
        });
        let all = all.collect();
        Self {
            dice,
            all,
            adapters: BTreeMap::new(),
        }
    }

    /// Returns whether a stream is a candidacy.
    pub(crate) fn has(&self, stream: usize) -> bool {
        self.adapters.contains_key(&stream)
    }

    /// Returns the election for which a client campaigns on its session, or mostly none.
    pub(crate) fn draw_campaign(&mut self) -> Option<usize> {
        self.dice.once_in(10).then(|| self.dice.pick(&ELECTIONS))
    }

    pub(crate) fn forget_streams(&mut self, streams: &BTreeMap<usize, Stream>) {
        self.adapters
            .retain(|stream, _| streams.contains_key(stream));
    }

    pub(crate) fn leftovers(&self) -> impl Iterator<Item = String> {
        let lines = self.all.iter().filter_map(|it| it.line.as_ref());
        lines.map(|line| format!("{} campaigns", line.name))
    }
}

impl World {
    /// Returns when a candidate has something to do.
    pub(crate) fn candidates_due(&self) -> u64 {
        if self.is_hostile {
            return u64::MAX;
        }
        let all = self.candidates.all.iter();
        let due = all.map(|it| {
            let mut due = it.act_at;
            if let Some(line) = &it.line {
                due = due.min(line.beat_at()).min(line.patience());
                let down = self.streams[&line.stream].down.due();
                due = due.min(down.unwrap_or(u64::MAX));
            }
            due.max(it.asleep_until)
        });
        due.min().unwrap_or(u64::MAX)
    }

    /// Has every candidate do what is due.
    pub(crate) fn run_candidates(&mut self) {
        for number in 0..CANDIDATES {
            if self.candidates.all[number].asleep_until <= self.now {
                self.run_candidate(number);
            }
        }
    }

    fn run_candidate(&mut self, number: usize) {
        let now = self.now;
        let line = &self.candidates.all[number].line;
        let term = line.as_ref().and_then(|line| line.term);
        if term.is_some_and(|term| term.until <= now) {
            // Whatever it is told now comes too late.
            self.seen.terms_outlived += 1;
            self.leave(number);
        }
        while let Some(line) = &self.candidates.all[number].line
            && let Some(stream) = self.streams.get_mut(&line.stream)
            && let Some(said) = stream.down.pop(now)
        {
            self.tell_candidate(number, said);
        }
        if let Some(line) = &mut self.candidates.all[number].line {
            if line.patience() <= now {
                self.leave(number);
            } else if line.beat_at() <= now {
                let sequence = line.beats.len() as u64;
                line.beats.push(now);
                self.ask(number, Ask::Heartbeat(SessionHeartbeat { sequence }));
            }
        }
        if self.candidates.all[number].act_at <= now {
            self.act_as_candidate(number);
        }
    }

    fn act_as_candidate(&mut self, number: usize) {
        let asks = !self.is_calm || self.is_prompt && !self.is_closing;
        let dice = &mut self.candidates.dice;
        let pause = match (asks, self.is_patient) {
            (true, true) => dice.between(50 * MS, 800 * MS),
            (true, false) => dice.between(20 * MS, 300 * MS),
            (false, _) => dice.between(50 * MS, 150 * MS),
        };
        let what = dice.below(6);
        let it = &mut self.candidates.all[number];
        it.act_at = self.now + pause;
        match &mut it.line {
            None if asks && what < 4 => self.campaign(number),
            None => {}
            Some(line) if line.resigned_at.is_some() => {}
            Some(line) if line.term.is_some() => match what {
                0..3 => self.resign(number),
                3 if line.proclaims < MOST_PROCLAIMS => {
                    line.proclaims += 1;
                    let value = vec![b'p'];
                    self.ask(number, Ask::Proclaim(CampaignProclaim { value }));
                }
                _ => {}
            },
            // In calm weather, who waits is elected.
            Some(_) if asks && what == 5 && self.candidates.dice.once_in(3) => self.resign(number),
            Some(_) => {}
        }
    }

    fn campaign(&mut self, number: usize) {
        let dice = &mut self.candidates.dice;
        let coordinator = dice.index(self.coordinators.len());
        let there = &self.coordinators[coordinator];
        if there.state != State::Up || there.hung_until > self.now {
            return;
        }
        let ttl = dice.pick(&[1_000 * MS, 1_500 * MS, 2_500 * MS]);
        let election = dice.pick(&ELECTIONS);
        let it = &mut self.candidates.all[number];
        it.candidacies += 1;
        let client_name = format!("candidate{number}.{}", it.candidacies);
        // Its client is none of the clients.
        let stream = self.open_stream(CLIENTS + number, coordinator, 0);
        self.candidates.all[number].line = Some(Line {
            stream,
            name: client_name.clone(),
            election,
            ttl,
            beats: vec![self.now],
            interval: None,
            heard_at: self.now,
            term: None,
            token: None,
            resigned_at: None,
            proclaims: 0,
        });
        self.candidates.adapters.insert(stream, Adapter::default());
        self.seen.candidacies += 1;
        let campaign = CampaignOpen {
            election: NAMES[election].to_owned(),
            value: vec![b'v'],
            ttl: Some(Duration::from_micros(ttl).try_into().unwrap()),
            client_name,
        };
        self.ask(number, Ask::Campaign(campaign));
    }

    /// Resigns: from now on the candidate does not lead.
    fn resign(&mut self, number: usize) {
        let now = self.now;
        let line = self.candidates.all[number].line.as_mut();
        let line = line.expect("it campaigns");
        line.resigned_at = Some(now);
        self.seen.resigned += u64::from(line.term.take().is_some());
        line.heard_at = now;
        self.ask(number, Ask::Resign(CampaignResign {}));
    }

    /// Has all candidates resign, whether they lead or not.
    pub(crate) fn withdraw_all(&mut self) {
        for number in 0..CANDIDATES {
            let line = &self.candidates.all[number].line;
            if line.as_ref().is_some_and(|it| it.resigned_at.is_none()) {
                self.resign(number);
            }
        }
    }

    fn ask(&mut self, number: usize, ask: Ask) {
        self.tell(|| format!("candidate {number} says {ask:?}"));
        let at = self.now + self.candidates.dice.delay();
        let line = self.candidates.all[number].line.as_ref();
        let stream = line.expect("it campaigns").stream;
        let message = CampaignRequest { request: Some(ask) };
        self.send_up(stream, at, Up::Message(message.encode_to_vec()));
    }

    /// A candidate leaves its stream, or its process dies.
    fn leave(&mut self, number: usize) {
        let at = self.now + self.candidates.dice.delay();
        if let Some(line) = self.candidates.all[number].line.take() {
            self.send_up(line.stream, at, Up::End(StreamEnd::ByPeer));
        }
    }

    /// A candidate hears something of its coordinator.
    fn tell_candidate(&mut self, number: usize, said: Result<Vec<u8>, ClientEnd>) {
        let now = self.now;
        let said = said.map(|bytes| CampaignResponse::decode(&bytes[..]).unwrap());
        self.tell(|| format!("candidate {number} hears {said:?}"));
        let line = self.candidates.all[number].line.as_mut();
        let line = line.expect("it campaigns");
        line.heard_at = now;
        let Ok(CampaignResponse {
            response: Some(say),
        }) = said
        else {
            return self.leave(number);
        };
        assert!(
            matches!(say, Say::Campaigning(_)) == line.interval.is_none(),
            "a candidacy begins with another message, or begins twice: {say:?}"
        );
        match say {
            Say::Campaigning(campaigning) => {
                let interval = campaigning.heartbeat_interval.expect("it has one");
                let interval = Duration::try_from(interval).unwrap();
                line.interval = Some(micros(interval));
            }
            Say::Elected(elected) => self.on_elected(number, &elected),
            Say::Heartbeat(ack) => {
                let acked = ack.acked_heartbeat;
                if let Some(until) = until(line, acked, ack.valid_for)
                    && let Some(term) = &mut line.term
                    && acked >= term.acked
                {
                    (term.acked, term.until) = (acked, term.until.max(until));
                }
            }
            Say::Proclaimed(_) | Say::Error(_) => {
                assert!(line.proclaims > 0, "nothing was asked for: {say:?}");
                line.proclaims -= 1;
                self.seen.proclaimed += u64::from(matches!(say, Say::Proclaimed(_)));
            }
            Say::Lost(lost) => {
                assert!(
                    self.weather == Weather::Stormy,
                    "{} lost its term: {lost:?}",
                    line.name
                );
                line.term = None;
                self.seen.deposed += 1;
            }
            Say::Resigned(resigned) => {
                assert!(line.resigned_at.is_some(), "it has not resigned");
                if resigned.led {
                    self.check_over(number);
                }
            }
            Say::Draining(_) if line.resigned_at.is_none() => self.resign(number),
            Say::ReleaseRequested(requested) => {
                if let Some(term) = line.term {
                    let hold = (line.name.clone(), term.token);
                    assert!(
                        self.was_asked(&requested.reason, &hold),
                        "{hold:?} was asked by {}",
                        requested.reason
                    );
                }
            }
            Say::Draining(_) => {}
        }
    }

    fn on_elected(&mut self, number: usize, elected: &Elected) {
        let line = self.candidates.all[number].line.as_mut();
        let line = line.expect("it campaigns");
        assert!(line.token.is_none(), "{} is elected twice", line.name);
        let token = elected.fencing_token;
        line.token = Some(token);
        // It resigns already.
        if line.resigned_at.is_some() {
            return;
        }
        let acked = elected.acked_heartbeat;
        let until = until(line, acked, elected.valid_for).expect("it has sent that heartbeat");
        line.term = Some(Term {
            token,
            acked,
            until,
        });
        self.seen.elected += 1;
    }

    /// Does one thing to a candidate, its stream or its election.
    pub(crate) fn disturb_candidate(&mut self, until: u64) {
        let number = self.dice.index(CANDIDATES);
        let what = self.dice.below(11);
        let is_lost = self.dice.once_in(2);
        let at = self.now + self.dice.below(100 * MS);
        let Some(line) = &self.candidates.all[number].line else {
            return;
        };
        let (stream, election, leads) = (line.stream, line.election, line.term.is_some());
        match what {
            // The candidate hears first that the connection broke.
            0 => {
                self.seen.campaigns_cut += 1;
                if let Some(stream) = self.streams.get_mut(&stream) {
                    if is_lost {
                        stream.up.clear();
                    }
                    stream.up.push(at, Up::End(StreamEnd::Cut));
                }
                self.leave(number);
            }
            1 => {
                self.seen.campaigns_cut += 1;
                self.cut_from_coordinator(stream);
            }
            2 => self.hole(stream, until, true, true),
            3 => self.hole(stream, until, true, false),
            4 => self.hole(stream, until, false, true),
            5 => self.candidates.all[number].asleep_until = until,
            6 => {
                self.seen.campaigns_cut += 1;
                self.leave(number);
            }
            7 => {
                let sessions = self.coordinators.iter().map(|it| &it.sessions);
                let served = sessions.filter_map(|sessions| sessions.get(&stream)).next();
                if let Some(surroundings) = served.and_then(|it| it.surroundings.as_ref()) {
                    self.mark_session(surroundings.session);
                }
            }
            _ if leads => self.force_release(election),
            _ => {}
        }
    }

    /// Wakes all candidates up: no fault goes on.
    pub(crate) fn calm_candidates(&mut self) {
        for candidate in &mut self.candidates.all {
            candidate.asleep_until = candidate.asleep_until.min(self.now);
        }
    }
}
