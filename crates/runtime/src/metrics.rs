//! Numbers for Prometheus.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

use crate::Site;
use crate::queue::{LaneGauges, Name, Queue};

/// The numbers of a daemon. Copies are cheap and share everything.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    parts: Arc<Parts>,
    /// Whose queues, sites and durations are added.
    tenant: Arc<str>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("trellis");
        let parts = Arc::new(Parts::default());
        registry.register_collector(Box::new(Shared(Arc::clone(&parts))));
        Self { registry: Arc::new(Mutex::new(registry)), parts, tenant: "".into() }
    }
}

impl Metrics {
    /// Adds a number. The name gets the prefix `trellis_`, and a counter's the suffix `_total`.
    pub fn add(&self, name: &str, help: &str, metric: impl Metric) {
        self.registry.lock().register(name, help, metric);
    }

    /// Adds a number of seconds; the name gets the suffix `_seconds`.
    pub fn add_seconds(&self, name: &str, help: &str, metric: impl Metric) {
        self.registry.lock().register_with_unit(name, help, Unit::Seconds, metric);
    }

    /// Adds a number that is asked for whenever the numbers are.
    pub fn add_gauge(
        &self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> i64 + Send + Sync + 'static,
    ) {
        self.registry.lock().register_collector(Box::new(Read { name, help, number: Box::new(read) }));
    }

    /// The same numbers, for adding those of one tenant: they carry its name as the label `tenant`, and can be
    /// forgotten together.
    #[must_use]
    pub fn of(&self, tenant: &str) -> Self {
        Self { tenant: tenant.into(), ..self.clone() }
    }

    /// Adds what a queue counts.
    pub fn add_queue<K: Name>(&self, name: &'static str, queue: &Queue<K>) {
        self.parts.queues.write().push(self.owned((name, queue.gauges().lanes().to_vec())));
    }

    /// Adds the requests and the health of a site.
    pub fn add_site(&self, site: &Site) {
        self.parts.sites.write().push(self.owned(site.clone()));
    }

    /// Adds durations in seconds, a histogram for each value of a label.
    pub fn add_durations(&self, durations: Durations) {
        self.parts.durations.write().push(self.owned(durations));
    }

    /// Forgets the queues, sites and durations that were added for this tenant.
    pub fn forget(&self) {
        self.parts.queues.write().retain(|part| part.tenant != self.tenant);
        self.parts.sites.write().retain(|part| part.tenant != self.tenant);
        self.parts.durations.write().retain(|part| part.tenant != self.tenant);
    }

    fn owned<T>(&self, part: T) -> Owned<T> {
        Owned { tenant: Arc::clone(&self.tenant), part }
    }

    /// All numbers in the text format of Prometheus.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry.lock());
        plain(&text)
    }
}

/// The older text format, which every tool reads: counters are called by their whole names, and units and the end are
/// not marked.
fn plain(text: &str) -> String {
    let counters: std::collections::HashSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut plain = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let head = ["# HELP ", "# TYPE "].into_iter().find_map(|head| Some((head, line.strip_prefix(head)?)));
        match head.and_then(|(head, rest)| Some((head, rest.split_once(' ')?))) {
            Some((head, (name, rest))) if counters.contains(name) => {
                plain.extend([head, name, "_total ", rest]);
            }
            _ => plain.push_str(line),
        }
        plain.push('\n');
    }
    plain
}

/// Durations of one kind: how long something took, told apart by one label. Copies are cheap and share everything.
#[derive(Debug, Clone)]
pub struct Durations {
    name: &'static str,
    help: &'static str,
    label: &'static str,
    parts: Vec<(&'static str, Histogram)>,
}

impl Durations {
    /// Durations under a name, which gets the prefix `trellis_` and the suffix `_seconds`, for these values of a label,
    /// counted up to these bounds in seconds.
    pub fn new(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = &'static str>,
        bounds: &[f64],
    ) -> Self {
        let part = |value| (value, Histogram::new(bounds.iter().copied()));
        Self { name, help, label, parts: values.into_iter().map(part).collect() }
    }

    /// Takes in how long something took; what is no value of the label is left out.
    pub fn observe(&self, value: &str, took: Duration) {
        if let Some((_, histogram)) = self.parts.iter().find(|(one, _)| *one == value) {
            histogram.observe(took.as_secs_f64());
        }
    }
}

/// A number that is asked for.
struct Read {
    name: &'static str,
    help: &'static str,
    number: Box<dyn Fn() -> i64 + Send + Sync>,
}

impl fmt::Debug for Read {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Read").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Collector for Read {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let family = encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?;
        ConstGauge::new((self.number)()).encode(family)
    }
}

/// Something that was added for a tenant.
#[derive(Debug)]
struct Owned<T> {
    tenant: Arc<str>,
    part: T,
}

/// The name of a queue, and what is counted of its lanes.
type Lanes = (&'static str, Vec<LaneGauges>);

/// What comes and goes with tenants.
#[derive(Debug, Default)]
struct Parts {
    queues: RwLock<Vec<Owned<Lanes>>>,
    sites: RwLock<Vec<Owned<Site>>>,
    durations: RwLock<Vec<Owned<Durations>>>,
}

#[derive(Debug)]
struct Shared(Arc<Parts>);

impl Collector for Shared {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        self.queues(&mut encoder)?;
        self.sites(&mut encoder)?;
        self.durations(&mut encoder)
    }
}

