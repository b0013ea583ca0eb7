//! Static bearer tokens, as a file lists them: by name, and by their hashes alone.

use std::{
    fmt::{self, Write},
    path::Path,
    time::SystemTime,
};

use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::name::check_name;
use crate::config::unreadable;

/// Prefix of every token, by which secret scanners recognize one.
const MARK: &str = "lh_";
/// Random bytes of a token.
const SECRET: usize = 32;

/// The SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    pub(super) fn of(token: &str) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(hash)
    }

    fn parse(hex: &str) -> Option<Self> {
        if hex.len() != 64 || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&hex[at..at + 2], 16).ok()?;
        }
        Some(Self(hash))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

/// The tokens of a file.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Vec<Entry>);

/// A token.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name of its identity.
    pub name: String,
    /// Its hash.
    pub hash: TokenHash,
    /// Time of its expiry.
    pub expires: Option<SystemTime>,
}

impl Tokens {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// If it can't be read, or a line is malformed; the error says which line, and shows nothing of it.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| unreadable("token-file", path, None, error))?;
        Self::parse(&text)
            .map_err(|(line, message)| unreadable("token-file", path, Some(line), message))
    }

    pub(super) fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut entries: Vec<Entry> = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = Entry::parse(line).map_err(|message| (number, message))?;
            // A name may have several tokens, so that one can be replaced by another without a gap.
            if entries.iter().any(|other| other.hash == entry.hash) {
                let message = "this token is listed before; expected each once".to_owned();
                return Err((number, message));
            }
            entries.push(entry);
        }
        Ok(Self(entries))
    }

    /// Returns the entry of a token. Takes the same time for every token, listed or not.
    pub fn find(&self, token: &str) -> Option<&Entry> {
        let hash = TokenHash::of(token);
        let mut found = 0_u64;
        for (entry, number) in self.0.iter().zip(1_u64..) {
            let is_it: Choice = entry.hash.0.ct_eq(&hash.0);
            found.conditional_assign(&number, is_it);
        }
        let at = usize::try_from(found).ok()?.checked_sub(1)?;
        self.0.get(at)
    }

    /// Returns the entry with this name and hash.
    pub fn listed(&self, name: &str, hash: &TokenHash) -> Option<&Entry> {
        self.0
            .iter()
            .find(|entry| entry.name == name && entry.hash == *hash)
    }
}

impl Entry {
    fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        check_name(name)?;
        if name.contains('*') {
            return Err(
                "expected a name without `*`, which stands for any rest in rules".to_owned(),
            );
        }
        let hash = words.next().and_then(|word| word.strip_prefix("sha256:"));
        let hash = hash.and_then(TokenHash::parse).ok_or_else(|| {
            "expected a name and sha256: with 64 hexadecimal digits behind it, as `leasehold-server new-token` prints them"
                .to_owned()
        })?;
        let mut expires = None;
        for word in words {
            let time = word.strip_prefix("expires=").filter(|_| expires.is_none());
            let time = time.and_then(|time| humantime::parse_rfc3339(time).ok());
            expires = Some(time.ok_or_else(|| {
                "expected nothing more than expires= with a time such as 2030-01-31T12:00:00Z"
                    .to_owned()
            })?);
        }
        Ok(Self {
            name: name.to_owned(),
            hash,
            expires,
        })
    }
}

/// Returns a new token for a name, and its line for the token file: one line each.
///
/// # Errors
///
/// If the name is not valid, or the system gives no random bytes.
pub fn new_token(name: &str) -> Result<String, String> {
    let mut secret = [0_u8; SECRET];
    SystemRandom::new()
        .fill(&mut secret)
        .map_err(|_| "the system gave no random bytes; try again".to_owned())?;
    let token = format!("{MARK}{}", hex(&secret));
    let line = format!("{name} sha256:{}", hex(&TokenHash::of(&token).0));
    // The token file would not read it back.
    if name.contains(char::is_whitespace) || name.starts_with('#') {
        return Err(format!(
            "expected a name without spaces that does not begin with `#`; found {name:?}"
        ));
    }
    Entry::parse(&line)?;
    Ok(format!("{token}\n{line}\n"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{Tokens, new_token};

    const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_new_token_is_let_in_by_its_line_and_no_other_is() {
        let (one, two) = (new_token("ci").unwrap(), new_token("ci").unwrap());
        let (token, line) = one.trim_end().split_once('\n').unwrap();
        let (other, second) = two.trim_end().split_once('\n').unwrap();
        assert!(token.starts_with("lh_") && token.len() == 3 + 64);
        assert_ne!(token, other);
        let tokens = Tokens::parse(&format!("# who\n\n{line}\n  {second}")).unwrap();
        assert_eq!(tokens.find(token).unwrap().name, "ci");
        let found = tokens.find(other).unwrap();
        assert_eq!(tokens.listed("ci", &found.hash).unwrap().hash, found.hash);
        let hash = line.split_once("sha256:").unwrap().1;
        let (longer, upper) = (format!("{token} "), token.to_uppercase());
        for wrong in ["", "lh_", &token[..66], &token[1..], &longer, &upper, hash] {
            assert!(tokens.find(wrong).is_none(), "{wrong}");
        }
        let found = tokens.find(token).unwrap();
        assert!(tokens.listed("cd", &found.hash).is_none());
        assert!(Tokens::default().find(token).is_none());
        for wrong in ["", "a b", "a\tb", "a*", "#a", "a\nb sha256:00"] {
            assert!(new_token(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_hash_is_plain_sha256_and_a_token_may_be_anybodys_own() {
        let hash = HASH.to_uppercase();
        let line = format!("own sha256:{hash} expires=2030-01-01T00:00:00Z");
        let tokens = Tokens::parse(&line).unwrap();
        let expires = UNIX_EPOCH + Duration::from_secs(1_893_456_000);
        assert_eq!(tokens.find("abc").unwrap().expires, Some(expires));
        assert!(!format!("{tokens:?}").contains("ba78"));
    }

    #[test]
    fn faults_of_a_line_are_reported_with_its_number() {
        let twice = format!("ci sha256:{HASH}\ncd sha256:{HASH}");
        for (text, line, says) in [
            ("ci".to_owned(), 1, "sha256:"),
            (format!("\n# x\nci {HASH}"), 3, "sha256:"),
            (format!("ci sha256:{}", &HASH[1..]), 1, "64 hexadecimal"),
            (format!("ci sha256:+{}", &HASH[1..]), 1, "64 hexadecimal"),
            (format!("ci sha256:{HASH} expires=soon"), 1, "2030-01-31"),
            (format!("ci sha256:{HASH} then"), 1, "nothing more"),
            (format!("c* sha256:{HASH}"), 1, "without `*`"),
            (twice, 2, "listed before"),
        ] {
            let (number, message) = Tokens::parse(&text).unwrap_err();
            assert_eq!(number, line, "{text}");
            assert!(message.contains(says), "{message}");
            assert!(!message.contains("ba78"), "{message}");
        }
    }
}
