//! Record of a crowd that is served, one member after the other.

use std::time::{Duration, Instant};

use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{Latencies, RawSession, raw::PROMPT};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

/// Time for which each member holds the lock.
const HOLD: Duration = Duration::from_millis(5);
/// Longest time to wait for the next event: longer than any of the asserted bounds.
const LIMIT: Duration = Duration::from_secs(12);

/// One of a crowd.
pub(crate) struct Member {
    pub(crate) number: usize,
    pub(crate) session: RawSession,
    /// Its place in the queue, as it was told.
    pub(crate) place: u64,
    /// The owner id that its grant will have.
    pub(crate) ticket: Vec<u8>,
}

/// Events of members. One channel carries all of them, and each member reports an action before it takes it: so a grant is read
/// after the release that made it possible, unless exclusion is broken.
enum Event {
    Granted {
        grant: Grant,
        let_go: oneshot::Sender<()>,
    },
    /// It is about to send its release.
    Releasing { number: usize, at: Instant },
    /// Its turn is over, and its session closed.
    Left,
    /// Its stream has ended under it.
    CutOff { number: usize },
}

/// A grant, and what became of it.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) number: usize,
    pub(crate) at: Instant,
    /// Since when nobody holds it: it was released, or its holder's coordinator died.
    pub(crate) ended: Option<Instant>,
    token: i64,
}

/// The turns of a crowd, which this lets go on one by one.
pub(crate) struct Turns {
    events: mpsc::UnboundedReceiver<Event>,
    tasks: JoinSet<()>,
    coordinators: usize,
    newest_token: i64,
    /// The time at which the first holder, before all members, released the lock.
    began: Instant,
    /// The holder of the lock, and the channel that makes it release it.
    holder: Option<(usize, Option<oneshot::Sender<()>>)>,
    /// The number of members that have closed their sessions.
    left: usize,
    /// All grants so far.
    pub(crate) grants: Vec<Grant>,
    /// The members whose streams ended before their turns were over.
    pub(crate) cut_off: Vec<usize>,
}

