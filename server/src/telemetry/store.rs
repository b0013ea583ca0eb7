//! Collector of the store's measurements.

use std::{fmt, sync::Arc};

use leasehold_store::measure::{Failure, Measures, Script};
use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::shown::{Named, counters, gauges, histograms, times};

/// Collects the store's numbers at each scrape.
#[derive(Debug)]
pub(super) struct StoreCollector(pub(super) Arc<Measures>);

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let of = |script| self.0.script(script);
        let of_scripts = Script::ALL.map(|script| {
            let snapshot = of(script).seconds.snapshot();
            ([("script", script.name())], snapshot)
        });
        // Most stores never use most scripts, whose series are left out.
        let seen = of_scripts
            .into_iter()
            .filter(|(_, snapshot)| snapshot.count() > 0);
        let named = Named {
            name: "store_script",
            help: "Time from sending a call to the store until its reply, for each command in it.",
        };
        times(&mut encoder, named, seen)?;
        let failures = Script::ALL.into_iter().flat_map(|script| {
            Failure::ALL.map(|failure| {
                let labels = [("script", script.name()), ("error", failure.name())];
                (labels, of(script).failures(failure))
            })
        });
        let named = Named {
            name: "store_script_errors",
            help: "Commands to the store that failed.",
        };
        counters(&mut encoder, named, failures)?;
        let named = Named {
            name: "store_batch_size",
            help: "Commands that went to the store in one message.",
        };
        let batches = self.0.batches().snapshot();
        histograms(&mut encoder, named, None, [([], batches)])?;
        let named = Named {
            name: "store_queue",
            help: "Commands that wait for a message to the store to go in.",
        };
        gauges(&mut encoder, named, [([], self.0.queued())])?;
        let named = Named {
            name: "store_in_flight",
            help: "Commands that were sent to the store and not answered yet.",
        };
        gauges(&mut encoder, named, [([], self.0.in_flight())])
    }
}
