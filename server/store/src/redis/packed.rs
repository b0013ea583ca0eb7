//! Arguments that scripts unpack from bytes: the details of a hold, the stream that resumes one, and a request to release. Each has
//! the format that the script's file describes; numbers are big-endian.

use std::{
    io::{self, Write},
    time::Duration,
};

use leasehold_core::{
    command::{Acquire, Caller, ReleaseRequest, Resume},
    id::SessionId,
    mode::Mode,
};

/// Length of the extras of a hold, if it has any; with a bound on its time; with a revision of its limit too; and with the fewest
/// permits that its acquire was content with.
const EXTRAS: u8 = 21;
const BOUNDED_EXTRAS: u8 = EXTRAS + 8;
const REVISED_EXTRAS: u8 = BOUNDED_EXTRAS + 4;
const AT_LEAST_EXTRAS: u8 = REVISED_EXTRAS + 4;

/// Writes the details of a hold, in the format of `lua/hold.lua`.
pub(crate) fn details(
    writer: &mut impl Write,
    caller: &Caller,
    acquire: &Acquire,
) -> io::Result<()> {
    writer.write_all(b"c")?;
    writer.write_all(&millis(acquire.lock_delay).to_be_bytes())?;
    sized(writer, caller.coordinator.as_str())?;
    sized_session(writer, acquire.session.as_ref())?;
    extras(writer, acquire)?;
    sized(writer, acquire.client_name.as_str())?;
    writer.write_all(acquire.value.as_bytes())
}

/// Returns the bytes of a session id, or none.
pub(crate) fn session(session: Option<&SessionId>) -> &[u8] {
    session.map_or(&[], |session| session.as_bytes())
}

fn sized_session(writer: &mut impl Write, of: Option<&SessionId>) -> io::Result<()> {
    let bytes = session(of);
    writer.write_all(&[if bytes.is_empty() { 0 } else { 16 }])?;
    writer.write_all(bytes)
}

/// Writes the stream that resumes, in the format of `lua/resume.lua`.
pub(super) fn stream(writer: &mut impl Write, resume: &Resume) -> io::Result<()> {
    writer.write_all(&resume.count.max(1).to_be_bytes())?;
    writer.write_all(&resume.max_hold.map_or(0, millis).to_be_bytes())?;
    sized_session(writer, resume.session.as_ref())?;
    writer.write_all(resume.client_name.as_str().as_bytes())
}

/// Writes a request to release, in the format of `lua/request_release.lua`.
pub(crate) fn release_request(writer: &mut impl Write, request: &ReleaseRequest) -> io::Result<()> {
    writer.write_all(&request.id.get().to_be_bytes())?;
    writer.write_all(&request.within.map_or(0, millis).to_be_bytes())?;
    sized(writer, request.reason.as_str())
}

/// Writes the extras, which most holds lack, after their length.
fn extras(writer: &mut impl Write, acquire: &Acquire) -> io::Result<()> {
    let mode = match acquire.mode {
        Mode::Exclusive if acquire.actor.is_nobody() && acquire.max_hold.is_none() => {
            return writer.write_all(&[0]);
        }
        Mode::Exclusive => b'x',
        Mode::Shared => b's',
        Mode::Semaphore(_) => b'p',
    };
    let limit = acquire.mode.limit();
    let (limit, revision) = limit.map_or((0, 0), |limit| (limit.number, limit.revision));
    let at_least = match acquire.mode {
        Mode::Semaphore(permits) => permits.at_least().unwrap_or(0),
        Mode::Exclusive | Mode::Shared => 0,
    };
    let length = match (acquire.max_hold, revision, at_least) {
        (_, _, 1..) => AT_LEAST_EXTRAS,
        (_, 1.., 0) => REVISED_EXTRAS,
        (Some(_), 0, 0) => BOUNDED_EXTRAS,
        (None, 0, 0) => EXTRAS,
    };
    writer.write_all(&[length, mode])?;
    writer.write_all(&acquire.mode.permits().to_be_bytes())?;
    writer.write_all(&limit.to_be_bytes())?;
    writer.write_all(&acquire.actor.get().to_be_bytes())?;
    // Held once.
    writer.write_all(&1_u32.to_be_bytes())?;
    if length > EXTRAS {
        let max_hold = acquire.max_hold.map_or(0, millis);
        writer.write_all(&max_hold.to_be_bytes())?;
    }
    if length > BOUNDED_EXTRAS {
        writer.write_all(&revision.to_be_bytes())?;
    }
    if length > REVISED_EXTRAS {
        writer.write_all(&at_least.to_be_bytes())?;
    }
    Ok(())
}

/// Writes a text after its length, of at most 64 KiB less one byte.
fn sized(writer: &mut impl Write, text: &str) -> io::Result<()> {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    writer.write_all(&length.to_be_bytes())?;
    writer.write_all(&text.as_bytes()[..usize::from(length)])
}

/// Returns whole milliseconds, rounded up: nothing expires early, and nothing is kept for 0 ms.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}
