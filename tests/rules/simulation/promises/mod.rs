//! Promises of the store, checked at each command: tokens rise, first come is first served, limits and lock-delays count, and
//! watchers see every grant and every end.

mod allowances;

use std::collections::{BTreeMap, BTreeSet};

use leasehold_core::{
    command::{CLAIM_TIME, Command, End, Executed, Op, Reply},
    id::{FencingToken, OwnerId},
    mode::Mode,
    name::LockName,
    time::StoreTime,
    view::{HoldView, HolderView, NameView},
    watch::{Change, Mirror, Telling},
};

use crate::{
    store::Run,
    world::{LONGEST_TTL, NAMES, World, micros},
};

/// Longest time until a coordinator tells its waiter of a hand-off, if nothing goes wrong.
const TOLD_WITHIN: u64 = 300_000;
/// Longest lock-delay.
const LONGEST_DELAY: u64 = 250_000;

/// State of the locks, as the commands so far have left it.
#[derive(Default)]
pub(crate) struct Ledger {
    names: [Entry; NAMES.len()],
    /// The token of each grant.
    granted: BTreeMap<OwnerId, FencingToken>,
    /// When each of them was made first, by name and token.
    made_at: BTreeMap<(usize, i64), u64>,
    /// When each hold that was granted at once, without a wait, has to end.
    bounds: BTreeMap<OwnerId, u64>,
    mirror: Mirror,
    /// Grants by commands that came too late to be told: a look may find them. By name and token.
    untold_grants: BTreeSet<(usize, i64)>,
    /// Hand-offs of which the waiter's coordinator was told, and when.
    untold: BTreeMap<OwnerId, (Run, u64)>,
}

#[derive(Default)]
struct Entry {
    /// The newest token, and the newest of those of which the store may have lost the record.
    newest: Option<FencingToken>,
    lost: Option<FencingToken>,
    /// When each hold was granted, and when the store lets it expire unless it is renewed.
    holds: BTreeMap<FencingToken, (u64, StoreTime)>,
    /// An exclusive hold ended uncleanly: nobody is granted the lock before this.
    closed_until: Option<StoreTime>,
}

/// State of a name before a command.
pub(crate) struct Before {
    /// The name's number.
    pub(crate) name: usize,
    /// The waiters whose coordinators live, in order.
    line: Vec<OwnerId>,
    /// Lock-delay of the exclusive hold that the command ends uncleanly.
    closes_for: Option<std::time::Duration>,
}

impl World {
    /// Looks at what a command will find.
    pub(crate) fn before(&mut self, command: &Command) -> Before {
        let name = NAMES.iter().position(|name| *name == command.name.as_str());
        let name = name.expect("it is one of them");
        let mut line = self.line(command);
        if let Op::Resume(resume) = &command.op {
            // It keeps its place under another owner id.
            for owner in &mut line {
                if resume.from.contains(owner) {
                    *owner = resume.next;
                }
            }
        }
        let closes_for = match &command.op {
            Op::Release {
                owner,
                end: End::Unclean,
            } => self.lock_delay(&command.name, owner),
            _ => None,
        };
        Before {
            name,
            line,
            closes_for,
        }
    }

