//! Plans that are shown a wrong picture: the world must notice each of them.

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use trellis_engine::pools::{MachineState, SetSeen};

use crate::rolling::{live, stories};
use crate::world::{Lens, World, at};

/// The first breach that some story finds in a broken world.
fn breach(prepare: impl Fn(&mut World)) -> String {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for _ in 0..3000 {
        let story = stories().new_tree(&mut runner).unwrap().current();
        if let Some(breach) = live(&story, &prepare).breaches.into_iter().next() {
            return breach;
        }
    }
    "nothing was noticed".to_owned()
}

fn each(mut sets: Vec<SetSeen>, change: impl Fn(&mut SetSeen)) -> Vec<SetSeen> {
    sets.iter_mut().for_each(change);
    sets
}

#[test]
fn to_overlook_machines_that_are_going_is_noticed() {
    let lens: Lens = |sets| {
        each(sets, |set| set.members.retain(|member| member.state != MachineState::Going || member.preserved))
    };
    let breach = breach(|world| {
        world.lens = lens;
        world.limits = false;
    });
    assert!(breach.contains("machines exist"), "{breach}");
}

#[test]
fn to_make_machines_beyond_the_limit_is_noticed() {
    let breach = breach(|world| world.limits = false);
    assert!(breach.contains("machines exist"), "{breach}");
}

#[test]
fn to_count_coming_machines_as_available_is_noticed() {
    let lens: Lens = |sets| {
        each(sets, |set| {
            for member in &mut set.members {
                if member.state == MachineState::Coming {
                    member.state = MachineState::Ready(at(0));
                }
            }
        })
    };
    let breach = breach(|world| world.lens = lens);
    assert!(breach.contains("are available"), "{breach}");
}

#[test]
fn to_overlook_how_long_a_node_is_ready_is_noticed() {
    let lens: Lens = |sets| {
        each(sets, |set| {
            for member in &mut set.members {
                if let MachineState::Ready(_) = member.state {
                    member.state = MachineState::Ready(at(0));
                }
            }
        })
    };
    let breach = breach(|world| world.lens = lens);
    assert!(breach.contains("are available"), "{breach}");
}

#[test]
fn to_take_failed_machines_for_coming_ones_is_noticed() {
    // Then a kept machine would be counted.
    let lens: Lens = |sets| {
        each(sets, |set| {
            for member in &mut set.members {
                member.preserved = false;
            }
        })
    };
    let breach = breach(|world| world.lens = lens);
    assert_ne!(breach, "nothing was noticed");
}

#[test]
fn to_forget_old_sets_is_noticed() {
    let lens: Lens = |mut sets| {
        sets.sort_by_key(|set| set.number);
        sets.split_off(sets.len().saturating_sub(1))
    };
    let breach = breach(|world| world.lens = lens);
    assert_ne!(breach, "nothing was noticed");
}
