//! Conversion of a resume: the request from protobuf, and the answer to it.

use std::{collections::HashSet, time::Duration};

use leasehold_core::{
    id::{FencingToken, OwnerId},
    session::{LostLock, LostWhy, Resumed, Resumption, Wait},
};
use leasehold_proto::v1::{
    self, ResumedHold, ResumedLock, ResumedWait, SessionOpened, SessionResume, session_resume,
};

use super::fields::{FieldBounds, duration, lock_name, owner_id, wait};
use crate::{
    access::rules::{Granted, Permission, Place},
    limits::too_many_locks,
    status::Refusal,
};

/// Most owner ids of attempts that were not answered.
const MAX_TRIED: usize = 64;
/// The greatest token there can be: beyond it, not every whole number is one in Redis.
const MAX_TOKEN: i64 = 1 << 53;
/// Most locks of one `opened`: so many names of the longest kind stay below 1 MiB.
const LOCKS_OF_ONE: usize = 1000;

/// Checks a session's grace; none if unset.
pub fn disconnect_grace(
    field: &str,
    grace: Option<prost_types::Duration>,
    ttl: Duration,
) -> Result<Duration, Refusal> {
    let grace = duration(field, grace)?.unwrap_or_default();
    if grace > ttl {
        let what = format!("must be at most the session's TTL of {ttl:?}, not {grace:?}");
        return Err(Refusal::field(field, what));
    }
    Ok(grace)
}

/// Everything that a stream is to resume, which may come in several messages.
#[derive(Debug, Default)]
pub struct Resumptions {
    list: Vec<Resumption>,
    /// Every owner id that the entries so far name.
    named: HashSet<OwnerId>,
    requests: HashSet<u64>,
}

impl Resumptions {
    /// Takes in what one message asks for; fields are named by their number among all. `open` is the request id of the
    /// `open`.
    pub fn add(
        &mut self,
        resume: Vec<SessionResume>,
        open: u64,
        limit: usize,
        bounds: FieldBounds<'_>,
    ) -> Result<(), Refusal> {
        if self.list.len() + resume.len() > limit {
            return Err(too_many_locks(0, self.list.len() + resume.len(), limit));
        }
        for resume in resume {
            let field = format!("open.resume[{}]", self.list.len());
            let resumption = self.resumption(&field, resume, open, bounds)?;
            self.list.push(resumption);
        }
        Ok(())
    }

    /// Returns the entries that the client may resume, and the answers to the others. The locks of the others are left alone:
    /// the answer does not depend on whether there is such a lock, and who holds it.
    ///
    /// What is held of an election is an exclusive hold. If a name may be resumed only as that, and is held in another mode, the
    /// hold is lost when its mode is known.
    pub fn finish(self, granted: &Granted) -> (Vec<Resumption>, Vec<LostLock>) {
        let may_be = |name: &str| granted.permits(Permission::Acquire, Place::Either, name);
        let all = self.list.into_iter();
        let (mut permitted, denied): (Vec<_>, Vec<_>) =
            all.partition(|resumption| may_be(resumption.name.as_str()));
        for resumption in &mut permitted {
            resumption.max_hold = granted.max_hold(Place::Either, resumption.name.as_str());
        }
        let denied = denied.into_iter().map(|resumption| LostLock {
            name: resumption.name,
            owner: resumption.next,
            why: LostWhy::Revoked,
        });
        (permitted, denied.collect())
    }

    fn resumption(
        &mut self,
        field: &str,
        resume: SessionResume,
        open: u64,
        bounds: FieldBounds<'_>,
    ) -> Result<Resumption, Refusal> {
        let name = lock_name(&format!("{field}.name"), &resume.name, bounds.store)?;
        let tried = &resume.tried_owner_ids;
        if tried.len() > MAX_TRIED {
            let what = format!("must be at most {MAX_TRIED} owner ids, not {}", tried.len());
            return Err(Refusal::field(&format!("{field}.tried_owner_ids"), what));
        }
        let mut from = Vec::with_capacity(1 + tried.len());
        from.push(self.former(&format!("{field}.owner_id"), &resume.owner_id)?);
        for (number, tried) in tried.iter().enumerate() {
            let field = format!("{field}.tried_owner_ids[{number}]");
            from.push(self.former(&field, tried)?);
        }
        let next_field = format!("{field}.next_owner_id");
        let next = OwnerId::parse(&resume.next_owner_id).ok_or_else(|| {
            let what = format!(
                "must be 16 random bytes, not {} bytes",
                resume.next_owner_id.len()
            );
            Refusal::field(&next_field, what)
        })?;
        if from.contains(&next) || self.named.contains(&next) {
            let what = "must be made for this entry: this entry or another one names it already";
            return Err(Refusal::field(&next_field, what));
        }
        let what = match resume.what {
            Some(session_resume::What::Hold(hold)) => held(field, hold)?,
            Some(session_resume::What::Wait(waits)) => {
                self.wait(field, waits, open, bounds.max_wait)?
            }
            None => {
                let what = "must say what is resumed: `hold` or `wait`";
                return Err(Refusal::field(&format!("{field}.hold"), what));
            }
        };
        self.named.extend(from.iter().copied().chain([next]));
        Ok(Resumption {
            name,
            from,
            next,
            max_hold: None,
            what,
        })
    }

