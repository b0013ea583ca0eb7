//! Messages with a prefix of five bytes: a byte of flags, and the length. gRPC and Connect's streams have the same.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Flag of a compressed message.
pub(super) const COMPRESSED: u8 = 1;
/// Flag of the last message of a stream of answers in Connect.
pub(super) const END_OF_STREAM: u8 = 2;
/// Bytes of the prefix.
const PREFIX: usize = 5;

/// Error of a message that is longer than permitted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Returns a message with its prefix.
pub(super) fn wrap(flags: u8, message: &[u8]) -> Bytes {
    let mut wrapped = BytesMut::with_capacity(PREFIX + message.len());
    wrapped.put_u8(flags);
    // No message here is as long: the layer bounds those of clients, and tonic those of services.
    wrapped.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    wrapped.put_slice(message);
    wrapped.freeze()
}

/// Takes the first message, with its flags, if all of it has arrived.
///
/// # Errors
///
/// If its prefix announces more than `limit` bytes.
pub(super) fn take(buffer: &mut BytesMut, limit: usize) -> Result<Option<(u8, Bytes)>, TooLong> {
    let Some(&[flags, a, b, c, d]) = buffer.first_chunk() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([a, b, c, d]);
    let length = usize::try_from(length).map_err(|_| TooLong)?;
    if length > limit {
        return Err(TooLong);
    }
    if buffer.len() - PREFIX < length {
        return Ok(None);
    }
    buffer.advance(PREFIX);
    Ok(Some((flags, buffer.split_to(length).freeze())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_once_they_are_complete() {
        let all = [wrap(0, b"one"), wrap(COMPRESSED, b""), wrap(3, b"three")].concat();
        for chunk in 1..all.len() {
            let (mut buffer, mut taken) = (BytesMut::new(), Vec::new());
            for part in all.chunks(chunk) {
                buffer.extend_from_slice(part);
                while let Ok(Some((flags, message))) = take(&mut buffer, 5) {
                    taken.push((flags, message));
                }
            }
            let expected: [(u8, &[u8]); 3] = [(0, b"one"), (1, b""), (3, b"three")];
            assert_eq!(
                taken,
                expected.map(|(flags, message)| (flags, message.into()))
            );
            assert!(buffer.is_empty());
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_by_its_prefix() {
        let mut buffer = BytesMut::from(&[0, 0, 0, 0, 6][..]);
        assert_eq!(take(&mut buffer, 5), Err(TooLong));
        assert_eq!(take(&mut buffer, 6), Ok(None));
        let mut buffer = BytesMut::from(&[0, 255, 255, 255, 255][..]);
        assert_eq!(take(&mut buffer, 5), Err(TooLong));
    }
}
