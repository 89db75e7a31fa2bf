//! Amounts of what nodes have and pods want.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object::Object as _;
use crate::quantity;

/// Amounts by resource: processors in thousandths, everything else in whole units.
///
/// Each amount has 64 bits, as in the API; their sums have more, so that what is added can be taken away again however
/// much it was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Resources(BTreeMap<String, i128>);

/// What a pod without any request counts as when nodes are compared: processors in thousandths.
const DEFAULT_CPU: i128 = 100;
/// See [`DEFAULT_CPU`]: memory in bytes.
const DEFAULT_MEMORY: i128 = 200 * 1024 * 1024;

impl Resources {
    /// Reads a list of resources.
    pub(crate) fn read(list: &Value) -> Self {
        let entries = list.as_object().into_iter().flatten();
        Self(entries.map(|(name, amount)| (name.clone(), amount_of(name, amount))).collect())
    }

    /// The amount of a resource.
    pub(crate) fn get(&self, name: &str) -> i128 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// All amounts by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, i128)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Adds other amounts.
    pub(crate) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            match self.0.get_mut(name) {
                Some(sum) => *sum += amount,
                None => {
                    self.0.insert(name.clone(), *amount);
                }
            }
        }
    }

    /// Takes other amounts away.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            if let Some(sum) = self.0.get_mut(name) {
                *sum -= amount;
            }
        }
    }

    /// Raises each amount to at least the other's.
    fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let mine = self.0.entry(name.clone()).or_default();
            *mine = (*mine).max(*amount);
        }
    }

    /// What a pod wants: its containers together or the most any of its init containers needs, and its overhead.
    pub(crate) fn wanted_by(pod: &Value) -> Self {
        Self::sum_of(pod, &|container| Self::read(container.at("/resources/requests")))
    }

    /// The same for comparing nodes: a container that asks for nothing still takes something.
    pub(crate) fn likely_used_by(pod: &Value) -> Self {
        Self::sum_of(pod, &|container| {
            let mut wanted = Self::read(container.at("/resources/requests"));
            wanted.0.entry("cpu".to_owned()).or_insert(DEFAULT_CPU);
            wanted.0.entry("memory".to_owned()).or_insert(DEFAULT_MEMORY);
            wanted
        })
    }

    fn sum_of(pod: &Value, wanted: &dyn Fn(&Value) -> Self) -> Self {
        let (mut beside, mut peak) = (Self::default(), Self::default());
        for container in pod.list("/spec/initContainers") {
            let mut now = wanted(container);
            if container["restartPolicy"] == "Always" {
                beside.add(&now);
                now = beside.clone();
            } else {
                now.add(&beside);
            }
            peak.raise(&now);
        }
        let mut sum = beside;
        for container in pod.list("/spec/containers") {
            sum.add(&wanted(container));
        }
        sum.raise(&peak);
        // What is asked for the pod as a whole takes the place of what its containers ask for.
        for (name, amount) in Self::read(pod.at("/spec/resources/requests")).0 {
            sum.0.insert(name, amount);
        }
        sum.add(&Self::read(pod.at("/spec/overhead")));
        sum
    }
}

fn amount_of(name: &str, amount: &Value) -> i128 {
    let amount = if name == "cpu" { quantity::of(amount) } else { quantity::whole(amount) };
    amount.clamp(i64::MIN.into(), i64::MAX.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn init_containers_count_only_where_they_need_more() {
        let wants = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut pod = json!({"spec": {
            "containers": [wants("1"), wants("500m")],
            "initContainers": [wants("1200m")],
            "overhead": {"cpu": "100m"},
        }});
        assert_eq!(Resources::wanted_by(&pod).get("cpu"), 1600);
        pod["spec"]["initContainers"] = json!([wants("4")]);
        assert_eq!(Resources::wanted_by(&pod).get("cpu"), 4100);
        let mut beside = wants("1");
        beside["restartPolicy"] = "Always".into();
        pod["spec"]["initContainers"] = json!([beside, wants("2")]);
        assert_eq!(Resources::wanted_by(&pod).get("cpu"), 3100);
    }

    #[test]
    fn a_pod_without_requests_still_weighs_something() {
        let pod = json!({"spec": {"containers": [{}, {}]}});
        assert_eq!(Resources::likely_used_by(&pod).get("cpu"), 200);
        assert_eq!(Resources::wanted_by(&pod).get("cpu"), 0);
    }

    #[test]
    fn huge_amounts_are_added_and_taken_away_again() {
        let wants = json!({"resources": {"requests": {"memory": "7E", "cpu": "9E"}}});
        let pod = json!({"spec": {"containers": [wants, wants, wants], "overhead": {"memory": "7E"}}});
        let wanted = Resources::wanted_by(&pod);
        assert_eq!(wanted.get("memory"), 28_000_000_000_000_000_000);
        assert_eq!(wanted.get("cpu"), 3 * i128::from(i64::MAX));
        let mut sum = Resources::read(&json!({"memory": "1Gi"}));
        sum.add(&wanted);
        sum.subtract(&wanted);
        assert_eq!((sum.get("memory"), sum.get("cpu")), (1 << 30, 0));
    }
}