    /// Checks an owner id under which the client may hold or wait for the lock. Fails if another entry names it, because a
    /// chain of entries could resume one lock again and again.
    fn former(&self, field: &str, bytes: &[u8]) -> Result<OwnerId, Refusal> {
        let owner = owner_id(field, bytes)?;
        if self.named.contains(&owner) {
            let what = "must be named by one entry alone; another entry names it already";
            return Err(Refusal::field(field, what));
        }
        Ok(owner)
    }

    fn wait(
        &mut self,
        field: &str,
        waits: ResumedWait,
        open: u64,
        max: Duration,
    ) -> Result<Resumed, Refusal> {
        let request_id = waits.acquire_request_id;
        if request_id == 0 {
            let field = format!("{field}.wait.acquire_request_id");
            let what = "must not be 0: answers under it could not be told apart";
            return Err(Refusal::field(&field, what));
        }
        if request_id == open || !self.requests.insert(request_id) {
            let field = format!("{field}.wait.acquire_request_id");
            let what = format!("must not be that of another request, as {request_id} is");
            return Err(Refusal::field(&field, what));
        }
        let wait = match wait(
            &format!("{field}.wait.wait"),
            waits.wait,
            Wait::Forever,
            max,
        )? {
            // It is in the queue already: it leaves it, unless the lock is its own by now.
            Wait::No => Wait::For(Duration::ZERO),
            wait => wait,
        };
        Ok(Resumed::Wait { request_id, wait })
    }
}

fn held(field: &str, hold: ResumedHold) -> Result<Resumed, Refusal> {
    let token = hold.fencing_token;
    if !(1..=MAX_TOKEN).contains(&token) {
        let what = format!("must be the token that the grant gave, 1 to 2^53, not {token}");
        return Err(Refusal::field(&format!("{field}.hold.fencing_token"), what));
    }
    Ok(Resumed::Hold {
        token: FencingToken::new(token),
        count: hold.hold_count.max(1),
    })
}

/// Returns the answer to an `open`, in messages of bounded size.
pub fn opened_messages(
    opened: SessionOpened,
    resumed: Vec<ResumedLock>,
    refused: Vec<v1::LostLock>,
) -> Vec<SessionOpened> {
    let (mut resumed, mut refused) = (resumed.into_iter(), refused.into_iter());
    let mut messages = Vec::new();
    let mut next = opened;
    loop {
        next.resumed = resumed.by_ref().take(LOCKS_OF_ONE).collect();
        let room = LOCKS_OF_ONE - next.resumed.len();
        next.refused = refused.by_ref().take(room).collect();
        next.more = resumed.len() + refused.len() > 0;
        let rest = next.more.then(SessionOpened::default);
        messages.push(next);
        match rest {
            Some(rest) => next = rest,
            None => return messages,
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic_prost::prost::Message;

    use super::*;

    #[test]
    fn messages_about_many_locks_have_a_bounded_size() {
        let resumed = ResumedLock {
            name: "n".repeat(512),
            owner_id: vec![0xff; 16],
            what: None,
            ends_in: None,
            permits: u32::MAX,
        };
        let refused = v1::LostLock {
            name: "n".repeat(512),
            owner_id: vec![0xff; 16],
            reason: 5,
        };
        for (held, lost) in [(0, 0), (1, 0), (1000, 0), (999, 2), (2500, 700), (0, 1001)] {
            let opened = SessionOpened {
                session_id: "s".to_owned(),
                ..SessionOpened::default()
            };
            let (held_ones, lost_ones) = (vec![resumed.clone(); held], vec![refused.clone(); lost]);
            let messages = opened_messages(opened, held_ones, lost_ones);
            assert_eq!(messages.len(), (held + lost).div_ceil(1000).max(1));
            let is_bounded = |message: &SessionOpened| message.encoded_len() < 1 << 20;
            assert!(messages.iter().all(is_bounded));
            let count = |of: fn(&SessionOpened) -> usize| messages.iter().map(of).sum::<usize>();
            assert_eq!(count(|message| message.resumed.len()), held);
            assert_eq!(count(|message| message.refused.len()), lost);
            let more: Vec<bool> = messages.iter().map(|message| message.more).collect();
            let last = messages.len() - 1;
            assert!((0..=last).all(|number| more[number] == (number < last)));
            assert_eq!(messages[0].session_id, "s");
        }
    }
}
