//! Layers in front of all services, which differ only in what they do with a call.

use tower::Layer;

/// Layer that puts a `T` in front of a service.
#[derive(Clone, Debug)]
pub struct Front<T>(pub(crate) T);

/// Service behind a [`Front`]. Each `T` implements tower's `Service` for it.
#[derive(Clone, Debug)]
pub struct Behind<T, S> {
    pub(crate) front: T,
    pub(crate) inner: S,
}

impl<T: Clone, S> Layer<S> for Front<T> {
    type Service = Behind<T, S>;

    fn layer(&self, inner: S) -> Behind<T, S> {
        Behind {
            front: self.0.clone(),
            inner,
        }
    }
}
