//! Parser of the Redis protocol (versions 2 and 3): the end of each message, and its words.

use std::str;

/// Returns the length of the first message in `bytes`; `None` while a part of it is missing.
///
/// # Panics
///
/// If this is not the Redis protocol.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    end_of_value(bytes, 0)
}

/// Returns the bulk and simple strings of a message that is an array or a push, without those of arrays in it.
pub(super) fn words(message: &[u8]) -> Vec<&[u8]> {
    let mut words = Vec::new();
    let Some(mut at) = end_of_line(message, 0) else {
        return words;
    };
    while at < message.len() {
        let (Some(line), Some(end)) = (end_of_line(message, at), end_of_value(message, at)) else {
            break;
        };
        match message[at] {
            b'$' if end > line => words.push(&message[line..end - 2]),
            b'+' => words.push(&message[at + 1..end - 2]),
            _ => {}
        }
        at = end;
    }
    words
}

fn end_of_line(bytes: &[u8], at: usize) -> Option<usize> {
    let line = bytes.get(at..)?.windows(2).position(|two| two == b"\r\n")?;
    Some(at + line + 2)
}

fn end_of_value(bytes: &[u8], at: usize) -> Option<usize> {
    let line = end_of_line(bytes, at)?;
    let number = || {
        str::from_utf8(&bytes[at + 1..line - 2])
            .ok()
            .and_then(|digits| digits.parse::<i64>().ok())
            .unwrap_or_else(|| panic!("no length in {:?}", bytes[at..line].escape_ascii()))
    };
    // Below zero is nil.
    let number = || usize::try_from(number()).ok();
    let values = |count: usize| (0..count).try_fold(line, |at, _| end_of_value(bytes, at));
    match bytes[at] {
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => Some(line),
        b'$' | b'!' | b'=' => {
            let end = number().map_or(line, |length| line + length + 2);
            (end <= bytes.len()).then_some(end)
        }
        b'*' | b'~' | b'>' => values(number().unwrap_or(0)),
        b'%' => values(2 * number().unwrap_or(0)),
        // Attributes go ahead of the value that they are about.
        b'|' => values(2 * number().unwrap_or(0) + 1),
        _ => panic!(
            "not of the Redis protocol: {:?}",
            bytes[at..line].escape_ascii()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_where_they_end() {
        for message in [
            &b"+OK\r\n"[..],
            b"-ERR no\r\n",
            b":12\r\n",
            b"$-1\r\n",
            b"$0\r\n\r\n",
            b"$4\r\n\r\n\r\n\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*3\r\n$2\r\nab\r\n*2\r\n:1\r\n$-1\r\n+x\r\n",
            b"%1\r\n+key\r\n_\r\n",
            b"|1\r\n+key\r\n#t\r\n$1\r\nx\r\n",
            b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\n\r\n\r\n",
        ] {
            for part in 0..message.len() {
                assert_eq!(length(&message[..part]), None, "{part}");
            }
            assert_eq!(length(message), Some(message.len()));
            let more = [message, b"*1\r\n"].concat();
            assert_eq!(length(&more), Some(message.len()));
        }
    }

    #[test]
    fn words_are_those_of_the_message_itself() {
        let message = b"*5\r\n$2\r\nab\r\n*1\r\n$1\r\nz\r\n+x\r\n$-1\r\n$2\r\n\r\n\r\n";
        assert_eq!(words(message), [&b"ab"[..], b"x", b"\r\n"]);
        assert!(words(b"*0\r\n").is_empty());
    }
}
