//! Bearer tokens, against a fixed token file and a fixed set of keys.
//!
//! Without the private key, no token is accepted. With it, the header and the claims may be anything: a token is accepted only
//! if an independent reading of its claims says so too, and it shows the same identity when it is shown again.

use std::{
    cell::LazyCell,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use arbitrary::{Arbitrary, Unstructured};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use leasehold_server::{
    access::rules::{Pattern, Permission, Prefixes, Rule},
    fuzzing::Verifier,
};
use ring::{hmac, signature::Ed25519KeyPair};
use serde_json::{Value, json};

/// Public keys: one of each kind. The private key of `ed` is made from [`SEED`].
pub const KEYS: &str = include_str!("keys.json");
/// Seed of the key that signs here.
const SEED: [u8; 32] = [7; 32];
/// Time at which all tokens are shown, in seconds since 1970.
const NOW: u64 = 1_700_000_000;
/// Most by which a token may be shown before its time.
const LEEWAY: f64 = 30.0;
const ISSUER: &str = "https://issuer.example";
const AUDIENCE: &str = "leasehold";
/// Token file: the SHA-256 of `abc`.
const TOKENS: &str = "ci sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad expires=2030-01-01T00:00:00Z";

thread_local! {
    static VERIFIER: LazyCell<Verifier> = LazyCell::new(|| {
        let rule = Rule {
            identities: vec![Pattern::parse("jwt:*").unwrap()],
            allow: vec![Permission::Acquire],
            locks: Prefixes::new(["a/"]),
            elections: Prefixes::new([] as [&str; 0]),
            max_hold: None,
        };
        Verifier::new(TOKENS, KEYS, (ISSUER, AUDIENCE, "sub"), &[rule]).unwrap()
    });
    static KEY: LazyCell<Ed25519KeyPair> =
        LazyCell::new(|| Ed25519KeyPair::from_seed_unchecked(&SEED).unwrap());
}

/// Way in which a token comes about.
#[derive(Arbitrary, Clone, Copy, PartialEq, Eq)]
enum Forgery {
    /// It is signed by the issuer.
    None,
    /// One byte is another one after it was signed.
    Changed(u16, u8),
    /// It is cut short after it was signed.
    Cut(u8),
    /// Its authentication code has a public key as its secret.
    Hmac,
    /// It has no signature.
    Unsigned,
}

/// Shows a token.
pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    if kind % 4 == 0 {
        let token = String::from_utf8_lossy(rest);
        let shown = show(&token);
        assert!(shown.is_err() || token == "abc", "{token:?} is let in");
        return;
    }
    let _ = signed(&mut Unstructured::new(rest));
}

fn show(token: &str) -> Result<String, String> {
    let now = UNIX_EPOCH + Duration::from_secs(NOW);
    VERIFIER.with(|verifier| {
        let shown = verifier.identify(token, now);
        // It may be remembered now.
        let again = verifier.identify(token, now);
        assert_eq!(
            shown.as_ref().map(|it| &it.0),
            again.as_ref().map(|it| &it.0)
        );
        let much_later = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        if let Ok((name, granted)) = &shown {
            assert!(name.starts_with("jwt:") || name == "token:ci");
            let _ = format!("{granted:?}");
            if name == "token:ci" {
                assert!(verifier.identify(token, much_later).is_err());
            }
        }
        match shown {
            Ok((name, _)) => Ok(name),
            Err(message) => {
                assert!(!message.is_empty());
                Err(message)
            }
        }
    })
}