/// The label that says whose a number is goes before the others; what is nobody's has none.
fn labels<'a>(tenant: &'a str, rest: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let tenant = (!tenant.is_empty()).then_some(("tenant", tenant));
    tenant.into_iter().chain(rest.iter().copied()).collect()
}

impl Shared {
    fn queues(&self, encoder: &mut DescriptorEncoder) -> Result<(), fmt::Error> {
        type Pick = fn(&LaneGauges) -> &dyn prometheus_client::encoding::EncodeMetric;
        let numbers: [(&str, &str, Option<&Unit>, Pick); 5] = [
            ("queue_depth", "Keys that wait for a worker", None, |lane| &lane.depth),
            ("queue_wait", "How long keys waited for a worker", Some(&Unit::Seconds), |lane| &lane.wait),
            ("queue_work", "How long looks took", Some(&Unit::Seconds), |lane| &lane.work),
            ("queue_retries", "Looks that failed", None, |lane| &lane.retries),
            ("queue_panics", "Looks that ended in a panic", None, |lane| &lane.panics),
        ];
        let queues = self.0.queues.read();
        let Some(any) = queues.iter().find_map(|queue| queue.part.1.first()) else { return Ok(()) };
        for (name, help, unit, pick) in numbers {
            let mut family = encoder.encode_descriptor(name, help, unit, pick(any).metric_type())?;
            for Owned { tenant, part: (queue, lanes) } in queues.iter() {
                for lane in lanes {
                    let labels = labels(tenant, &[("queue", queue), ("lane", lane.name)]);
                    pick(lane).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }

    fn sites(&self, encoder: &mut DescriptorEncoder) -> Result<(), fmt::Error> {
        let sites = self.0.sites.read();
        if sites.is_empty() {
            return Ok(());
        }
        let help = "Requests to API servers by how they ended";
        let mut family = encoder.encode_descriptor("requests", help, None, MetricType::Counter)?;
        for Owned { tenant, part: site } in sites.iter() {
            for (request, result, count) in site.traffic().all() {
                let resource = request.resource();
                let rest = [
                    ("site", site.name()),
                    ("verb", request.verb.word()),
                    ("resource", &resource),
                    ("result", result),
                ];
                ConstCounter::new(count).encode(family.encode_family(&labels(tenant, &rest))?)?;
            }
        }
        let help = "Whether an API server answers";
        let mut family = encoder.encode_descriptor("site_up", help, None, MetricType::Gauge)?;
        for Owned { tenant, part: site } in sites.iter() {
            let up = ConstGauge::new(i64::from(site.is_up()));
            up.encode(family.encode_family(&labels(tenant, &[("site", site.name())]))?)?;
        }
        Ok(())
    }

    fn durations(&self, encoder: &mut DescriptorEncoder) -> Result<(), fmt::Error> {
        let durations = self.0.durations.read();
        let kinds: BTreeMap<_, _> = durations.iter().map(|one| (one.part.name, one.part.help)).collect();
        for (name, help) in kinds {
            let mut family =
                encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
            for Owned { tenant, part } in durations.iter().filter(|one| one.part.name == name) {
                for (value, histogram) in &part.parts {
                    let labels = labels(tenant, &[(part.label, value)]);
                    histogram.encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;
    use crate::Clock;
    use crate::queue::{Lane, Setup};

    #[tokio::test]
    async fn every_number_has_one_head_and_the_suffix_of_its_kind() {
        let metrics = Metrics::default();
        let counter = Counter::<u64>::default();
        counter.inc();
        metrics.add("machines_made", "Machines that were made", counter);
        metrics.add("machines", "Machines there are", Gauge::<i64>::default());
        metrics.add_seconds("boot", "How long it took", Histogram::new([1.0]));
        let lanes = ["a", "b"].map(|name| Lane { name, weight: 1, at_most: 1 });
        for name in ["pools", "machines"] {
            metrics.add_queue(name, &Queue::<u32>::new(Clock::of_machine(), Setup::new(&lanes, 1)));
        }
        let phases =
            Durations::new("machine_phase", "How long it took", "phase", ["Creating", "Joining"], &[1.0]);
        phases.observe("Joining", Duration::from_millis(500));
        phases.observe("Nowhere", Duration::from_millis(500));
        for tenant in ["default/blue", "default/green"] {
            metrics.of(tenant).add_durations(phases.clone());
        }
        let text = metrics.text();
        let mut types = BTreeMap::new();
        for line in text.lines() {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                assert!(types.insert(name, kind).is_none(), "{name} twice in\n{text}");
                assert!(text.contains(&format!("# HELP {name} ")), "{name} without help in\n{text}");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            }
        }
        for name in text.lines().filter(|line| !line.starts_with('#')) {
            let name = name.split(['{', ' ']).next().unwrap();
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            assert!(types.contains_key(name) || base.is_some_and(|base| types.contains_key(base)), "{name}");
        }
        assert!(text.contains("trellis_machines_made_total 1"), "{text}");
        assert_eq!(types["trellis_boot_seconds"], "histogram");
        assert!(text.contains("trellis_queue_depth{queue=\"pools\",lane=\"a\"} 0"), "{text}");
        assert!(!text.contains("# EOF") && text.ends_with('\n'));
        let joined = "trellis_machine_phase_seconds_count{tenant=\"default/blue\",phase=\"Joining\"} 1";
        assert!(text.contains(joined), "{text}");
        metrics.of("default/blue").forget();
        let text = metrics.text();
        assert!(!text.contains("default/blue") && text.contains("default/green"), "{text}");
    }
}
