//! OpenAPI description: generated from the proto files, committed as `server/openapi.json`, and served by the admin port. The
//! program `outside` compares answers with it.

mod comments;
mod document;
mod schemas;

use leasehold_tests::{
    Coordinator,
    http::{Http, Version},
};

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../server/openapi.json");

/// Compares the committed document with the one that the proto files yield; `LEASEHOLD_WRITE_OPENAPI=1` writes it.
#[test]
fn the_document_is_that_of_the_proto_files() {
    let generated = document::generate();
    if std::env::var_os("LEASEHOLD_WRITE_OPENAPI").is_some() {
        std::fs::write(COMMITTED, generated).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(COMMITTED).unwrap();
    let differs = committed
        .lines()
        .zip(generated.lines())
        .find(|(committed, generated)| committed != generated);
    assert!(
        committed == generated,
        "server/openapi.json is not what the proto files yield; `make openapi` writes it anew. The first difference: {differs:?}"
    );
}

#[tokio::test]
async fn the_admin_port_serves_the_document() {
    let coordinator = Coordinator::in_process();
    let admin = Http::at(&coordinator.admin_endpoint(), Version::One);
    let answer = admin.bare("GET", "/openapi.json", &[]).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-cache");
    let committed = std::fs::read_to_string(COMMITTED).unwrap();
    assert!(answer.body == committed, "it is the committed one");
    let index = admin.bare("GET", "/", &[]).await;
    let index = String::from_utf8(index.body.to_vec()).unwrap();
    assert!(index.contains("/openapi.json"), "{index}");
}
