//! Files of certificates and of tokens.

use std::{fmt::Write as _, fs, path::Path};

use leasehold_server::access::tokens::new_token;
use leasehold_tests::certificates::{Issued, replace};

pub(super) fn write_tokens<'a>(file: &Path, lines: impl Iterator<Item = &'a (usize, String)>) {
    let text = lines.fold(String::new(), |mut text, (_, line)| {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{line}");
        text
    });
    replace(file, &text);
}

/// Puts a certificate and its key into files of a folder.
pub(super) fn put(issued: &Issued, folder: &Path, files: [&str; 2]) {
    for (from, to) in [&issued.cert, &issued.key].into_iter().zip(files) {
        replace(&folder.join(to), &read(from));
    }
}

pub(super) fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("the file can be read")
}

/// Returns a new token, and its line for the token file.
pub(super) fn token(name: &str) -> (String, String) {
    let text = new_token(name).expect("a token can be made");
    let (token, line) = text.trim_end().split_once('\n').expect("two lines");
    (token.to_owned(), line.to_owned())
}
