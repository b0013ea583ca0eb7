//! Reports of errors on standard error, as text or as JSON.

use leasehold_client::{Endpoints, Failure};

use crate::{
    exit::{explained, is_of_coordinator},
    say::say,
    show::error::Error,
};

/// Reports an error on standard error, with its causes: in words, or as a JSON document.
pub(crate) fn report(error: &anyhow::Error, as_json: bool) {
    if as_json {
        Error::new(error).print();
    } else {
        say(explained(error));
    }
}

/// Reports an error of the coordinators at these endpoints, and names them: in words, or as a JSON document.
pub(crate) fn report_at(endpoints: &Endpoints, error: &anyhow::Error, as_json: bool) {
    if as_json {
        return Error::at(endpoints, error).print();
    }
    let mut message = explained(error);
    let mut urls = endpoints.urls().iter();
    if is_of_coordinator(error) && !urls.any(|url| message.contains(url)) {
        let failure = error.chain().find_map(|cause| cause.downcast_ref());
        let asked = failure.and_then(Failure::endpoint);
        let at = asked.unwrap_or(endpoints.as_str());
        message = format!("{message} (coordinator: {at})");
    }
    say(message);
}
