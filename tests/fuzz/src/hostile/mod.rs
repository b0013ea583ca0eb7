//! Hostile clients in a world of the simulation: streams on which anything is sent, beside clients that keep to the protocol.
//!
//! The coordinators' machines, the rules and the conversion of messages are the real ones. The world checks after each step that
//! no honest guard lives without its lock, that tokens rise and that limits hold; at the end, that nothing is left. This module
//! checks that each request is answered at most once, and that no session has more than it may.

mod fields;
mod peer;

use arbitrary::{Arbitrary, Unstructured};
use leasehold_core::session::StreamEnd;
use leasehold_proto::v1::{
    ResumedHold, ResumedWait, SessionCancel, SessionClose, SessionDowngrade, SessionHeartbeat,
    SessionOpen, SessionReduce, SessionRelease, SessionRequest, SessionResponse, SessionResume,
    SessionSetValue, session_request::Request, session_resume,
};
use prost::Message;

use self::{
    fields::{acquire, message, millis, name, text, wait},
    peer::Peer,
};
use crate::{
    coordinator::Up,
    dice::{Dice, MS},
    weather::Weather,
    world::{COORDINATORS, NAMES, World},
};

/// Most steps of one input.
const MOST_STEPS: usize = 160;
/// Most time that passes while an input is played.
const MOST_TIME: u64 = 30_000 * MS;
/// Most streams of one input.
const MOST_STREAMS: usize = 8;
/// Most holds and acquires of a session: see the simulation's coordinators.
const MOST_LOCKS: usize = 100;

/// What most steps are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Play {
    /// Requests.
    Requests,
    /// Streams that resume what others have.
    Resumes,
}

struct Hostile {
    world: World,
    began: u64,
    are_honest_ones_there: bool,
    peers: Vec<Peer>,
    /// Names and owner ids of holds and places that were told on any stream, or made for one.
    known: Vec<(String, Vec<u8>)>,
    made: u64,
}

/// Plays an input.
pub(crate) fn play(data: &[u8], what: Play) {
    let u = &mut Unstructured::new(data);
    let mut hostile = Hostile::new(u8::arbitrary(u).unwrap_or_default());
    // It is out of bytes: that ends it.
    let _ = hostile.steps(u, what);
    hostile.end();
}

impl Hostile {
    fn new(kind: u8) -> Self {
        let mut world = World::new(Weather::Stormy, u64::from(kind));
        world.is_hostile = true;
        world.is_told = std::env::var_os("LEASEHOLD_TOLD").is_some();
        world.disturb_at = u64::MAX;
        let are_honest_ones_there = kind.is_multiple_of(4);
        let mut hostile = Self {
            began: world.now,
            world,
            are_honest_ones_there,
            peers: Vec::new(),
            known: Vec::new(),
            made: 0,
        };
        hostile.still_honest_ones();
        hostile
    }

    /// Most inputs are quicker played without them.
    fn still_honest_ones(&mut self) {
        if !self.are_honest_ones_there {
            self.world.is_closing = true;
            for client in &mut self.world.clients {
                client.is_ended = true;
            }
        }
    }

    fn steps(&mut self, u: &mut Unstructured<'_>, what: Play) -> arbitrary::Result<()> {
        for _ in 0..MOST_STEPS {
            if u.is_empty() || self.world.now - self.began > MOST_TIME {
                break;
            }
            let step = u.int_in_range(0..=31_u8)?;
            match (step, what) {
                (0..=15, Play::Requests) | (0..=7, Play::Resumes) => self.request(u)?,
                (16..=17, Play::Requests) | (8..=17, Play::Resumes) => self.open(u, what)?,
                (18..=23, _) => {
                    let times = [0, 1, 10, 100, 450, 1_000, 2_500, 4_900];
                    self.pass(u.choose(&times)? * MS);
                }
                (24..=25, _) => self.end_stream(u)?,
                (26, _) => self.hold_up(u)?,
                (27, _) => self.world.dice = Dice::new(u.arbitrary::<u8>()?.into()),
                (28..=29, _) => {
                    self.world.dice = Dice::new(u.arbitrary::<u8>()?.into());
                    self.world.disturb();
                    self.world.disturb_at = u64::MAX;
                    self.still_honest_ones();
                    self.world.touch_all();
                }
                (30, _) => self.world.force_release(u.choose_index(NAMES.len())?),
                _ => self.world.request_release(u.choose_index(NAMES.len())?),
            }
            self.pass(0);
        }
        Ok(())
    }

