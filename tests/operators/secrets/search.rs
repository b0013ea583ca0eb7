//! Search for secrets, in every encoding.

use std::{collections::HashSet, fmt};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};

/// Something that nobody else may learn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Secret {
    /// The kind of secret.
    pub(crate) kind: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// A secret that was found where it does not belong.
pub(crate) struct Found {
    kind: &'static str,
    form: &'static str,
    place: String,
    around: String,
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            form,
            place,
            around,
        } = self;
        write!(f, "{kind} as {form} in {place}: {around:?}")
    }
}

/// Number of bytes of a form that are looked up at once; no form is shorter.
const WINDOW: usize = 12;

/// Returns the forms in which bytes may be written.
fn forms(secret: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![
        ("raw bytes", secret.to_vec()),
        ("upper-case hex", hex.to_uppercase().into_bytes()),
        // Writers differ in whether they pad.
        ("base64", STANDARD_NO_PAD.encode(secret).into_bytes()),
        (
            "base64 for URLs",
            URL_SAFE_NO_PAD.encode(secret).into_bytes(),
        ),
        ("a list of numbers", format!("{secret:?}").into_bytes()),
        (
            "escaped bytes",
            secret.escape_ascii().to_string().into_bytes(),
        ),
        (
            "escaped text",
            format!("{:?}", String::from_utf8_lossy(secret)).into_bytes(),
        ),
        (
            "text",
            String::from_utf8_lossy(secret).into_owned().into_bytes(),
        ),
    ];
    if hex.len() == 32 {
        let parts = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ];
        forms.push(("a UUID", parts.join("-").into_bytes()));
    }
    forms.push(("hex", hex.into_bytes()));
    // Brackets and quotes may not be there.
    for (_, form) in &mut forms {
        if matches!(form.first(), Some(b'[' | b'"')) && form.len() > 2 {
            *form = form[1..form.len() - 1].to_vec();
        }
    }
    forms.retain(|(_, form)| form.len() >= WINDOW);
    forms
}

/// Searches every place for every secret, in every form.
pub(crate) fn all(secrets: &[Secret], places: &[(String, Vec<u8>)]) -> Vec<Found> {
    let mut written = Vec::new();
    for secret in secrets {
        for (name, form) in forms(&secret.bytes) {
            written.push((secret.kind, name, form));
        }
    }
    // Each place is walked through once: what begins like a form is compared with those that begin so.
    let starts: HashSet<&[u8]> = written.iter().map(|(_, _, form)| &form[..WINDOW]).collect();
    let mut found = Vec::new();
    for (place, text) in places {
        for (at, window) in text.windows(WINDOW).enumerate() {
            if !starts.contains(window) {
                continue;
            }
            for (kind, form, bytes) in &written {
                if text[at..].starts_with(bytes) {
                    let from = at.saturating_sub(120);
                    let to = (at + bytes.len() + 40).min(text.len());
                    found.push(Found {
                        kind,
                        form,
                        place: place.clone(),
                        around: String::from_utf8_lossy(&text[from..to]).into_owned(),
                    });
                }
            }
            if found.len() > 20 {
                return found;
            }
        }
    }
    found
}

#[test]
fn a_secret_is_found_however_it_is_written() {
    let bytes: Vec<u8> = (0..16).map(|number| number * 16 + 3).collect();
    let secret = Secret {
        kind: "owner id",
        bytes: bytes.clone(),
    };
    let is_found = |text: &[u8]| {
        let place = ("a log".to_owned(), text.to_vec());
        !all(std::slice::from_ref(&secret), &[place]).is_empty()
    };
    let uuid = "03132333-4353-6373-8393-a3b3c3d3e3f3";
    for text in [
        format!("owner={bytes:?}"),
        format!("owner_id: b\"{}\",", bytes.escape_ascii()),
        format!("owner {uuid}"),
        uuid.replace('-', ""),
        uuid.replace('-', "").to_uppercase(),
        format!("x{}=", STANDARD_NO_PAD.encode(&bytes)),
    ] {
        assert!(is_found(text.as_bytes()), "{text}");
    }
    assert!(is_found(&[b"before ", &bytes[..], b" after"].concat()));
    // What only begins like one is none.
    assert!(!is_found(&uuid.replace('-', "").as_bytes()[..30]));
    let password = Secret {
        kind: "password",
        bytes: b"hunter2-hunter2".to_vec(),
    };
    let place = (
        "an error".to_owned(),
        b"redis://:hunter2-hunter2@h".to_vec(),
    );
    assert!(!all(&[password], &[place]).is_empty());
}
