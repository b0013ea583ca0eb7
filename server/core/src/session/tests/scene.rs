//! Scene of the tests: a session, a table of locks, and a clock that only the test moves.

use super::*;

/// A command that the store has not answered.
pub(super) struct Sent {
    pub(super) id: CommandId,
    pub(super) name: LockName,
    pub(super) op: Op,
    /// The request that it carries out.
    pub(super) request: Option<RequestId>,
    sent_at: Moment,
}

pub(super) struct Scene {
    pub(super) session: Session,
    pub(super) now: Moment,
    table: LockTable,
    owners: u8,
    /// Number of acquires that may be in flight.
    pub(super) room: usize,
    /// Commands that the store has not answered, in their order.
    pub(super) sent: VecDeque<Sent>,
    /// Answers to the client.
    pub(super) said: Vec<(RequestId, Response)>,
    pub(super) registered: BTreeMap<OwnerId, Interest>,
    /// Waiters, each with the mode in which it asks.
    pub(super) tracked: BTreeMap<OwnerId, Mode>,
    pub(super) watched: BTreeSet<OwnerId>,
    pub(super) untracked: Vec<WaitEnd>,
    pub(super) cleanups: Vec<PendingCleanup>,
    pub(super) moved: Vec<OwnerId>,
    pub(super) predecessors: Vec<SessionId>,
    pub(super) notes: Vec<Note>,
    pub(super) ended_stream: Option<Option<Refused>>,
    pub(super) is_detached: bool,
    pub(super) is_listed: bool,
}

impl Scene {
    /// A session that is open.
    pub(super) fn open() -> Self {
        Self::configured(|_| {})
    }

    /// A session that is open, with another configuration.
    pub(super) fn configured(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config();
        change(&mut config);
        let mut scene = Self::resume(config, Vec::new());
        scene.said.clear();
        scene
    }

    /// An open session that holds a lock, by request 2; and the owner id of that.
    pub(super) fn holding(text: &str) -> (Self, OwnerId) {
        let mut scene = Self::open();
        let owner = scene.hold(2, acquire(text))[0];
        (scene, owner)
    }

    /// An open session whose request 2 waits for a lock that somebody else holds; and its ticket.
    pub(super) fn waiting_for(text: &str, asked: AcquireRequest) -> (Self, OwnerId) {
        let mut scene = Self::open();
        scene.other_takes(text);
        let ticket = scene.queue(2, asked);
        (scene, ticket)
    }

    /// A session that takes this over.
    pub(super) fn resume(config: Config, resume: Vec<Resumption>) -> Self {
        let now = Moment::from_micros(BEGAN_AT.unsigned_abs());
        let registered = resume.iter().map(|it| (it.next, Interest::Waits)).collect();
        let mut owners = 0;
        let session = Session::open(
            config,
            Lease::open(TTL, now),
            OPEN,
            resume,
            &mut Context {
                now,
                fresh_owner: &mut fresh(&mut owners),
            },
        );
        let mut scene = Self {
            session,
            now,
            table: LockTable::default(),
            owners,
            room: usize::MAX,
            sent: VecDeque::new(),
            said: Vec::new(),
            registered,
            tracked: BTreeMap::new(),
            watched: BTreeSet::new(),
            untracked: Vec::new(),
            cleanups: Vec::new(),
            moved: Vec::new(),
            predecessors: Vec::new(),
            notes: Vec::new(),
            ended_stream: None,
            is_detached: false,
            is_listed: true,
        };
        scene.carry_out();
        scene
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut Session, &mut Context<'_>) -> T) -> T {
        call(
            &mut self.session,
            &mut Context {
                now: self.now,
                fresh_owner: &mut fresh(&mut self.owners),
            },
        )
    }

    pub(super) fn handle(&mut self, input: Input) {
        self.with(|session, context| session.handle(input, context));
        self.carry_out();
    }

    pub(super) fn ask(&mut self, request: RequestId, asked: Request) {
        self.handle(Input::Request(request, asked));
    }

    pub(super) fn release(&mut self, request: RequestId, text: &str, owner: OwnerId) {
        let name = name(text);
        self.ask(
            request,
            Request::Release {
                name,
                owner,
                expired: false,
            },
        );
    }

    pub(super) fn terminate(&mut self) {
        self.with(|session, context| session.terminate(context));
        self.carry_out();
    }