    fn line(&mut self, command: &Command) -> Vec<OwnerId> {
        if matches!(command.op, Op::Renew { .. } | Op::SetValue { .. }) {
            return Vec::new();
        }
        match self.look(&command.name, Op::Edges) {
            Reply::Edges(edges) => edges.waiters.iter().map(|waiter| waiter.owner).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn lock_delay(&mut self, name: &LockName, owner: &OwnerId) -> Option<std::time::Duration> {
        let token = *self.ledger.granted.get(owner)?;
        let view = self.view(name);
        let hold = holds(&view).find(|hold| hold.token == token)?;
        (hold.mode == Mode::Exclusive && !hold.lock_delay.is_zero()).then_some(hold.lock_delay)
    }

    /// Fails if a command broke a promise.
    pub(crate) fn after(
        &mut self,
        command: &Command,
        executed: &Executed,
        telling: Telling,
        before: &Before,
    ) {
        if executed.reply == Reply::Late {
            return;
        }
        let entry = &mut self.ledger.names[before.name];
        match (&executed.reply, before.closes_for) {
            (Reply::Released { held: true, .. }, Some(delay)) => {
                entry.closed_until = Some(executed.at.after(delay));
            }
            (Reply::Forced { .. }, _) => entry.closed_until = None,
            _ => {}
        }
        let granted = self.new_grants(command, executed, before);
        if telling.changes.contains(&Change::Doubtful) {
            let tokens = granted.iter().map(|owner| self.ledger.granted[owner].get());
            let tokens: Vec<_> = tokens.map(|token| (before.name, token)).collect();
            self.ledger.untold_grants.extend(tokens);
        }
        let view = self.view(&command.name);
        if !granted.is_empty() {
            self.check_order(command, &granted, before);
            self.check_room(&view);
        }
        self.check_watchers(command, executed, telling, &view, before.name);
    }

    /// Returns the owner ids that a command granted the lock to, in the order of their tokens.
    fn new_grants(
        &mut self,
        command: &Command,
        executed: &Executed,
        before: &Before,
    ) -> Vec<OwnerId> {
        let handed = executed.handed.iter();
        let mut granted: Vec<_> = handed.map(|handed| (handed.token, handed.owner)).collect();
        match (&executed.reply, &command.op) {
            (Reply::Granted { token, permits }, Op::Acquire(acquire)) => {
                let asked = acquire.mode.permits();
                let is_less = permits.is_some_and(|permits| permits < asked);
                self.seen.grants_of_what_is_left += u64::from(is_less);
                granted.push((*token, acquire.owner));
            }
            (Reply::Resumed { token, .. }, Op::Resume(resume)) => {
                // A place that was resumed may have been granted the lock.
                let holds = &self.ledger.names[before.name].holds;
                if holds.contains_key(token) {
                    self.ledger.granted.insert(resume.next, *token);
                } else {
                    granted.push((*token, resume.next));
                }
            }
            (Reply::OtherLimit { .. }, _) => self.seen.other_limits += 1,
            (Reply::Changed(true), Op::Reduce { .. }) => self.seen.reduced += 1,
            _ => {}
        }
        granted.sort();
        granted.retain(|(token, owner)| self.check_token(command, *owner, *token, before.name));
        let granted: Vec<OwnerId> = granted.into_iter().map(|(_, owner)| owner).collect();
        if let Op::Acquire(acquire) = &command.op
            && let Some(max_hold) = acquire.max_hold
            && granted.contains(&acquire.owner)
            && !acquire.again
        {
            let ends_at = self.now + micros(max_hold);
            self.ledger.bounds.insert(acquire.owner, ends_at);
        }
        granted
    }

    /// Fails if the token of a grant does not rise. Returns whether the grant is new: what is asked again keeps the token that it
    /// was granted with.
    fn check_token(
        &mut self,
        command: &Command,
        owner: OwnerId,
        token: FencingToken,
        name: usize,
    ) -> bool {
        if self.ledger.granted.insert(owner, token) == Some(token) {
            return false;
        }
        let (now, time) = (self.now, self.store_time());
        // One that was lost may be made again.
        let made_at = self.ledger.made_at.entry((name, token.get()));
        made_at.or_insert(now);
        let floor = command.caller.floor_at(time);
        let entry = &mut self.ledger.names[name];
        let newest = entry.newest.replace(token);
        assert!(
            newest.is_none_or(|newest| newest < token),
            "at {now}, the token of {} is {token}, not above {newest:?}",
            command.name
        );
        assert!(
            entry
                .lost
                .is_none_or(|lost| lost < token || time.as_micros() <= lost.get()),
            "at {now}, the token of {} is {token}, not above {:?}, which was lost; the clock is not behind",
            command.name,
            entry.lost
        );
        assert!(
            token >= floor,
            "at {now}, the token of {} is {token}, below the floor {floor}",
            command.name
        );
        assert!(
            entry.closed_until.is_none_or(|until| until <= time),
            "at {now}, {} is granted during its lock-delay, which ends at {:?}",
            command.name,
            entry.closed_until
        );
        true
    }

    /// Fails if one was granted the lock before another one that waits for longer.
    fn check_order(&mut self, command: &Command, granted: &[OwnerId], before: &Before) {
        let line = self.line(command);
        let passed = |owner: &OwnerId| {
            let place = before.line.iter().position(|waiter| waiter == owner);
            let is_own = matches!(&command.op, Op::Acquire(it) if it.owner == *owner && !it.again);
            let ahead = match place {
                Some(place) => &before.line[..place],
                None if is_own => &before.line[..],
                // It waited before, but its coordinator counted as dead until this command.
                None => &[],
            };
            ahead.iter().any(|waiter| line.contains(waiter))
        };
        assert!(
            !granted.iter().any(passed),
            "at {}, {} is granted out of order, before one that waits for longer: {:?}",
            self.now,
            command.name,
            command.op
        );
    }

    /// Fails if holds exclude each other, or have more permits than the limit in force.
    fn check_room(&mut self, view: &NameView) {
        let is_alone = holds(view).any(|hold| hold.mode == Mode::Exclusive);
        assert!(
            !is_alone || view.holders.len() == 1,
            "at {}, others hold it beside an exclusive one: {view:#?}",
            self.now
        );
        let permits = holds(view).map(|hold| u64::from(hold.mode.permits()));
        let permits = permits.sum::<u64>().max(view.permits_taken);
        if permits > 0
            && let Some(limit) = view.limit
        {
            let most = u64::from(limit.number);
            assert!(
                permits <= most,
                "at {}, {permits} permits of {most} are held: {view:#?}",
                self.now
            );
            self.seen.grants_of_a_revision += u64::from(limit.revision > 0);
        }
    }

    /// Fails if watchers know another state than the store has, unless a hold has expired since.
    fn check_watchers(
        &mut self,
        command: &Command,
        executed: &Executed,
        telling: Telling,
        view: &NameView,
        name: usize,
    ) {
        let (now, at) = (self.now, executed.at);
        let moment = self.moment();
        let is_doubtful = telling.changes.contains(&Change::Doubtful);
        if !telling.changes.is_empty() || telling.looked.is_some() {
            let mirror = &mut self.ledger.mirror;
            mirror.tell(&command.name, at, telling, moment);
        }
        if is_doubtful {
            self.watch(&command.name);
        }
        let Ledger { names, mirror, .. } = &mut self.ledger;
        let entry = &mut names[name];
        let pages = mirror.page(command.name.as_str(), None, 1, moment);
        let seen: Vec<_> = pages.iter().flat_map(|(_, view)| holds(view)).collect();
        for hold in &seen {
            let (began, ends_at) = entry.holds.get(&hold.token).copied().unwrap_or((now, at));
            let may_be_over = ends_at <= at || began <= self.stepped_at;
            assert!(
                may_be_over || holds(view).any(|held| held.token == hold.token),
                "at {now}, watchers believe that {} is held, though it has ended: {hold:?}",
                command.name
            );
        }
        let mut holds_now = BTreeMap::new();
        for hold in holds(view) {
            let began = entry
                .holds
                .get(&hold.token)
                .map_or(now, |(began, _)| *began);
            // Watchers expect its end after the time that it had before the store's clock stepped back.
            let may_be_over = hold.is_over() || began <= self.stepped_at;
            assert!(
                may_be_over || seen.iter().any(|seen| seen.token == hold.token),
                "at {now}, watchers do not know that {} is held: {hold:?}",
                command.name
            );
            holds_now.insert(hold.token, (began, at.after(hold.expires_in)));
        }
        entry.holds = holds_now;
    }

    /// Does what is regular: watchers look at locks that may have expired, and no hold goes on beyond its bound.
    pub(crate) fn look_around(&mut self) {
        let moment = self.moment();
        for name in self.ledger.mirror.due(moment, NAMES.len()) {
            self.watch(&name);
        }
        for (number, text) in NAMES.iter().enumerate() {
            let view = self.view(&crate::world::name(text));
            for hold in holds(&view) {
                let Some(max_hold) = hold.max_hold else {
                    continue;
                };
                let clients = self.clients.iter();
                let mut own = clients.filter(|client| client.name == hold.client_name.as_str());
                let ttl = own.next().map_or(micros(LONGEST_TTL), |client| client.ttl);
                let began = self.ledger.names[number].holds.get(&hold.token);
                let Some((began, _)) = began else { continue };
                // A hand-off counts from when it was confirmed. A client that does not know of the bound believes in the hold for
                // a TTL at most.
                let slack = micros(CLAIM_TIME).max(ttl) + ttl + LONGEST_DELAY;
                let ends_at = began + micros(max_hold) + slack;
                assert!(
                    *began <= self.stepped_at.max(self.lost_at) || self.now <= ends_at,
                    "at {}, {text} is held beyond its bound, at the latest {ends_at}: {hold:?}",
                    self.now
                );
            }
        }
    }

    /// Forgets lock-delays that are over. When the clock has stepped back, they do not begin again.
    pub(crate) fn forget_delays(&mut self) {
        let now = self.store_time();
        for entry in &mut self.ledger.names {
            entry.closed_until.take_if(|until| *until <= now);
        }
    }

    /// Forgets what the store has lost: its records of tokens, and the state that watchers know.
    pub(crate) fn forget_writes(&mut self) {
        self.ledger.mirror = Mirror::default();
        for (number, text) in NAMES.iter().enumerate() {
            let entry = &mut self.ledger.names[number];
            *entry = Entry {
                lost: entry.newest.max(entry.lost),
                ..Entry::default()
            };
            let name = crate::world::name(text);
            let view = self.view(&name);
            let at = self.store_time();
            for hold in holds(&view) {
                let ends_at = at.after(hold.expires_in);
                let holds = &mut self.ledger.names[number].holds;
                holds.insert(hold.token, (0, ends_at));
            }
            self.watch(&name);
        }
    }

    /// Has watchers look at a name.
    fn watch(&mut self, name: &LockName) {
        let (at, moment) = (self.store_time(), self.moment());
        let (_, telling) = self.store.table.apply_and_tell(&looks(name), at);
        self.ledger.mirror.tell(name, at, telling, moment);
    }

    /// Fails if a session goes on renewing a hold when it has been held for as long as it may be. One whose coordinator hung at that
    /// moment may do so once more.
    pub(crate) fn check_bound(&self, coordinator: usize, owner: &OwnerId) {
        let Some(ends_at) = self.ledger.bounds.get(owner) else {
            return;
        };
        let has_hung = self.coordinators[coordinator].hung_until >= *ends_at;
        assert!(
            has_hung || self.now <= *ends_at,
            "at {}, a hold is renewed that had to end at {ends_at}",
            self.now
        );
    }

    /// Notes a hand-off of which a waiter's coordinator is told.
    pub(crate) fn note_hand_off(&mut self, run: Run, owner: OwnerId) {
        self.ledger.untold.insert(owner, (run, self.now));
    }

    /// Fails if a waiter's coordinator has not heard of a hand-off, though nothing goes wrong.
    pub(crate) fn check_told(&mut self) {
        if !self.is_prompt {
            return self.ledger.untold.clear();
        }
        let (now, coordinators) = (self.now, &self.coordinators);
        self.ledger.untold.retain(|owner, (run, at)| {
            let coordinator = &coordinators[run.0];
            let waits = coordinator.runs == run.1 && coordinator.registry.waits(owner);
            assert!(
                !waits || now - *at <= TOLD_WITHIN,
                "a waiter at coordinator {} has not heard of a hand-off that was made at {at}",
                run.0
            );
            waits
        });
    }
}

/// Returns the holds in a view.
pub(crate) fn holds(view: &NameView) -> impl Iterator<Item = &HoldView> {
    view.holders.iter().filter_map(|holder| match holder {
        HolderView::Ours(hold) => Some(&**hold),
        HolderView::Foreign { .. } => None,
    })
}

/// Returns a watcher's look at a name.
fn looks(name: &LockName) -> Command {
    let feed = leasehold_core::id::FeedId::new(1);
    crate::store::command_of("watcher", name, Op::Look { feed })
}
