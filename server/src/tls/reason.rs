//! Reasons of failed handshakes, in words for an operator.

use std::{borrow::Cow, io};

use rustls::{AlertDescription, Error, InvalidMessage};

/// Returns the reason if it is an error of TLS; `None` if the connection simply ended.
pub(crate) fn told(error: &io::Error) -> Option<Cow<'static, str>> {
    let error: &Error = error.get_ref()?.downcast_ref()?;
    Some(match error {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the client does not speak TLS".into()
        }
        Error::PeerIncompatible(
            rustls::PeerIncompatible::Tls12NotOffered
            | rustls::PeerIncompatible::Tls12NotOfferedOrEnabled
            | rustls::PeerIncompatible::SupportedVersionsExtensionRequired
            | rustls::PeerIncompatible::SignatureAlgorithmsExtensionRequired,
        ) => "the client speaks no version of TLS from 1.2 on".into(),
        Error::NoCertificatesPresented => {
            "the client has no certificate, and tls-client-auth requires one".into()
        }
        Error::InvalidCertificate(wrong) => {
            format!("the client's certificate is refused: {wrong}").into()
        }
        Error::NoApplicationProtocol => {
            "the client offers neither HTTP/2 (ALPN h2) nor HTTP/1.1 (ALPN http/1.1)".into()
        }
        Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown),
        ) => format!("the client refuses the coordinator's certificate ({alert:?})").into(),
        other => other.to_string().into(),
    })
}
