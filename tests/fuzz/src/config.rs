//! Files that operators write: the configuration, the token file, the file of keys, and URLs of stores.
//!
//! Every fault is reported with words. A configuration that is accepted prints as a file that means the same.

use std::ffi::OsString;

use leasehold_server::{
    Config,
    access::rules::{Pattern, Rules},
    config::{Changes, unknown_variables},
    fuzzing::{Verifier, read_file, read_url},
};

/// Reads the rest of the input as the file that its first byte names.
pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(rest);
    match kind % 8 {
        0 => token_file(&text),
        1 => key_file(&text),
        2 => store_url(&text),
        3 => variables(&text),
        _ => configuration(&text),
    }
}

fn configuration(text: &str) {
    let (config, printed) = match read_file(text) {
        Ok(read) => read,
        Err(errors) => {
            assert!(errors.iter().all(|error| !error.trim().is_empty()));
            return assert!(!errors.is_empty());
        }
    };
    let rules = Rules::new(&config.permissions);
    for rule in &config.permissions {
        for pattern in &rule.identities {
            let text = pattern.to_string();
            assert_eq!(Pattern::parse(&text).as_ref(), Ok(pattern));
            let _ = rules.of(&text);
        }
    }
    let (again, printed_again) = match read_file(&printed) {
        Ok(read) => read,
        // A password is printed as ***, which may be one no URL can have.
        Err(errors) => panic!("{printed}\n{errors:?}"),
    };
    let differs = Changes::between(&config, &again);
    let differs = differs.followed.iter().chain(&differs.at_next_start);
    let differs: Vec<_> = differs.filter(|name| **name != "store").collect();
    assert!(differs.is_empty(), "{differs:?} in\n{printed}");
    let values = |printed: &str| -> Vec<String> {
        let lines = printed.lines().map(|line| line.split(" # ").next());
        lines.flatten().map(str::to_owned).collect()
    };
    assert_eq!(values(&printed), values(&printed_again));
    let _ = Changes::between(&Config::default(), &config);
}

fn token_file(text: &str) {
    let keys = crate::jwt::KEYS;
    let names = ("issuer", "audience", "sub");
    if let Err(message) = Verifier::new(text, keys, names, &[]) {
        assert!(!message.is_empty());
    }
}

fn key_file(text: &str) {
    if let Err(message) = Verifier::new("", text, ("issuer", "audience", "sub"), &[]) {
        assert!(!message.is_empty());
    }
}

fn store_url(text: &str) {
    match read_url(text) {
        Err(message) => assert!(!message.is_empty()),
        Ok(url) => {
            let _ = (url.to_string(), url.scheme(), url.wants_tls());
            if let Err(wrong) = leasehold_store::check_url(url.expose()) {
                assert!(!wrong.to_string().is_empty());
            }
        }
    }
}

fn variables(text: &str) {
    let names = text
        .lines()
        .map(|name| OsString::from(format!("LEASEHOLD_{name}")));
    for warning in unknown_variables(names) {
        assert!(warning.contains("LEASEHOLD_"));
    }
}
