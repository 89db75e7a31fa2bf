//! The controller of machines on the lab and on the real server. `trellis-load` measures; this shows.

use serde_json::{Value, json};

use super::mebibytes;
use crate::table;

/// What the names of these measurements begin with.
const NAME: &str = "machines: ";

/// What each measurement is compared with, by a part of its name: the target, and what the Go provider needs (CAPK
/// with its limits lifted, on the same kind of machine).
const TARGETS: [(&str, &str); 8] = [
    ("last VM", "118/s and 0.5 of the limit (CAPK: 29/s)"),
    ("requests", "4 to the VM, 6 to Ready (CAPK: 12.5 to the VM)"),
    ("open loop", "p99 60 ms (CAPK: p50 650 ms)"),
    ("burst", "1.6 of the limit"),
    ("Node ready", "p99 50 ms"),
    ("memory", "12 MB, 8 kB each (CAPK: 48 MB, 45 kB each)"),
    ("idle", "no request but Leases, 0.1 %"),
    ("rolling", "1.02 fixed, 1.10 log-normal, no breach"),
];

/// What was measured of the controller.
#[derive(Debug, Default)]
pub(super) struct Machines(Vec<Value>);

impl Machines {
    /// Takes the measurements of the controller out of all.
    pub(super) fn out_of(measurements: &mut Vec<Value>) -> Self {
        let is_ours = |entry: &mut Value| entry["name"].as_str().is_some_and(|name| name.starts_with(NAME));
        Self(measurements.extract_if(.., is_ours).collect())
    }

    /// Prints the table.
    pub(super) fn print(&self) {
        if self.0.is_empty() {
            return;
        }
        let rows: Vec<_> = self.0.iter().map(row).collect();
        let head = ["controller of machines", "on the lab", "on kube-apiserver + etcd", "target"];
        println!("{}", table::lay_out(head, &rows));
    }

    /// For the JSON report.
    pub(super) fn report(&self) -> Value {
        json!(self.0)
    }

    /// True when nothing went wrong.
    pub(super) fn all_measured(&self) -> bool {
        let fine = |entry: &Value| ["lab", "real"].iter().all(|on| entry[on]["not_measured"].is_null());
        self.0.iter().all(fine)
    }
}

fn row(entry: &Value) -> [String; 4] {
    let name = entry["name"].as_str().unwrap_or_default().trim_start_matches(NAME);
    let target = TARGETS.iter().find(|(part, _)| name.contains(part)).map_or("", |(_, target)| target);
    // A measurement in virtual time needs no server.
    let lab = if entry["updates"].is_null() { words(&entry["lab"]) } else { words(entry) };
    [name.to_owned(), lab, words(&entry["real"]), target.to_owned()]
}

/// What was measured, in words.
fn words(measured: &Value) -> String {
    if let Some(why) = measured["not_measured"].as_str() {
        return format!("not measured: {why}");
    }
    let number = |field: &str| measured[field].as_f64();
    let size = |value: &Value| value.as_u64().map(mebibytes).unwrap_or_default();
    let mut words = Vec::new();
    if let (Some(rate), Some(limit), Some(share)) =
        (number("per_second"), number("limit_per_second"), number("of_limit"))
    {
        words.push(format!("{rate:.0}/s, {share:.2} of {limit:.0}/s"));
    }
    if let (Some(server), Some(own), Some(share)) =
        (number("server_cpu_ms"), number("controller_cpu_ms"), number("cpu_of_limit"))
    {
        words.push(format!("CPU each {server:.1} + {own:.1} ms ({share:.2} by CPU)"));
    }
    if let (Some(vm), Some(ready), Some(all), Some(events)) =
        (number("to_vm"), number("to_ready"), number("in_all"), number("events"))
    {
        words.push(format!("{vm:.1} to the VM, {ready:.1} to Ready, {all:.1} in all, {events:.1} Events"));
    }
    if let (Some(half), Some(most)) = (number("p50_ms"), number("p99_ms")) {
        words.push(format!("p50 {half:.1} p99 {most:.1} ms"));
    }
    if let (Some(last), Some(limit)) = (number("last_seconds"), number("limit_seconds")) {
        words.push(format!("last after {last:.1} s, {:.1} of the limit", last / limit));
    }
    if !measured["empty_bytes"].is_null() {
        words.push(format!("{} empty", size(&measured["empty_bytes"])));
        for at in [measured, &measured["many"]] {
            if let (Some(count), Some(each)) = (at["machines"].as_u64(), at["bytes_per_machine"].as_u64()) {
                words.push(format!("{} with {count} ({each} bytes each)", size(&at["resident_bytes"])));
            }
        }
    }
    if let (Some(seconds), Some(requests), Some(share)) =
        (number("seconds"), measured["requests"].as_u64(), number("cpu_percent"))
    {
        words.push(format!("{requests} requests and {share:.2} % of a core in {seconds:.0} s"));
    }
    if let (Some(fixed), Some(changing)) = (number("fixed_of_least"), number("log_normal_of_least")) {
        let (updates, breaches) = (&measured["updates"], &measured["breaches"]);
        words.push(format!(
            "{updates} updates: {fixed:.3} of the least time fixed, {changing:.3} log-normal, {breaches} breaches"
        ));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measurements_of_the_controller_are_taken_out() {
        let mut all = vec![json!({"name": "create"}), json!({"name": "machines: until the last VM object"})];
        let machines = Machines::out_of(&mut all);
        assert_eq!((all.len(), machines.0.len()), (1, 1));
        assert!(machines.all_measured());
    }

    #[test]
    fn figures_read_well() {
        let rate = json!({"per_second": 150.0, "limit_per_second": 250.0, "of_limit": 0.6, "seconds": 6.0});
        let row_of = |name: &str, lab: Value| row(&json!({"name": name, "lab": lab}));
        let row = row_of("machines: until the last VM object", rate);
        assert_eq!(row[1], "150/s, 0.60 of 250/s");
        assert!(row[3].starts_with("118/s"));
        let memory = json!({"empty_bytes": 10 << 20, "machines": 1000, "resident_bytes": 18 << 20,
            "bytes_per_machine": 8388, "many": {"machines": 10_000, "resident_bytes": 90 << 20, "bytes_per_machine": 8000}});
        let told = &row_of("machines: memory of the controller", memory)[1];
        assert_eq!(
            told,
            "10.0 MiB empty, 18.0 MiB with 1000 (8388 bytes each), 90.0 MiB with 10000 (8000 bytes each)"
        );
        let rolling = json!({"name": "machines: rolling updates in virtual time", "updates": 4, "breaches": 0,
            "fixed_of_least": 1.0, "log_normal_of_least": 1.05});
        assert!(super::row(&rolling)[1].contains("1.050 log-normal, 0 breaches"));
        assert_eq!(
            row_of("machines: idle controller", json!({"not_measured": "gone"}))[1],
            "not measured: gone"
        );
    }
}