fn signed(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let forgery = Forgery::arbitrary(u)?;
    let algorithm = *u.choose(&[
        "EdDSA", "EdDSA", "EdDSA", "HS256", "RS256", "ES256", "none", "",
    ])?;
    let mut header = json!({ "alg": algorithm, "typ": "JWT" });
    match u.int_in_range(0..=3)? {
        0 => header["kid"] = json!("ed"),
        1 => header["kid"] = json!(u.choose(&["rsa", "ec", "other"])?),
        2 => header[<&str>::arbitrary(u)?] = any(u, 0)?,
        _ => {}
    }
    let mut claims = json!({
        "exp": NOW + 60,
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "worker",
    });
    let plain = claims.to_string();
    for _ in 0..u.int_in_range(0..=4)? {
        let claim = *u.choose(&[
            "exp", "exp", "nbf", "iss", "aud", "sub", "sub", "iat", "jti",
        ])?;
        match u.int_in_range(0..=7)? {
            0 => {
                claims.as_object_mut().unwrap().remove(claim);
            }
            1 => claims[claim] = json!([claims[claim].clone(), any(u, 0)?]),
            2 => claims[claim] = json!(NOW as f64 + f64::from(i16::arbitrary(u)?) / 8.0),
            3 => claims[claim] = json!(f64::arbitrary(u)?),
            5 => {
                // Near the bounds.
                let after = u.choose(&[-1.0, 0.0, 0.001, 29.0, 30.0, 30.001, 31.0, 60.0])?;
                claims[claim] = json!(NOW as f64 + after);
            }
            4 => claims[claim] = json!(<&str>::arbitrary(u)?),
            _ => claims[claim] = any(u, 0)?,
        }
    }
    // Sometimes it is no JSON at all, or has a claim twice.
    let mut payload = claims.to_string();
    match u.int_in_range(0..=15)? {
        0 => payload = <&str>::arbitrary(u)?.to_owned(),
        1 => payload = format!("{{\"exp\":{},{}", i64::arbitrary(u)?, &payload[1..]),
        2 => {
            payload = format!(
                "{},\"exp\":{}}}",
                &payload[..payload.len() - 1],
                i64::arbitrary(u)?
            )
        }
        _ => {}
    }
    let message = format!(
        "{}.{}",
        BASE64.encode(header.to_string()),
        BASE64.encode(&payload)
    );
    let signature = match forgery {
        Forgery::Unsigned => Vec::new(),
        Forgery::Hmac => {
            let secret = *u.choose(&[KEYS.as_bytes(), &[7; 32]])?;
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
            hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
        }
        _ => KEY.with(|key| key.sign(message.as_bytes()).as_ref().to_vec()),
    };
    let good = format!("{message}.{}", BASE64.encode(signature));
    let mut token = good.clone();
    match forgery {
        Forgery::Changed(at, byte) => {
            let at = usize::from(at) % token.len();
            let byte = char::from(byte % 0x5e + 0x21).to_string();
            token.replace_range(at..=at, &byte);
        }
        Forgery::Cut(by) => token.truncate(token.len().saturating_sub(usize::from(by))),
        _ => {}
    }
    let shown = show(&token);
    let is_genuine = token == good && !matches!(forgery, Forgery::Hmac | Forgery::Unsigned);
    match shown {
        Err(_) => {}
        Ok(name) => {
            assert!(is_genuine, "a forgery is let in: {token} as {name}");
            assert_eq!(algorithm, "EdDSA", "{header}");
            let claims: Value = serde_json::from_str(&payload).expect("its claims were read");
            assert_eq!(Some(name), lets_in(&claims), "{claims}");
            return Ok(());
        }
    }
    // Plain claims of a genuine token are accepted.
    let is_plain = header == json!({ "alg": "EdDSA", "typ": "JWT" }) && payload == plain;
    assert!(
        !(is_genuine && is_plain),
        "a plain token is refused: {token}"
    );
    Ok(())
}

/// Returns the identity that these claims show, if they are in force.
fn lets_in(claims: &Value) -> Option<String> {
    let now = NOW as f64;
    let among = |claim: &Value, expected: &str| match claim {
        Value::String(text) => text == expected,
        Value::Array(all) => all.iter().any(|one| one == expected),
        _ => false,
    };
    let is_timely = claims["exp"].as_f64()? > now
        && claims
            .get("nbf")
            .is_none_or(|nbf| nbf.as_f64().is_some_and(|nbf| nbf <= now + LEEWAY));
    let is_ours = among(&claims["iss"], ISSUER) && among(&claims["aud"], AUDIENCE);
    let name = claims["sub"].as_str()?;
    (is_timely && is_ours).then(|| format!("jwt:{name}"))
}

/// Returns any JSON, of few levels.
fn any(u: &mut Unstructured<'_>, depth: usize) -> arbitrary::Result<Value> {
    Ok(match u.int_in_range(0..=if depth < 3 { 7 } else { 5 })? {
        0 => Value::Null,
        1 => json!(bool::arbitrary(u)?),
        2 => json!(i64::arbitrary(u)?),
        3 => json!(f64::arbitrary(u)?),
        4 => json!(<&str>::arbitrary(u)?),
        5 => json!(u.choose(&["worker", ISSUER, AUDIENCE, "a*", "", "\u{0}"])?),
        6 => json!([any(u, depth + 1)?, any(u, depth + 1)?]),
        _ => json!({ <&str>::arbitrary(u)?: any(u, depth + 1)? }),
    })
}
