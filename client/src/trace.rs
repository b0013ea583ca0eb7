//! The trace that a request is part of.

use std::{fmt, str::FromStr, sync::Arc, thread};

use tonic::codegen::http::{HeaderMap, HeaderValue};

/// Flags that are sent: sampled, and random trace id. The others mean nothing yet, and are sent as zero.
const KNOWN_FLAGS: u8 = 0b11;
const SAMPLED: u8 = 0b01;

/// Longest state of vendors, in bytes: as much as W3C asks every party to pass on at least.
const LONGEST_STATE: usize = 512;

/// Trace of a request, and the span that the request is part of: the `traceparent` of [W3C Trace
/// Context](https://www.w3.org/TR/trace-context/), with its `tracestate` if there is one.
///
/// A coordinator that exports traces makes its own span of the request a part of that one, if it is sampled, and none if it
/// is not.
///
/// ```
/// use leasehold_client::TraceContext;
///
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context: TraceContext = text.parse()?;
/// assert!(context.is_sampled());
/// assert_eq!(context.to_string(), text);
/// # Ok::<(), leasehold_client::TraceContextError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
    state: Option<Arc<str>>,
}

/// Error of a text that is no trace context.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
#[error(
    "expected a W3C traceparent in lower case, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, with neither id zero"
)]
pub struct TraceContextError;

impl TraceContext {
    /// Returns the context of a span: the ids in the order in which they are written, and the flags, whose lowest bit says that
    /// the span is sampled. `None` if one of the ids is zero, which is OpenTelemetry's mark for the absence of a context.
    ///
    /// ```
    /// use leasehold_client::TraceContext;
    ///
    /// assert!(TraceContext::new([1; 16], [2; 8], 1).unwrap().is_sampled());
    /// assert_eq!(TraceContext::new([0; 16], [2; 8], 1), None);
    /// ```
    #[must_use]
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8], flags: u8) -> Option<Self> {
        let is_none = trace_id == [0; 16] || span_id == [0; 8];
        (!is_none).then_some(Self {
            trace_id,
            span_id,
            flags: flags & KNOWN_FLAGS,
            state: None,
        })
    }

    /// Returns the same context with the data of vendors (`tracestate`). It goes with calls, but not with requests on a
    /// session, which have no room for it. A state that is longer than 512 bytes, or contains other characters than visible
    /// ASCII and spaces, is left out, as W3C demands.
    ///
    /// ```
    /// use leasehold_client::TraceContext;
    ///
    /// let context = TraceContext::new([1; 16], [2; 8], 1).unwrap().with_state("ot=th:8");
    /// assert_eq!(context.state(), Some("ot=th:8"));
    /// ```
    #[must_use]
    pub fn with_state(mut self, state: impl AsRef<str>) -> Self {
        let state = state.as_ref().trim();
        let can_be_sent = (1..=LONGEST_STATE).contains(&state.len())
            && state.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        self.state = can_be_sent.then(|| state.into());
        self
    }

    /// Returns whether the caller's span is recorded, and the coordinator's with it.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the state that vendors have attached.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

/// Writes it as `traceparent`, in version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trace_id = u128::from_be_bytes(self.trace_id);
        let span_id = u64::from_be_bytes(self.span_id);
        write!(f, "00-{trace_id:032x}-{span_id:016x}-{:02x}", self.flags)
    }
}

/// Parses a `traceparent`. Of later versions than 00 it takes the part that they have in common with 00.
impl FromStr for TraceContext {
    type Err = TraceContextError;

    fn from_str(text: &str) -> Result<Self, TraceContextError> {
        read(text.trim()).ok_or(TraceContextError)
    }
}

fn read(text: &str) -> Option<TraceContext> {
    let mut parts = text.splitn(5, '-');
    let mut number = |digits: usize| {
        let is_lower_hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let part = parts.next().filter(|part| part.len() == digits)?;
        let part = part.bytes().all(is_lower_hex).then_some(part)?;
        u128::from_str_radix(part, 16).ok()
    };
    let version = number(2)?;
    let trace_id = number(32)?.to_be_bytes();
    let span_id = u64::try_from(number(16)?).ok()?.to_be_bytes();
    let context = TraceContext::new(trace_id, span_id, u8::try_from(number(2)?).ok()?)?;
    // A later version may have more parts; 255 is no version.
    let is_whole = version != 0 || parts.next().is_none();
    (is_whole && version != 255).then_some(context)
}

