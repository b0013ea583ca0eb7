//! Encoders of numbers that are kept outside the registry.

use std::fmt;

use leasehold_store::measure::Snapshot;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

/// Names and values of a series' labels. A metric without labels has one series.
pub(super) type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Name and help of a metric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
}

/// Encodes a counter for each set of labels.
pub(super) fn counters<const N: usize, V>(
    encoder: &mut DescriptorEncoder<'_>,
    named: Named,
    series: impl IntoIterator<Item = (Labels<N>, V)>,
) -> fmt::Result
where
    ConstCounter<V>: EncodeMetric,
{
    let series = series.into_iter();
    let series = series.map(|(labels, value)| (labels, ConstCounter::new(value)));
    numbers(encoder, named, MetricType::Counter, series)
}

/// Encodes a gauge for each set of labels.
pub(super) fn gauges<const N: usize, V>(
    encoder: &mut DescriptorEncoder<'_>,
    named: Named,
    series: impl IntoIterator<Item = (Labels<N>, V)>,
) -> fmt::Result
where
    ConstGauge<V>: EncodeMetric,
{
    let series = series.into_iter();
    let series = series.map(|(labels, value)| (labels, ConstGauge::new(value)));
    numbers(encoder, named, MetricType::Gauge, series)
}

fn numbers<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    Named { name, help }: Named,
    metric_type: MetricType,
    series: impl Iterator<Item = (Labels<N>, impl EncodeMetric)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, metric_type)?;
    for (labels, number) in series {
        if N == 0 {
            return number.encode(metric);
        }
        number.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Encodes a histogram for each set of labels, of durations if the unit is seconds.
pub(super) fn histograms<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    Named { name, help }: Named,
    unit: Option<&Unit>,
    series: impl IntoIterator<Item = (Labels<N>, Snapshot)>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
    for (labels, snapshot) in series {
        let count = snapshot.count();
        let Snapshot { buckets, sum } = snapshot;
        if N == 0 {
            return metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None);
        }
        let mut metric = metric.encode_family(&labels)?;
        metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

/// Encodes a histogram of seconds for each set of labels.
pub(super) fn times<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    named: Named,
    series: impl IntoIterator<Item = (Labels<N>, Snapshot)>,
) -> fmt::Result {
    histograms(encoder, named, Some(&Unit::Seconds), series)
}
