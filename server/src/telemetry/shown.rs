//! Encoding of numbers that are kept elsewhere as metrics.

use std::fmt;

use leasehold_store::measure::Snapshot;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

/// What tells the series of a metric apart: names and values. Where there are none, there is one series.
pub(super) type Labels<const N: usize> = [(&'static str, &'static str); N];

/// What a metric is called, and what it is, for people.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
}

/// A counter for each set of labels.
pub(super) fn counters<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    Named { name, help }: Named,
    series: impl IntoIterator<Item = (Labels<N>, u64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in series {
        if N == 0 {
            return ConstCounter::new(value).encode(metric);
        }
        ConstCounter::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

/// A number that goes up and down for each set of labels.
pub(super) fn gauges<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    Named { name, help }: Named,
    series: impl IntoIterator<Item = (Labels<N>, i64)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in series {
        if N == 0 {
            return ConstGauge::new(value).encode(metric);
        }
        ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

/// A histogram of seconds for each set of labels.
pub(super) fn times<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    Named { name, help }: Named,
    series: impl IntoIterator<Item = (Labels<N>, Snapshot)>,
) -> fmt::Result {
    let unit = Some(&Unit::Seconds);
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
    for (labels, Snapshot { buckets, sum }) in series {
        let count = buckets.iter().map(|(_, count)| count).sum();
        if N == 0 {
            return metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None);
        }
        let mut metric = metric.encode_family(&labels)?;
        metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

/// A histogram of numbers.
pub(super) fn sizes(
    encoder: &mut DescriptorEncoder<'_>,
    Named { name, help }: Named,
    Snapshot { buckets, sum }: &Snapshot,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    let count = buckets.iter().map(|(_, count)| count).sum();
    metric.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
}
