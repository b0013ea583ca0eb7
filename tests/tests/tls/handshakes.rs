//! Who is let in, and who is not.

use leasehold_tests::Authority;

use crate::site::{Site, ask, chain};

#[tokio::test]
async fn a_client_that_trusts_the_authority_is_served_without_a_certificate_where_none_is_asked_for()
 {
    let site = Site::open().await;
    site.ask(None).await.unwrap();
    // One that it was not asked for does no harm.
    let client = site.clients.client("somebody").issue();
    site.ask(Some(&client)).await.unwrap();
    site.until_failures(0.0).await;
}

#[tokio::test]
async fn a_client_of_another_authority_lets_the_coordinator_go() {
    let site = Site::open().await;
    let stranger = Authority::new("strangers");
    let error = ask(&stranger, &site.coordinator.endpoint(), None).await;
    let error = chain(&error.unwrap_err());
    assert!(error.contains("UnknownIssuer"), "{error}");
    site.until_failures(1.0).await;
}

#[tokio::test]
async fn a_coordinator_whose_certificate_has_expired_is_let_go_by_its_clients() {
    let site = Site::serving(|servers| servers.server().expired().issue()).await;
    let error = chain(&site.ask(None).await.unwrap_err());
    assert!(error.contains("Expired"), "{error}");
    site.until_failures(1.0).await;
}

#[tokio::test]
async fn only_a_good_certificate_of_the_clients_authority_opens_the_door() {
    let site = Site::mutual().await;
    let good = site.clients.client("somebody").issue();
    site.ask(Some(&good)).await.unwrap();

    let none = chain(&site.ask(None).await.unwrap_err());
    assert!(none.contains("CertificateRequired"), "{none}");
    let expired = site.clients.client("somebody").expired().issue();
    let expired = chain(&site.ask(Some(&expired)).await.unwrap_err());
    assert!(expired.contains("CertificateExpired"), "{expired}");
    let strangers = Authority::new("strangers");
    let stranger = strangers.client("somebody").issue();
    let stranger = chain(&site.ask(Some(&stranger)).await.unwrap_err());
    assert!(stranger.contains("UnknownCA"), "{stranger}");
    site.until_failures(3.0).await;
}