impl Turns {
    pub(crate) fn begin(members: Vec<Member>, coordinators: usize) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let tasks = members
            .into_iter()
            .map(|member| member.take_its_turn(sender.clone()))
            .collect();
        Self {
            events,
            tasks,
            coordinators,
            newest_token: 0,
            began: Instant::now(),
            holder: None,
            left: 0,
            grants: Vec::new(),
            cut_off: Vec::new(),
        }
    }

    /// Notes the token and the release of whoever held the lock before all of them.
    pub(crate) fn released_before(&mut self, token: i64, at: Instant) {
        self.newest_token = token;
        self.began = at;
    }

    /// Lets everybody have a turn until this rank holds the lock, and returns while it does; all before it have closed
    /// their sessions by then.
    pub(crate) async fn until(&mut self, rank: usize) {
        while self.grants.len() <= rank || self.left < rank {
            assert!(self.step().await, "the turns ended before rank {rank}");
            if self.grants.len() <= rank && self.is_held() {
                tokio::time::sleep(HOLD).await;
                self.let_go();
            }
        }
    }

    /// Has the holder release the lock.
    pub(crate) fn let_go(&mut self) {
        let (_, let_go) = self.holder.as_mut().expect("somebody holds the lock");
        if let Some(let_go) = let_go.take() {
            // It may have been cut off.
            let _ = let_go.send(());
        }
    }

    /// Waits until the holder has been cut off.
    pub(crate) async fn holder_is_cut_off(&mut self) {
        while self.holder.is_some() {
            assert!(self.step().await, "the turns ended with a holder");
        }
    }

    /// Lets all that are left have their turns, and returns when nobody waits any more.
    pub(crate) async fn finish(&mut self) {
        while self.step().await {
            if self.is_held() {
                tokio::time::sleep(HOLD).await;
                self.let_go();
            }
        }
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }

    /// Returns whether somebody holds the lock who was not let go.
    fn is_held(&self) -> bool {
        matches!(self.holder, Some((_, Some(_))))
    }

    /// Takes the next event in; false when there are no more.
    async fn step(&mut self) -> bool {
        let event = tokio::time::timeout(LIMIT, self.events.recv()).await;
        let event = event.unwrap_or_else(|_| panic!("nothing happened for {LIMIT:?}"));
        match event {
            None => return false,
            Some(Event::Granted { grant, let_go }) => {
                assert!(
                    self.holder.is_none(),
                    "granted to {} while {:?} held it",
                    grant.number,
                    self.holder
                );
                assert!(grant.token > self.newest_token, "{grant:?}");
                self.newest_token = grant.token;
                self.holder = Some((grant.number, Some(let_go)));
                self.grants.push(grant);
            }
            Some(Event::Releasing { number, at }) => self.ended(number, at),
            Some(Event::Left) => self.left += 1,
            Some(Event::CutOff { number }) => {
                if matches!(self.holder, Some((holder, _)) if holder == number) {
                    self.ended(number, Instant::now());
                }
                self.cut_off.push(number);
            }
        }
        true
    }

    fn ended(&mut self, number: usize, at: Instant) {
        let holder = self.holder.take().map(|(holder, _)| holder);
        assert_eq!(holder, Some(number), "it ended what it did not hold");
        if let Some(last) = self.grants.last_mut() {
            last.ended = Some(at);
        }
    }

    /// Returns the members that were granted the lock, in order.
    pub(crate) fn granted(&self) -> Vec<usize> {
        self.grants.iter().map(|grant| grant.number).collect()
    }

    /// Returns the time in which nobody held the lock, before each grant from the second on, with whose grant it was.
    pub(crate) fn gaps(&self) -> Vec<Gap> {
        self.grants
            .windows(2)
            .map(|pair| {
                let ended = pair[0].ended.expect("a grant ends before the next");
                Gap {
                    took: pair[1].at - ended,
                    crosses: pair[0].number % self.coordinators
                        != pair[1].number % self.coordinators,
                }
            })
            .collect()
    }

    /// Prints how long hand-offs took, and gives it: within a coordinator, and from one to another.
    pub(crate) fn print_gaps(&self, what: &str) -> (Latencies, Latencies) {
        let mut same = Latencies::new(format!("{what}: release to grant, same coordinator"));
        let mut cross = Latencies::new(format!("{what}: release to grant, another coordinator"));
        for gap in self.gaps() {
            let latencies = if gap.crosses { &mut cross } else { &mut same };
            latencies.record(gap.took);
        }
        same.print();
        cross.print();
        (same, cross)
    }

    /// Returns the duration of all turns together.
    pub(crate) fn took(&self) -> Duration {
        let last = self.grants.last().and_then(|grant| grant.ended);
        last.map_or(Duration::ZERO, |ended| ended - self.began)
    }
}

/// Between two grants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    pub(crate) took: Duration,
    /// Whether the two were at different coordinators.
    pub(crate) crosses: bool,
}

impl Member {
    async fn take_its_turn(mut self, events: mpsc::UnboundedSender<Event>) {
        let number = self.number;
        // Nobody listens any more once the test has failed.
        let tell = |event| drop(events.send(event));
        let Some(granted) = self.granted().await else {
            return tell(Event::CutOff { number });
        };
        let at = Instant::now();
        let [lock] = <[_; 1]>::try_from(granted.locks).expect("one lock");
        assert!(lock.owner_id == self.ticket, "granted by another ticket");
        let (let_go, told) = oneshot::channel();
        let grant = Grant {
            number,
            at,
            ended: None,
            token: lock.fencing_token,
        };
        tell(Event::Granted { grant, let_go });
        tokio::select! {
            _ = told => {}
            answer = self.next() => match answer {
                None => return tell(Event::CutOff { number }),
                Some(other) => panic!("{number} was told {other:?} while it held the lock"),
            },
        }
        let at = Instant::now();
        tell(Event::Releasing { number, at });
        self.session.ask_release(&lock).await;
        match self.next().await {
            Some(Response::Released(released)) => assert!(released.released, "{number}"),
            other => panic!("a release was answered by {other:?}"),
        }
        self.session.close().await;
        tell(Event::Left);
    }

    async fn granted(&mut self) -> Option<leasehold_proto::v1::SessionGranted> {
        match self.next().await? {
            Response::Granted(granted) => Some(granted),
            other => panic!("{} was told {other:?} while it waited", self.number),
        }
    }

    /// Returns the next message, apart from answers to heartbeats; `None` if the stream has ended.
    async fn next(&mut self) -> Option<Response> {
        loop {
            let message = self.session.next(PROMPT).await.ok().flatten()?;
            match message.response.expect("an answer says something") {
                Response::Heartbeat(_) => {}
                other => return Some(other),
            }
        }
    }
}
