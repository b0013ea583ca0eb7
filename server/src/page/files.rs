//! Files of the page, embedded in the program.

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Makes the table of files, each with its content type.
macro_rules! files {
    ($($content_type:ident: $($path:literal)+;)+) => {
        const FILES: &[(&str, &str, &str)] = &[$($(
            ($path, $content_type, include_str!(concat!("../../page/", $path))),
        )+)+];
    };
}

files! {
    HTML: "index.html";
    CSS: "base.css" "list.css" "parts.css";
    SVG: "icon.svg";
    SCRIPT:
        "access.js" "address.js" "api.js" "chart.js" "clock.js" "confirm.js" "coordinators.js" "dom.js" "envelope.js" "facts.js"
        "feed.js" "format.js" "history.js" "list.js" "live.js" "look.js" "main.js" "mirror.js" "names.js" "operate.js" "poll.js"
        "rates.js" "read.js" "search.js" "sessions.js" "table.js" "token.js" "words.js"
        "views/election.js" "views/elections.js" "views/events.js" "views/lock.js" "views/locks.js" "views/overview.js"
        "views/parts.js" "views/session.js" "views/sessions.js";
}

/// Returns a file's content type and contents.
pub(super) fn find(path: &str) -> Option<(&'static str, &'static str)> {
    let found = FILES.iter().find(|(name, ..)| *name == path);
    found.map(|(_, content_type, contents)| (*content_type, *contents))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let mut found = Vec::new();
        for place in ["", "views"] {
            for entry in fs::read_dir(folder.join(place)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    let path = path.strip_prefix(&folder).unwrap();
                    found.push(path.to_str().unwrap().to_owned());
                }
            }
        }
        found.sort();
        let mut embedded: Vec<_> = FILES.iter().map(|(path, ..)| *path).collect();
        embedded.sort_unstable();
        assert_eq!(embedded, found);
    }

    #[test]
    fn no_file_names_another_host() {
        for (path, _, contents) in FILES {
            let mut addresses = contents
                .match_indices("://")
                .map(|(at, _)| &contents[at.saturating_sub(5)..]);
            let stranger = addresses.find(|text| !text.contains("://www.w3.org/2000/svg"));
            assert_eq!(stranger, None, "{path}");
        }
    }
}
