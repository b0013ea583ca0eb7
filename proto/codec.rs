//! Codec of the generated code: that of prost, with small buffers.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec as TonicCodec};
use tonic_prost::ProstCodec;

/// Bytes of memory that a call has for what it reads, and for what it writes, from its beginning. A session has both for as long as it
/// lives, and is idle for most of it; its messages take some ten bytes, and the buffers grow for those that take more. Tonic's default
/// is eight times as much.
const BUFFER: usize = 1024;
/// Bytes of messages after which a stream hands what it has over for sending, though it has more. This is tonic's default.
const ENOUGH: usize = 32 * 1024;

/// Encodes messages of type `T`, and decodes those of type `U`.
#[derive(Clone, Copy, Debug)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> TonicCodec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as TonicCodec>::Encoder;
    type Decoder = <ProstCodec<T, U> as TonicCodec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(buffers())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(buffers())
    }
}

fn buffers() -> BufferSettings {
    BufferSettings::new(BUFFER, ENOUGH)
}
