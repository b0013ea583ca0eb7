//! Changes of credentials, and ends of rights.

use std::{sync::Arc, time::Duration};

use rand::{Rng, rngs::StdRng};
use tokio::time::sleep;

use super::{kinds::Fault, servers::Drawn};
use crate::{
    coordinators::Coordinators,
    credentials::{Credentials, Rotation},
    record::{Effects, Record},
};

/// Time within which nothing is left of rights that ended: a second until the coordinators notice, and the last time that they
/// promised before. The checker allows as much.
const OVER: Duration = Duration::from_secs(6);

/// Replaces credentials of any kind, if there are any.
pub(super) async fn rotate_any(coordinators: &Coordinators, record: &Record, random: &mut StdRng) {
    if let Some(credentials) = coordinators.credentials() {
        let what = Rotation::ALL[random.random_range(0..Rotation::ALL.len())];
        rotate(what, credentials, coordinators, record).await;
    }
}

async fn rotate(
    what: Rotation,
    credentials: &Credentials,
    coordinators: &Coordinators,
    record: &Record,
) {
    let name = Fault::Rotate(what).name();
    // Nobody may notice.
    let effects = Effects {
        moves: true,
        ..Effects::default()
    };
    let begun = record.begin(name, "all", &effects);
    credentials.rotate(what, &coordinators.endpoints()).await;
    record.end(begun);
}

/// Does a fault of credentials, and returns whether it was one.
pub(super) async fn apply(drawn: &Drawn, coordinators: &mut Coordinators, record: &Record) -> bool {
    let Some(credentials) = coordinators.credentials().map(Arc::clone) else {
        return false;
    };
    let seat = credentials.choose(drawn.any);
    match drawn.fault {
        Fault::Rotate(what) => rotate(what, &credentials, coordinators, record).await,
        Fault::TakeIdentity if credentials.has_token(seat) => {
            credentials.withdraw(seat, drawn.fault.name(), record);
            credentials.take_token(seat);
            sleep(OVER + drawn.time).await;
            credentials.give_tokens();
            credentials.restored(record);
        }
        Fault::TakeIdentity | Fault::TakePermission => {
            credentials.withdraw(seat, Fault::TakePermission.name(), record);
            credentials.permit(Some(seat));
            coordinators.reload();
            sleep(OVER + drawn.time).await;
            credentials.permit(None);
            coordinators.reload();
            credentials.restored(record);
        }
        _ => return false,
    }
    true
}