    pub(super) fn revise(&mut self, is_permitted: impl Fn(&LockName, Mode) -> bool) {
        self.with(|session, context| session.revise(&is_permitted, context));
        self.carry_out();
    }

    pub(super) fn event(&mut self, owner: OwnerId, event: RegistryEvent) {
        self.handle(Input::Registry(owner, event));
    }

    pub(super) fn end_stream(&mut self, end: StreamEnd) {
        self.handle(Input::StreamEnded(end));
    }

    /// Lets time pass, and does what is due on the way.
    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.now.after(time);
        while let Some(due) = self.session.next_timeout().filter(|due| *due <= until) {
            assert!(due > self.now || self.is_due(), "a timeout that never ends");
            self.now = self.now.max(due);
            self.ring();
        }
        self.now = until;
    }

    /// Has the timer fire, whether or not anything is due.
    pub(super) fn ring(&mut self) {
        self.with(|session, context| session.handle_timeout(context));
        self.carry_out();
    }

    fn is_due(&self) -> bool {
        let due = self.session.next_timeout();
        due.is_some_and(|due| due <= self.now)
    }

    pub(super) fn carry_out(&mut self) {
        loop {
            let asked = self.sent.iter();
            let on_their_way = asked
                .filter(|sent| matches!(sent.op, Op::Acquire(_)))
                .count();
            let has_room = on_their_way < self.room;
            let next = self.with(|session, context| session.poll_output(context, &mut || has_room));
            match next {
                Some(output) => self.execute(output),
                None => break,
            }
        }
        if self.session.phase() == Phase::Ended {
            // Whatever may be in the store is being released, or is left there on purpose.
            for (owner, interest) in &self.registered {
                assert!(
                    matches!(interest, Interest::Settling),
                    "{owner:?} is {interest:?}"
                );
            }
            assert!(self.tracked.is_empty());
        }
    }

    fn execute(&mut self, output: Output) {
        match output {
            Output::Register(owner, Interest::Forgotten) => {
                assert!(self.registered.remove(&owner).is_some(), "not registered");
            }
            Output::Register(owner, interest) => {
                self.registered.insert(owner, interest);
            }
            Output::Store {
                id,
                request,
                name,
                op,
            } => {
                if let Op::Acquire(Acquire { owner, .. }) = &op {
                    // So that no grant arrives for an unknown owner id.
                    assert_eq!(self.registered.get(owner), Some(&Interest::Waits));
                }
                let sent_at = self.now;
                self.sent.push_back(Sent {
                    id,
                    name,
                    op,
                    request,
                    sent_at,
                });
            }
            Output::TrackWait(wait) => {
                let Acquire { owner, mode, .. } = *wait.acquire;
                assert!(self.tracked.insert(owner, mode).is_none());
            }
            Output::WatchDeadlock(owner) => {
                assert!(self.tracked.contains_key(&owner));
                self.watched.insert(owner);
            }
            Output::UntrackWait(owner, end) => {
                assert!(self.tracked.remove(&owner).is_some());
                self.untracked.push(end);
            }
            Output::Cleanup(pending) => {
                self.registered.insert(pending.owner, Interest::Settling);
                self.cleanups.push(pending);
            }
            Output::TellMoved(owner) => self.moved.push(owner),
            Output::Succeeds(predecessors) => self.predecessors.extend(predecessors.iter()),
            Output::Send(request, response) => self.said.push((request, response)),
            Output::EndStream(refused) => self.ended_stream = Some(refused),
            Output::Detached => self.is_detached = true,
            Output::NotOpened => self.is_listed = false,
            Output::Note(note) => self.notes.push(note),
            Output::Ended => assert_eq!(self.session.phase(), Phase::Ended),
        }
    }

    /// Takes the oldest command that the store has not answered, and has the rules carry it out.
    pub(super) fn execute_next(&mut self) -> (CommandId, Stamped) {
        let sent = self.sent.pop_front().unwrap();
        let executed = self.apply(sent.name, sent.op);
        let sent_at = sent.sent_at;
        (sent.id, Stamped { executed, sent_at })
    }

    fn apply(&mut self, name: LockName, op: Op) -> Executed {
        let caller = Caller {
            coordinator: CoordinatorId::new("here"),
            floor: FencingToken::new(0),
            token_memory: Duration::from_secs(3600),
            not_after: None,
        };
        let micros = i64::try_from(self.now.as_micros()).unwrap();
        let command = Command { name, caller, op };
        self.table.apply(&command, StoreTime::from_micros(micros))
    }

    /// Has the store answer the oldest command. Grants that come with the answer are delivered first.
    pub(super) fn answer(&mut self) {
        let (id, stamped) = self.execute_next();
        self.reply(id, stamped);
    }

    pub(super) fn reply(&mut self, id: CommandId, stamped: Stamped) {
        self.deliver(&stamped);
        self.handle(Input::StoreReply(id, Ok(stamped)));
    }

    /// Has the store carry out the oldest command, and answer something else.
    pub(super) fn answer_with(&mut self, reply: Reply) {
        let (id, mut stamped) = self.execute_next();
        stamped.executed.reply = reply;
        self.reply(id, stamped);
    }

    fn deliver(&mut self, stamped: &Stamped) {
        for handed in &stamped.executed.handed {
            if self.registered.get(&handed.owner) == Some(&Interest::Waits) {
                self.registered.insert(handed.owner, Interest::Settling);
                let granted = RegistryEvent::Granted {
                    token: handed.token,
                    permits: handed.permits.map(std::num::NonZeroU32::get),
                    sent_at: stamped.sent_at,
                };
                self.event(handed.owner, granted);
            }
        }
    }

    /// Has the store answer all commands, also those that follow.
    pub(super) fn answer_all(&mut self) {
        while !self.sent.is_empty() {
            self.answer();
        }
    }

    /// Fails the oldest command.
    pub(super) fn fail(&mut self, error: StoreError) {
        self.fail_with(CommandFailure::Store(error));
    }

    pub(super) fn fail_with(&mut self, failure: CommandFailure) {
        let sent = self.sent.pop_front().unwrap();
        self.handle(Input::StoreReply(sent.id, Err(failure)));
    }

    /// Has somebody else take a lock.
    pub(super) fn other_takes(&mut self, text: &str) {
        self.other_takes_as(OTHER[0], text);
    }

    /// The same under another owner id.
    pub(super) fn other_takes_as(&mut self, number: u8, text: &str) {
        self.other_asks(number, text, false);
    }

    /// Has somebody else take a lock, which may be held for no longer than this.
    pub(super) fn other_takes_within(&mut self, number: u8, text: &str, max_hold: Duration) {
        let max_hold = Some(max_hold);
        let acquire = Acquire {
            max_hold,
            ..others(number, false)
        };
        self.apply(name(text), Op::Acquire(acquire));
    }

    /// Has the store lose a grant, and grant the lock again under the same owner id, as after a fail-over that brings its waiter's
    /// place back.
    pub(super) fn grant_again(&mut self, owner: OwnerId, text: &str) {
        let end = End::Clean;
        self.apply(name(text), Op::Release { owner, end });
        let acquire = Acquire {
            owner,
            ..others(0, false)
        };
        let granted = self.apply(name(text), Op::Acquire(acquire));
        assert!(matches!(granted.reply, Reply::Granted { .. }));
    }

    /// Has an operator take a lock from all, and the message of that arrive.
    pub(super) fn force(&mut self, owner: OwnerId, text: &str) {
        self.apply(name(text), Op::ForceRelease);
        self.event(owner, RegistryEvent::Lost(Loss::Forced));
    }

    fn other_asks(&mut self, number: u8, text: &str, wait: bool) {
        let executed = self.apply(name(text), Op::Acquire(others(number, wait)));
        assert_eq!(wait, matches!(executed.reply, Reply::Queued { .. }));
    }

    /// Carries out what is to be released in the background.
    pub(super) fn clean_up(&mut self) {
        for pending in std::mem::take(&mut self.cleanups) {
            let (owner, end) = (pending.owner, pending.end);
            let executed = self.apply(pending.name, Op::Release { owner, end });
            self.registered.remove(&owner);
            let sent_at = self.now;
            self.deliver(&Stamped { executed, sent_at });
        }
    }

    /// Has somebody else wait for a lock that is held.
    pub(super) fn other_waits(&mut self, number: u8, text: &str) {
        self.other_asks(number, text, true);
    }

    /// Has somebody else give a lock back.
    pub(super) fn other_releases(&mut self, text: &str) {
        let release = Op::Release {
            owner: OwnerId::from_bytes(OTHER),
            end: End::Clean,
        };
        let executed = self.apply(name(text), release);
        let sent_at = self.now;
        self.deliver(&Stamped { executed, sent_at });
    }

    /// The store loses everything.
    pub(super) fn lose_all(&mut self) {
        self.table = LockTable::default();
    }

    fn view(&mut self, text: &str) -> Box<NameView> {
        match self.apply(name(text), Op::view(0)).reply {
            Reply::Seen(view) => view,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the number of holders of a lock.
    pub(super) fn holders(&mut self, text: &str) -> usize {
        self.view(text).holders.len()
    }

    /// Returns the number of a semaphore's permits that are taken.
    pub(super) fn permits_taken(&mut self, text: &str) -> u64 {
        self.view(text).permits_taken
    }

    /// Returns the number of waiters of a lock.
    pub(super) fn waiters(&mut self, text: &str) -> u64 {
        self.view(text).waiter_count
    }

    /// Takes locks that are free, all answers included; gives their owner ids in the order of the names.
    pub(super) fn hold(&mut self, request: RequestId, asked: AcquireRequest) -> Vec<OwnerId> {
        self.ask(request, Request::Acquire(asked));
        self.answer_all();
        self.granted(request)
    }

    /// The owner ids of the grant that was said last.
    pub(super) fn granted(&mut self, request: RequestId) -> Vec<OwnerId> {
        let locks = self.locks_granted(request);
        locks.iter().map(|lock| lock.owner).collect()
    }

    /// The locks of the grant that was said last.
    pub(super) fn locks_granted(&mut self, request: RequestId) -> OneOrMore<GrantedLock> {
        self.granted_for(request).0
    }

    /// The locks of the grant that was said last, and for how long it is good.
    pub(super) fn granted_for(&mut self, request: RequestId) -> (OneOrMore<GrantedLock>, Duration) {
        match self.said.pop() {
            Some((
                id,
                Response::Granted {
                    locks, valid_for, ..
                },
            )) if id == request => (locks, valid_for),
            other => panic!("{other:?}"),
        }
    }

    /// Queues behind somebody else who holds the lock; gives the ticket.
    pub(super) fn queue(&mut self, request: RequestId, asked: AcquireRequest) -> OwnerId {
        self.ask(request, Request::Acquire(asked));
        self.answer_all();
        match self.said.pop() {
            Some((id, Response::Queued { ticket, .. })) if id == request => ticket,
            other => panic!("{other:?}"),
        }
    }

    /// Queues behind somebody else who takes the lock; gives the ticket.
    pub(super) fn wait_for(&mut self, request: RequestId, text: &str) -> OwnerId {
        self.other_takes(text);
        self.queue(request, acquire(text))
    }

    /// Returns for how long the oldest command renews a hold.
    pub(super) fn renewed_for(&self) -> Duration {
        match self.sent[0].op {
            Op::Renew { ttl, .. } => ttl,
            ref other => panic!("{other:?}"),
        }
    }

    /// Returns the answers since the last call, in short.
    pub(super) fn said_in_short(&mut self) -> Vec<(RequestId, &'static str)> {
        let said = self.said().into_iter();
        said.map(|(request, response)| (request, answer_in_short(&response)))
            .collect()
    }

    /// Returns the answers since the last call.
    pub(super) fn said(&mut self) -> Vec<(RequestId, Response)> {
        std::mem::take(&mut self.said)
    }

    /// The owner ids that are released in the background, and how.
    pub(super) fn released(&self) -> Vec<(OwnerId, End)> {
        let cleanups = self.cleanups.iter();
        cleanups.map(|it| (it.owner, it.end)).collect()
    }

    /// The operations that the store has not answered, in short, each with its name.
    pub(super) fn asked(&self) -> Vec<(&'static str, &str)> {
        let sent = self.sent.iter();
        sent.map(|sent| (in_short(&sent.op), sent.name.as_str()))
            .collect()
    }

    /// The operations that the store has not answered, in short.
    pub(super) fn ops(&self) -> Vec<&'static str> {
        self.sent.iter().map(|sent| in_short(&sent.op)).collect()
    }
}
