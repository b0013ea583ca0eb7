//! Faulty files, reported at start: the file, its setting, and the expected form.

use std::{fs, path::Path};

use leasehold_server::{Config, config::Action, tls};
use leasehold_tests::Authority;

fn checked(flags: &[String]) -> Result<(), String> {
    let args = ["leasehold-server".to_owned()]
        .into_iter()
        .chain(flags.iter().cloned());
    match Config::from_args(args.map(Into::into), |_| None).unwrap() {
        Action::Serve(config) => tls::check(&config).into_iter().next().map_or(Ok(()), Err),
        other => panic!("{flags:?} serves nothing: {other:?}"),
    }
}

#[track_caller]
fn refused(flags: &[String], says: &[&str]) {
    let error = checked(flags).unwrap_err();
    for words in says {
        assert!(error.contains(words), "no {words:?} in {error:?}");
    }
    assert!(!error.contains("BEGIN"), "{error}");
}

fn with(cert: &Path, key: &Path) -> Vec<String> {
    let (cert, key) = (cert.display(), key.display());
    vec![format!("--tls-cert={cert}"), format!("--tls-key={key}")]
}

#[test]
fn files_that_do_not_hold_what_they_should_are_refused() {
    let authority = Authority::new("servers");
    let (one, other) = (authority.server().issue(), authority.server().issue());
    let folder = authority.directory();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let empty = write("empty.pem", "");
    let garbage = write(
        "garbage.pem",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    let encrypted = write(
        "encrypted.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let missing = folder.join("missing.pem");
    checked(&one.flags()).unwrap();
    checked(&[]).unwrap();
    for (cert, key, says) in [
        (
            &missing,
            &one.key,
            ["missing.pem (tls-cert)", "No such file"],
        ),
        (
            &one.cert,
            &missing,
            ["missing.pem (tls-key)", "No such file"],
        ),
        (&empty, &one.key, ["(tls-cert)", "no CERTIFICATE section"]),
        (&one.key, &one.key, ["(tls-cert)", "no CERTIFICATE section"]),
        (&garbage, &one.key, ["(tls-cert)", "certificate"]),
        (
            &one.cert,
            &one.cert,
            ["(tls-key)", "no PRIVATE KEY section"],
        ),
        (&one.cert, &encrypted, ["(tls-key)", "without a passphrase"]),
        (
            &one.cert,
            &other.key,
            ["(tls-key)", "not the key of the first certificate"],
        ),
    ] {
        refused(&with(cert, key), &says);
    }
    let asking = |ca: &Path, crl: Option<&Path>| {
        let mut flags = one.flags().to_vec();
        flags.push(format!("--tls-client-ca={}", ca.display()));
        flags.extend(crl.map(|crl| format!("--tls-client-crl={}", crl.display())));
        flags
    };
    let ca = authority.ca();
    checked(&asking(&ca, Some(&authority.revoke(&[])))).unwrap();
    refused(
        &asking(&missing, None),
        &["(tls-client-ca)", "No such file"],
    );
    refused(&asking(&garbage, None), &["garbage.pem (tls-client-ca)"]);
    refused(
        &asking(&ca, Some(&ca)),
        &["(tls-client-crl)", "no X509 CRL section"],
    );
}
