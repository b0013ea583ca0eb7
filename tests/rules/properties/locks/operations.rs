//! Operations of deeds, as commands carry them.

use std::sync::Arc;

use leasehold_core::{
    command::{Acquire, Op, ReleaseRequest, Resume},
    id::ReleaseRequestId,
    name::{ReleaseReason, Value},
};

use crate::locks::{
    history::{Asked, Deed, Owner},
    steps::Ask,
};

/// Returns the operation of a deed, given all that was asked.
pub(crate) fn operation(deed: Deed, asked: &[Asked]) -> Op {
    match deed {
        Deed::Acquire(owner, wait) => acquire(owner, wait, asked),
        Deed::Renew(owner, ttl) => Op::Renew {
            token: None,
            owner: owner.id(),
            ttl,
        },
        Deed::Release(owner, end) => Op::Release {
            owner: owner.id(),
            end,
        },
        Deed::Refresh(oldest) => Op::Refresh {
            oldest: oldest.map(Owner::id),
        },
        Deed::Force => Op::ForceRelease,
        Deed::ForceOne(one) => Op::ForceReleaseOne(one),
        Deed::RequestRelease(only) => Op::RequestRelease {
            only,
            request: Arc::new(ReleaseRequest {
                id: ReleaseRequestId::new(7),
                reason: ReleaseReason::default(),
                within: None,
            }),
        },
        Deed::Downgrade(owner) => Op::Downgrade { owner: owner.id() },
        Deed::Reduce(owner, permits) => Op::Reduce {
            owner: owner.id(),
            permits,
        },
        Deed::SetCount(owner, count) => Op::SetCount {
            owner: owner.id(),
            count,
        },
        Deed::SetValue(owner, value) => Op::SetValue {
            owner: owner.id(),
            value: value_of(value),
        },
        Deed::Resume(resumption) => {
            let next = resumption.next;
            Op::Resume(Resume {
                from: resumption.former().map(Owner::id).collect(),
                next: next.id(),
                session: Some(next.session()),
                client_name: next.client_name(),
                ttl: asked[next.0].ask.ttl,
                count: next.count(),
                max_hold: None,
            })
        }
    }
}

fn acquire(owner: Owner, wait: bool, asked: &[Asked]) -> Op {
    let Ask {
        mode,
        ttl,
        lock_delay,
        unary,
        ..
    } = asked[owner.0].ask;
    Op::Acquire(Acquire {
        owner: owner.id(),
        session: (!unary).then(|| owner.session()),
        actor: asked[owner.0].actor,
        client_name: owner.client_name(),
        mode,
        value: value_of(0),
        ttl,
        lock_delay,
        max_hold: None,
        wait,
        // No stream resumes what was never asked.
        again: true,
    })
}

/// Returns a value of this many bytes.
pub(crate) fn value_of(bytes: usize) -> Value {
    Value::parse(&vec![0; bytes]).unwrap()
}
