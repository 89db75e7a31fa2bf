//! Failures that really happened to others in this domain, each as a plan of ours. What happened there is said in our
//! words; the numbers are those of their trackers.

use trellis_simulation::plan::{Perturbation, Plan};
use trellis_simulation::run::{Manner, run};

/// Runs a scenario with these things going wrong, each at the first point that begins so, and expects no harm.
fn unharmed(scenario: &str, troubles: &[&str], faults: &[(Perturbation, &str)]) {
    let undisturbed = Plan::undisturbed(scenario, 1);
    let reference = run(&undisturbed, &Manner::default()).unwrap();
    assert!(reference.is_good(), "{}", reference.timeline);
    let mut plan = undisturbed;
    plan.troubles = troubles.iter().map(|trouble| (*trouble).to_owned()).collect();
    for (what, prefix) in faults {
        let mut points = reference.points.iter().map(|seen| &seen.point);
        let point = points.find(|point| point.to_string().starts_with(prefix));
        plan = plan.with(*what, point.unwrap_or_else(|| panic!("there is no point {prefix}")));
    }
    let manner = Manner { reference: Some(reference.reference), ..Manner::default() };
    let outcome = run(&plan, &manner).unwrap();
    assert!(outcome.is_good(), "{plan}\n{:?}\n{}", outcome.violations, outcome.timeline);
}

/// machine-controller-manager 1091: caches that lagged behind had it make a third more machines than were asked for.
#[test]
fn caches_that_lag_make_no_machine_too_many() {
    unharmed(
        "scale-up",
        &[],
        &[
            (Perturbation::Stale, "control:ADDED:machines/"),
            (Perturbation::Stale, "infra:ADDED:virtualmachines/"),
        ],
    );
}

/// machine-controller-manager 583 and its provider for AWS 127: a sweep for orphans removed a VM that was being made.
#[test]
fn a_sweep_leaves_a_vm_that_is_being_made() {
    unharmed("scale-up", &["slow-storage:0:3000"], &[(Perturbation::CrashStale, "control:create:machines/")]);
}

/// machine-controller-manager 318: a lease that was lost in the middle of making machines left six VMs to nobody.
#[test]
fn a_lease_that_is_lost_leaves_no_vm_to_nobody() {
    unharmed("scale-up", &["twins:20:0", "partition-control:25:90"], &[]);
}

/// The provider for CloudStack 190: a machine that was deleted before its VM's id was known left the VM behind.
#[test]
fn a_machine_that_goes_before_its_vm_is_known_takes_it_along() {
    unharmed("abandoned", &[], &[(Perturbation::Lost, "infra:create:virtualmachines/")]);
    unharmed("abandoned", &[], &[(Perturbation::CrashAfter, "infra:create:virtualmachines/")]);
}

/// Cluster API 316: a cache that did not show a machine's own VM yet had a second one made.
#[test]
fn a_cache_from_before_makes_no_second_vm() {
    unharmed("scale-up", &[], &[(Perturbation::CrashStale, "infra:create:virtualmachines/")]);
}

/// Ours, found by `scale-down seed=1 crash-after@infra:delete:virtualmachines/…#1`: the Service of a machine went after its
/// VM, and whoever was killed between the two never came back for it.
#[test]
fn a_crash_between_the_end_of_a_vm_and_that_of_its_service_leaves_neither() {
    unharmed("scale-down", &[], &[(Perturbation::CrashAfter, "infra:delete:virtualmachines/")]);
    unharmed("scale-down", &[], &[(Perturbation::CrashAfter, "infra:delete:services/")]);
}
