//! The bearer token: what a caller shows to be known.

use std::{path::PathBuf, str};

use tonic::codegen::http::HeaderValue;

use super::files::{FromFiles, read};
use crate::error::CredentialsError;

/// Longest token, in bytes: coordinators take this much as one header, and no JWT should have more.
const LONGEST: usize = 8 << 10;

/// Source of the token.
#[derive(Clone)]
pub(crate) enum TokenSource {
    Given(String),
    File(PathBuf),
}

/// A token as it is shown.
pub(super) enum Token {
    Given(HeaderValue),
    File(FromFiles<HeaderValue>),
}

impl Token {
    pub(super) fn new(source: &TokenSource) -> Result<Self, CredentialsError> {
        match source {
            TokenSource::Given(token) => header(token, "the bearer token").map(Self::Given),
            TokenSource::File(path) => {
                let from = path.clone();
                let make = move || {
                    let what = format!("the bearer token in {}", from.display());
                    let bytes = read(&from)?;
                    // What is no text is no token: an empty one says so.
                    header(str::from_utf8(&bytes).unwrap_or_default(), &what)
                };
                FromFiles::new(vec![path.clone()], make).map(Self::File)
            }
        }
    }

    /// Returns the value of the `authorization` header, by the file's present contents.
    pub(super) fn header(&self) -> HeaderValue {
        match self {
            Self::Given(header) => header.clone(),
            Self::File(header) => header.current(),
        }
    }

    /// Returns a number that rises whenever the file has another token.
    pub(super) fn version(&self) -> u64 {
        match self {
            Self::Given(_) => 0,
            Self::File(header) => header.version(),
        }
    }
}

fn header(token: &str, what: &str) -> Result<HeaderValue, CredentialsError> {
    let token = token.trim();
    let expected = format!("expected 1 to {LONGEST} visible ASCII characters in one line");
    let invalid = || CredentialsError::invalid(what, &expected);
    let visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    if token.is_empty() || token.len() > LONGEST || !visible {
        return Err(invalid());
    }
    let mut header = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| invalid())?;
    // Shown in no log, and kept out of what HTTP/2 remembers of headers.
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_and_is_not_shown() {
        let given = |token: &str| Token::new(&TokenSource::Given(token.to_owned()));
        let token = given(" lh_secret\n").unwrap();
        assert_eq!(token.header(), "Bearer lh_secret");
        assert!(!format!("{:?}", token.header()).contains("secret"));
        let long = "a".repeat(LONGEST + 1);
        for bad in ["", " \n", "two words", "two\nlines", "tökén", &long] {
            let error = given(bad).err().unwrap().to_string();
            let begins = "the bearer token can't be used: ";
            assert!(error.starts_with(begins), "{error}");
            let bad = bad.trim();
            assert!(bad.is_empty() || !error.contains(bad), "{error}");
        }
    }

    #[test]
    fn a_token_file_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, "first\n").unwrap();
        let token = Token::new(&TokenSource::File(path.clone())).unwrap();
        assert_eq!(token.header(), "Bearer first");
        std::fs::write(&path, "other\n").unwrap();
        assert_eq!(token.header(), "Bearer other");
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert_eq!(token.header(), "Bearer other");
        assert!(token.header().is_sensitive());
    }
}