/// Source of the trace contexts of requests, if there is one. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct TraceSource(Option<Arc<dyn Fn() -> Option<TraceContext> + Send + Sync>>);

impl TraceSource {
    pub(crate) fn new(source: impl Fn() -> Option<TraceContext> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(source)))
    }

    /// Returns the context of the caller.
    pub(crate) fn current(&self) -> Option<TraceContext> {
        let source = self.0.as_ref()?;
        // A guard that is dropped by a panic asks too, and a second one would end the process.
        if thread::panicking() {
            return None;
        }
        source()
    }

    /// Puts it into the headers of a call, unless that has one already.
    pub(crate) fn fill(&self, headers: &mut HeaderMap) {
        if self.0.is_none() || headers.contains_key("traceparent") {
            return;
        }
        let Some(context) = self.current() else {
            return;
        };
        if let Ok(parent) = HeaderValue::try_from(context.to_string()) {
            headers.insert("traceparent", parent);
        }
        let state = context.state().map(HeaderValue::try_from);
        if let Some(Ok(state)) = state {
            headers.insert("tracestate", state);
        }
    }
}

impl fmt::Debug for TraceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Some(..)" } else { "None" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn sent_contexts_have_version_00() {
        for (given, sent) in [
            (format!("00-{TRACE}-{SPAN}-01"), "01"),
            (format!(" 00-{TRACE}-{SPAN}-00\n"), "00"),
            // What nobody knows the meaning of is not passed on.
            (format!("00-{TRACE}-{SPAN}-ff"), "03"),
            (format!("01-{TRACE}-{SPAN}-01"), "01"),
            (format!("fe-{TRACE}-{SPAN}-01-what-will-be"), "01"),
        ] {
            let context: TraceContext = given.parse().unwrap();
            assert_eq!(context.to_string(), format!("00-{TRACE}-{SPAN}-{sent}"));
            assert_eq!(context.is_sampled(), sent != "00", "{given}");
        }
    }

    #[test]
    fn invalid_contexts_are_none() {
        let zeros = "0".repeat(32);
        for given in [
            String::new(),
            "00".to_owned(),
            "nonsense".to_owned(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0-{TRACE}-{SPAN}-01"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{}-{SPAN}-01", &TRACE[1..]),
            format!("00-{TRACE}-{SPAN}00-01"),
            format!("00-+{}-{SPAN}-01", &TRACE[1..]),
            format!("00-{}é-{SPAN}-01", &TRACE[2..]),
        ] {
            assert_eq!(given.parse::<TraceContext>(), Err(TraceContextError));
        }
    }

    #[test]
    fn a_state_that_cannot_be_sent_is_left_out() {
        let context = || TraceContext::new([1; 16], [2; 8], 1).unwrap();
        assert_eq!(context().with_state(" a=b,c=d ").state(), Some("a=b,c=d"));
        let long = "a".repeat(LONGEST_STATE + 1);
        for bad in ["", " ", "a=\u{7}", "a=ü", &long] {
            assert_eq!(context().with_state(bad), context());
        }
    }

    #[test]
    fn a_call_that_has_a_context_keeps_it() {
        let context = || Some(TraceContext::new([1; 16], [2; 8], 1)?.with_state("a=b"));
        let source = TraceSource::new(context);
        let mut headers = HeaderMap::new();
        source.fill(&mut headers);
        assert_eq!(headers["traceparent"], context().unwrap().to_string());
        assert_eq!(headers["tracestate"], "a=b");
        let own = HeaderValue::from_static("of its own");
        let mut headers = HeaderMap::from_iter([("traceparent".parse().unwrap(), own.clone())]);
        source.fill(&mut headers);
        assert_eq!(headers.len(), 1);
        assert_eq!(headers["traceparent"], own);
        let mut headers = HeaderMap::new();
        TraceSource::new(|| None).fill(&mut headers);
        assert!(headers.is_empty());
    }
}
