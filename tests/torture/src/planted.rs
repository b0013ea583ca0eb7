//! Faults planted in the programs under test, to show that the run finds them.

use anyhow::bail;

/// Variable that names the fault to a coordinator or client.
pub(crate) const VARIABLE: &str = "LEASEHOLD_PLANTED";

/// A planted fault, by its name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planted {
    pub(crate) in_coordinators: Option<String>,
    pub(crate) in_clients: Option<String>,
}

impl Planted {
    /// Plants a fault of the client, or else of the coordinator, which refuses what is none.
    #[cfg(feature = "planted")]
    pub(crate) fn named(name: &str) -> anyhow::Result<Self> {
        if name.is_empty() {
            bail!("a fault has a name");
        }
        let fault = Some(name.to_owned());
        Ok(match leasehold_client::planted::Fault::named(name) {
            Some(_) => Self {
                in_clients: fault,
                ..Self::default()
            },
            None => Self {
                in_coordinators: fault,
                ..Self::default()
            },
        })
    }

    /// Fails: these programs have no faults to plant.
    #[cfg(not(feature = "planted"))]
    pub(crate) fn named(name: &str) -> anyhow::Result<Self> {
        bail!(
            "to plant {name:?}, build with the feature `planted`, as `make torture PLANTED={name}` does"
        )
    }
}
