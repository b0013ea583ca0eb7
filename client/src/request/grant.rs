//! Guards that a request can be granted: of one lock, of several, or of permits.

use crate::{
    guard::{LockGuard, LockWatch},
    guards::LockGuards,
    permit::SemaphorePermit,
};

/// Guard that a [`LockRequest`](crate::LockRequest) is granted. This trait is sealed: [`LockGuard`], [`LockGuards`] and [`SemaphorePermit`]
/// implement it.
pub trait Grant: sealed::Sealed + Send + Sized + 'static {
    /// View of the hold for work that runs under it.
    type Watch;

    /// Makes the guard; none if there is nothing to guard.
    #[doc(hidden)]
    fn granted(guards: Vec<LockGuard>) -> Option<Self>;

    #[doc(hidden)]
    fn watch(&self) -> Self::Watch;

    #[doc(hidden)]
    fn into_guards(self) -> Vec<LockGuard>;
}

mod sealed {
    use crate::{guard::LockGuard, guards::LockGuards, permit::SemaphorePermit};

    pub trait Sealed {}

    impl Sealed for LockGuard {}
    impl Sealed for LockGuards {}
    impl Sealed for SemaphorePermit {}
}

impl Grant for LockGuard {
    type Watch = LockWatch;

    fn granted(mut guards: Vec<LockGuard>) -> Option<Self> {
        guards.pop()
    }

    fn watch(&self) -> LockWatch {
        self.watch()
    }

    fn into_guards(self) -> Vec<LockGuard> {
        vec![self]
    }
}

impl Grant for LockGuards {
    type Watch = Vec<LockWatch>;

    fn granted(guards: Vec<LockGuard>) -> Option<Self> {
        Some(Self::new(guards))
    }

    fn watch(&self) -> Vec<LockWatch> {
        self.watches()
    }

    fn into_guards(self) -> Vec<LockGuard> {
        self.into_guards()
    }
}

impl Grant for SemaphorePermit {
    type Watch = LockWatch;

    fn granted(mut guards: Vec<LockGuard>) -> Option<Self> {
        guards.pop().map(Self::new)
    }

    fn watch(&self) -> LockWatch {
        self.watch()
    }

    fn into_guards(self) -> Vec<LockGuard> {
        vec![self.into_guard()]
    }
}