    fn pass(&mut self, time: u64) {
        self.world.pass(time);
        self.hear();
        for coordinator in &self.world.coordinators {
            for session in coordinator.sessions.values() {
                let session = session.session.as_ref();
                let has = session.map_or(0, |it| it.holds() + it.acquires());
                assert!(has <= MOST_LOCKS, "a session has {has} locks and acquires");
            }
        }
    }

    fn send(&mut self, peer: usize, request: SessionRequest) {
        let now = self.world.now;
        let peer = &mut self.peers[peer];
        let stream = self.world.streams.get(&peer.stream);
        // Nothing is read of a stream that has ended.
        if let Some(stream) = stream
            && !peer.is_gone
            && !stream.is_coordinator_gone
        {
            peer.asked.entry(request.request_id).or_default().0 += 1;
            let message = Up::Message(request.encode_to_vec());
            self.world.send_up(peer.stream, now, message);
        }
    }

    fn open(&mut self, u: &mut Unstructured<'_>, what: Play) -> arbitrary::Result<()> {
        let is_continued = u.ratio(1, 6)? && !self.peers.is_empty();
        let peer = if is_continued {
            u.choose_index(self.peers.len())?
        } else {
            let coordinator = u.choose_index(COORDINATORS)?;
            // Nobody is there to connect to while it is down.
            if self.peers.len() == MOST_STREAMS || !self.world.coordinators[coordinator].is_up() {
                return Ok(());
            }
            self.connect(coordinator)
        };
        let most = if what == Play::Resumes { 5 } else { 1 };
        let mut resume = Vec::new();
        for _ in 0..u.int_in_range(0..=most)? {
            resume.push(self.resume(u, peer)?);
        }
        let ttl = *u.choose(&[1_000, 0, 500, 2_000, 5_000, 5_001, -1])?;
        let grace = *u.choose(&[0, 0, 300, 1_000, 500, 5_000, -1])?;
        let open = SessionOpen {
            client_name: text(u, &["x", "y"])?,
            ttl: (ttl != 0).then(|| millis(ttl)),
            disconnect_grace: (grace != 0).then(|| millis(grace)),
            resume,
            more: u.ratio(1, 8)?,
            ..SessionOpen::default()
        };
        let request_id = u.int_in_range(0..=3)?;
        self.send(peer, message(request_id, Request::Open(open)));
        Ok(())
    }

    fn connect(&mut self, coordinator: usize) -> usize {
        let stream = self.world.open_stream(0, coordinator, u64::MAX);
        // The world delivers nothing: its clients know nothing of this stream.
        let streams = &mut self.world.streams;
        streams.get_mut(&stream).unwrap().down.hole_until = u64::MAX;
        self.peers.push(Peer::new(stream));
        self.peers.len() - 1
    }

    fn resume(
        &mut self,
        u: &mut Unstructured<'_>,
        peer: usize,
    ) -> arbitrary::Result<SessionResume> {
        let (name, owner_id) = self.hold(u)?;
        let mut tried_owner_ids = Vec::new();
        for _ in 0..u.int_in_range(0..=2)? {
            tried_owner_ids.push(self.hold(u)?.1);
        }
        let next_owner_id = if u.ratio(1, 8)? {
            self.hold(u)?.1
        } else {
            self.made += 1;
            let next = u128::from(self.made).to_be_bytes().map(|byte| byte ^ 0x80);
            self.known.push((name.clone(), next.to_vec()));
            next.to_vec()
        };
        let what = match u.int_in_range(0..=4)? {
            0 => None,
            1 | 2 => Some(session_resume::What::Hold(ResumedHold {
                fencing_token: *u.choose(&[0, 1, 1_700_000_000_000_000, 1 << 53, i64::MAX, -1])?,
                hold_count: *u.choose(&[1, 1, 2, 0, u32::MAX])?,
            })),
            _ => {
                let acquire_request_id = u.int_in_range(0..=9)?;
                // It is answered here, if it is taken over.
                let asked = &mut self.peers[peer].asked;
                asked.entry(acquire_request_id).or_default().0 += 1;
                Some(session_resume::What::Wait(ResumedWait {
                    acquire_request_id,
                    wait: wait(u)?,
                }))
            }
        };
        Ok(SessionResume {
            name,
            owner_id,
            tried_owner_ids,
            next_owner_id,
            what,
        })
    }

