//! Clients' certificates as identities.

use std::time::{Duration, Instant};

use leasehold_tests::{
    certificates::{Authority, Issued, replace},
    raw::PROMPT,
};
use tonic::Code;

use super::site::{Caller, NOTICED, Site, TTL, ends, reason, table};

/// Starts a site that asks for certificates of this authority, or admits callers without one.
fn site(authority: &Authority, rules: &str, optional: bool) -> Site {
    let server = authority.server().issue();
    let mut flags: Vec<String> = server.flags().into();
    flags.push(format!("--tls-client-ca={}", authority.ca().display()));
    if optional {
        flags.push("--tls-client-auth=optional".to_owned());
        flags.push("--token-file".to_owned());
        flags.push("tokens".to_owned());
    }
    let crl = authority.revoke(&[]);
    flags.push(format!("--tls-client-crl={}", crl.display()));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Site::start_with(rules, &flags)
}

async fn caller(site: &Site, authority: &Authority, shown: Option<&Issued>) -> Caller {
    let endpoint = site.endpoint().replace("http:", "https:");
    let channel = authority.connect(&endpoint, shown).await.unwrap();
    Caller {
        channel,
        token: None,
    }
}

#[tokio::test]
async fn a_certificate_is_an_identity_until_it_is_revoked_or_expires() {
    let authority = Authority::new("clients");
    let rules = table("cert:spiffe://x/a", "acquire", "locks", "a")
        + &table("cert:b.example", "acquire", "locks", "a");
    let site = site(&authority, &rules, false);
    let by_uri = authority
        .client("nobody")
        .dns("b.example")
        .uri("spiffe://x/a")
        .issue();
    let short = authority
        .client("nobody")
        .dns("b.example")
        .expires_in(Duration::from_secs(10))
        .issue();
    let by_name = authority.client("plain").issue();
    let (mine, other) = (
        caller(&site, &authority, Some(&by_uri)).await,
        caller(&site, &authority, Some(&short)).await,
    );
    let mut session = mine.session().await;
    session.acquire("a").await;
    let mut waiting = other.session().await;
    let next = waiting.ask("a", None).await;
    waiting.queued(next).await;
    // It is somebody, and may nothing.
    let plain = caller(&site, &authority, Some(&by_name)).await;
    let mut asked = plain.session().await;
    let id = asked.ask("a", Some(Duration::ZERO)).await;
    assert_eq!(asked.refusal(id, PROMPT).await.reason, "PERMISSION_DENIED");

    authority.revoke(&[&by_uri]);
    let status = session.end(NOTICED).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    mine.is_refused("UNAUTHENTICATED").await;
    let promised = session.good_until().expect("heartbeats were answered");
    waiting.granted(next, TTL + PROMPT).await;
    assert!(Instant::now() >= promised, "granted early");
    let status = waiting.end(NOTICED * 2).await.unwrap_err();
    assert_eq!(reason(&status), "IDENTITY_EXPIRED");
    // Nobody else's ends.
    plain.is_known().await.unwrap();
}

#[tokio::test]
async fn a_token_is_taken_before_a_certificate_and_nobody_is_refused() {
    let authority = Authority::new("clients");
    let site = site(&authority, "", true);
    let shown = authority.client("a").issue();
    let with = caller(&site, &authority, Some(&shown)).await;
    with.is_known().await.unwrap();
    let bad = Caller {
        token: Some("wrong".to_owned()),
        ..with
    };
    bad.is_refused("UNAUTHENTICATED").await;
    let nobody = caller(&site, &authority, None).await;
    nobody.is_refused("UNAUTHENTICATED").await;
    let (token, line) = super::site::token("a");
    site.replace("tokens", &line);
    let by_token = Caller {
        token: Some(token),
        ..nobody
    };
    by_token.until_known().await;
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_though_the_token_file_cannot_be_read() {
    let authority = Authority::new("clients");
    let site = site(&authority, "", true);
    let shown = authority.client("a").issue();
    let mine = caller(&site, &authority, Some(&shown)).await;
    let mut session = mine.session().await;
    site.replace("tokens", "this is no line of it\n");
    authority.revoke(&[&shown]);
    ends(&mut session, "UNAUTHENTICATED").await;
    mine.is_refused("UNAUTHENTICATED").await;
}

#[tokio::test]
async fn an_authority_that_is_not_trusted_any_more_ends_its_streams() {
    let (authority, other) = (Authority::new("clients"), Authority::new("others"));
    let server = authority.server().issue();
    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("trusted.pem");
    replace(&trusted, &std::fs::read_to_string(authority.ca()).unwrap());
    let mut flags: Vec<String> = server.flags().into();
    flags.push(format!("--tls-client-ca={}", trusted.display()));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let site = Site::start_with("", &flags);
    let shown = authority.client("a").issue();
    let mine = caller(&site, &authority, Some(&shown)).await;
    let mut session = mine.session().await;
    replace(&trusted, &std::fs::read_to_string(other.ca()).unwrap());
    ends(&mut session, "UNAUTHENTICATED").await;
}