    /// Returns a hold or place that is known, or something else.
    fn hold(&mut self, u: &mut Unstructured<'_>) -> arbitrary::Result<(String, Vec<u8>)> {
        let is_any = self.known.is_empty() || u.ratio(1, 12)?;
        if is_any {
            let length = *u.choose(&[16, 16, 0, 15, 17])?;
            return Ok((name(u)?, vec![u.arbitrary()?; length]));
        }
        // The newest are the likeliest to be held.
        let back = usize::from(u.int_in_range(0..=15_u8)?) % self.known.len();
        let (mut of, owner) = self.known[self.known.len() - 1 - back].clone();
        if u.ratio(1, 12)? {
            of = name(u)?;
        }
        Ok((of, owner))
    }

    fn request(&mut self, u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        if self.peers.is_empty() {
            return self.open(u, Play::Requests);
        }
        let peer = u.choose_index(self.peers.len())?;
        let request_id = u.int_in_range(0..=9)?;
        let request = match u.int_in_range(0..=15)? {
            0..=5 => Request::Acquire(acquire(u)?),
            6 => Request::Cancel(SessionCancel {
                acquire_request_id: u.int_in_range(0..=9)?,
            }),
            7 | 8 => {
                let (name, owner_id) = self.hold(u)?;
                Request::Release(SessionRelease { name, owner_id, expired: false })
            }
            9 => {
                let (name, owner_id) = self.hold(u)?;
                let value = vec![1; *u.choose(&[0, 1, 4_096, 4_097])?];
                Request::SetValue(SessionSetValue {
                    name,
                    owner_id,
                    value,
                })
            }
            10 => {
                let (name, owner_id) = self.hold(u)?;
                Request::Downgrade(SessionDowngrade { name, owner_id })
            }
            11 => {
                let (name, owner_id) = self.hold(u)?;
                let permits = *u.choose(&[1, 2, 0, u32::MAX])?;
                Request::Reduce(SessionReduce {
                    name,
                    owner_id,
                    permits,
                })
            }
            12..=14 => {
                let sequence = &mut self.peers[peer].sequence;
                *sequence += 1;
                let sequence = if u.ratio(1, 16)? {
                    u.arbitrary()?
                } else {
                    *sequence
                };
                Request::Heartbeat(SessionHeartbeat { sequence })
            }
            _ if u.ratio(1, 4)? => Request::Close(SessionClose {}),
            _ => {
                let nothing = SessionRequest {
                    request_id,
                    ..SessionRequest::default()
                };
                self.send(peer, nothing);
                return Ok(());
            }
        };
        self.send(peer, message(request_id, request));
        Ok(())
    }

    fn end_stream(&mut self, u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        if !self.peers.is_empty() {
            let peer = u.choose_index(self.peers.len())?;
            let end = *u.choose(&[StreamEnd::ByPeer, StreamEnd::Cut])?;
            self.leave(peer, end);
        }
        Ok(())
    }

    fn leave(&mut self, peer: usize, end: StreamEnd) {
        let now = self.world.now;
        let peer = &mut self.peers[peer];
        if std::mem::replace(&mut peer.is_gone, true) {
            return;
        }
        if let Some(stream) = self.world.streams.get_mut(&peer.stream) {
            stream.up.hole_until = 0;
        }
        self.world.send_up(peer.stream, now, Up::End(end));
    }

    /// What a client sends arrives later.
    fn hold_up(&mut self, u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        if self.peers.is_empty() {
            return Ok(());
        }
        let peer = u.choose_index(self.peers.len())?;
        let until = self.world.now + u64::from(u.arbitrary::<u8>()?) * 10 * MS;
        if let Some(stream) = self.world.streams.get_mut(&self.peers[peer].stream) {
            stream.up.hole_until = until;
        }
        self.world.touch_all();
        Ok(())
    }

    /// Takes in everything that coordinators sent.
    fn hear(&mut self) {
        for peer in &mut self.peers {
            let Some(stream) = self.world.streams.get_mut(&peer.stream) else {
                continue;
            };
            stream.down.hole_until = 0;
            while let Some(message) = stream.down.pop(u64::MAX) {
                // The end is not always told: the connection may be gone.
                if let Ok(bytes) = message {
                    assert!(!bytes.is_empty(), "an empty answer");
                    let answer = SessionResponse::decode(&bytes[..]).expect("it was just encoded");
                    peer.hear(answer, &mut self.known);
                }
            }
            stream.down.hole_until = u64::MAX;
        }
    }

    fn end(mut self) {
        self.pass(0);
        for peer in 0..self.peers.len() {
            self.leave(peer, StreamEnd::ByPeer);
        }
        self.pass(MS);
        self.world.end();
    }
}
