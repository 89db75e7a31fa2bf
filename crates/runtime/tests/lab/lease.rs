//! Never two for one thing, whatever happens to the members.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use trellis_lab::User;
use trellis_lab::faults::{Fault, Matching, When};
use trellis_runtime::client::Leads;
use trellis_runtime::lease::{Election, Shards, Terms};
use trellis_runtime::{CancellationToken, Dice, Key, Site};

use crate::support::{World, until};

/// A site in the name of a user of its own, so that faults can be meant for it alone.
fn site_of(world: &World, name: &str) -> Site {
    let user = User { name: name.to_owned(), groups: vec!["system:masters".to_owned()], ..User::default() };
    Site::new(name, kube::Client::new(world.lab.service_as(user), "default"))
}

fn cut_off(world: &World, name: &str) {
    let of = Matching { user: name.to_owned(), ..Matching::default() };
    world.lab.faults().add(of, When::Always, Fault::Fail(503));
}

/// One that takes part, until it is dropped as if it had crashed.
struct Candidate {
    election: Election,
    stop: CancellationToken,
    _task: JoinSet<()>,
}

fn candidate(world: &World, name: &str) -> Candidate {
    let key = Key::new("default", "leader");
    let election = Election::new(&site_of(world, name), key, name, world.clock, Terms::default());
    let stop = CancellationToken::new();
    let (running, token) = (election.clone(), stop.clone());
    let mut task = JoinSet::new();
    task.spawn(async move { running.run(&token).await });
    Candidate { election, stop, _task: task }
}

/// Waits until one leads, and checks at every moment that no two do.
async fn leader(candidates: &[&Candidate]) -> (usize, u64, Duration) {
    let began = tokio::time::Instant::now();
    for _ in 0..60_000 {
        let leads: Vec<_> = candidates
            .iter()
            .enumerate()
            .filter_map(|(number, candidate)| Some((number, candidate.election.epoch()?)))
            .collect();
        assert!(leads.len() <= 1, "two lead: {leads:?}");
        if let [(number, epoch)] = leads[..] {
            return (number, epoch, began.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody leads");
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_a_crash_is_survived_after_the_lease() {
    let world = World::new().await;
    let a = candidate(&world, "a");
    assert_eq!(leader(&[&a]).await.0, 0);
    let b = candidate(&world, "b");
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(leader(&[&a, &b]).await.0, 0, "a leader stays one");
    drop(a);
    let (_, epoch, took) = leader(&[&b]).await;
    assert!(took >= Duration::from_secs(11) && took <= Duration::from_secs(16), "{took:?}");
    assert_eq!(epoch, 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_hands_over_at_once() {
    let world = World::new().await;
    let a = candidate(&world, "a");
    leader(&[&a]).await;
    let b = candidate(&world, "b");
    tokio::time::sleep(Duration::from_secs(30)).await;
    a.stop.cancel();
    until("the first has left", || async { a.election.epoch().is_none() }).await;
    let (number, epoch, took) = leader(&[&a, &b]).await;
    assert_eq!((number, epoch), (1, 1));
    assert!(took <= Duration::from_secs(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_another_starts() {
    let world = World::new().await;
    let a = candidate(&world, "a");
    leader(&[&a]).await;
    let b = candidate(&world, "b");
    tokio::time::sleep(Duration::from_secs(30)).await;
    cut_off(&world, "a");
    until("the first has stopped", || async { a.election.epoch().is_none() }).await;
    assert_eq!(b.election.epoch(), None, "there is a pause between two reigns");
    let (number, epoch, _) = leader(&[&a, &b]).await;
    assert_eq!((number, epoch), (1, 1));
    // Who comes back does not take it away.
    world.lab.faults().clear();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(leader(&[&a, &b]).await.0, 1);
}

/// Who acts for each name now.
type Acting = Arc<Mutex<BTreeMap<String, String>>>;

struct Member {
    site: Site,
    shards: Shards,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

const NAMES: usize = 24;

/// A member that acts for all its names all the time, for a while each.
fn member(world: &World, name: &str, acting: &Acting) -> Member {
    let site = site_of(world, name);
    let shards = Shards::new(&site, "default", "machines", name, world.clock, Terms::default());
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let (running, token) = (shards.clone(), stop.clone());
    tasks.spawn(async move { running.run(&token).await });
    for number in 0..NAMES {
        let (shards, acting, me) = (shards.clone(), Arc::clone(acting), name.to_owned());
        let mut dice = Dice::named(number as u64, name);
        tasks.spawn(async move {
            let tenant = format!("tenant-{number}");
            loop {
                if let Some(pass) = shards.enter(&tenant) {
                    let other = acting.lock().insert(tenant.clone(), me.clone());
                    assert_eq!(other, None, "two act for {tenant}");
                    let mut left = dice.between(Duration::ZERO, Duration::from_secs(2));
                    // It stops when its right ends, as a look does before each write.
                    while pass.is_valid() && left > Duration::ZERO {
                        left = left.saturating_sub(Duration::from_millis(50));
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    acting.lock().remove(&tenant);
                }
                tokio::time::sleep(dice.between(Duration::from_millis(1), Duration::from_millis(300))).await;
            }
        });
    }
    Member { site, shards, stop, tasks }
}

impl Member {
    fn share(&self) -> usize {
        (0..NAMES).filter(|number| self.shards.owns(&format!("tenant-{number}"))).count()
    }

    /// What a panic in a task says, if there was one.
    async fn check(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            ended.expect("two act for one");
        }
        tokio::task::yield_now().await;
    }

    /// Ends it without a word.
    fn crash(mut self, acting: &Acting, name: &str) {
        self.tasks.abort_all();
        acting.lock().retain(|_, member| member != name);
    }
}

/// Waits until all names are shared out among these.
async fn shared_out(members: &mut [&mut Member]) {
    for _ in 0..60_000 {
        for member in members.iter_mut() {
            member.check().await;
        }
        let shares: Vec<_> = members.iter().map(|member| member.share()).collect();
        if shares.iter().sum::<usize>() == NAMES && shares.iter().all(|share| *share > 0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!(
        "{:?}",
        members.iter().map(|member| (member.share(), member.shards.members())).collect::<Vec<_>>()
    );
}

#[tokio::test(start_paused = true)]
async fn no_name_has_two_owners_while_members_come_and_go() {
    let world = World::new().await;
    let acting = Acting::default();
    let mut a = member(&world, "a", &acting);
    shared_out(&mut [&mut a]).await;
    let mut b = member(&world, "b", &acting);
    let mut c = member(&world, "c", &acting);
    shared_out(&mut [&mut a, &mut b, &mut c]).await;
    // One leaves: its share is taken at once.
    b.stop.cancel();
    let began = tokio::time::Instant::now();
    shared_out(&mut [&mut a, &mut c]).await;
    assert!(began.elapsed() <= Duration::from_secs(10), "{:?}", began.elapsed());
    b.check().await;
    // One crashes: its share is taken when its lease has run out.
    let began = tokio::time::Instant::now();
    c.crash(&acting, "c");
    shared_out(&mut [&mut a]).await;
    assert!(began.elapsed() >= Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_stops_before_others_start() {
    let world = World::new().await;
    let acting = Acting::default();
    let mut a = member(&world, "a", &acting);
    let mut b = member(&world, "b", &acting);
    shared_out(&mut [&mut a, &mut b]).await;
    for _ in 0..5 {
        cut_off(&world, "a");
        // Its watch is lost too, and comes back later than its writes do.
        a.site.swap(a.site.client(), Leads::Same);
        until("it has stopped", || async { a.share() == 0 }).await;
        shared_out(&mut [&mut b]).await;
        world.lab.faults().clear();
        shared_out(&mut [&mut a, &mut b]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_lost_make_no_second_owner() {
    let world = World::new().await;
    let acting = Acting::default();
    // Every third write of a lease takes effect without an answer, every fourth is late.
    let lost = Fault::TimeoutAfter(Duration::from_secs(3));
    for number in 1..200 {
        let patch = Matching::new("patch", "leases");
        if number % 3 == 0 {
            world.lab.faults().add(patch, When::Occurrence(number), lost.clone());
        } else if number % 4 == 0 {
            world.lab.faults().add(patch, When::Occurrence(number), Fault::Delay(Duration::from_secs(2)));
        }
    }
    let mut a = member(&world, "a", &acting);
    let mut b = member(&world, "b", &acting);
    shared_out(&mut [&mut a, &mut b]).await;
    let mut c = member(&world, "c", &acting);
    shared_out(&mut [&mut a, &mut b, &mut c]).await;
    b.stop.cancel();
    shared_out(&mut [&mut a, &mut c]).await;
    for member in [&mut a, &mut b, &mut c] {
        member.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_share_is_told_of_and_is_kept_while_the_lease_is_renewed() {
    let world = World::new().await;
    let site = site_of(&world, "a");
    let shards = Shards::new(&site, "default", "machines", "a", world.clock, Terms::default());
    let mut changes = shards.changes();
    let (running, stop) = (shards.clone(), CancellationToken::new());
    let token = stop.clone();
    let task = tokio::spawn(async move { running.run(&token).await });
    let began = tokio::time::Instant::now();
    while !shards.owns("tenant") {
        changes.changed().await.unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let pass = shards.enter("tenant").unwrap();
    let end = tokio::time::Instant::now() + Duration::from_mins(2);
    // Asked at every change, as a daemon does that ends what is no longer its own.
    while tokio::time::timeout_at(end, changes.changed()).await.is_ok() {
        assert!(shards.owns("tenant") && pass.is_valid() && shards.is_member());
    }
    drop(pass);
    stop.cancel();
    task.await.unwrap();
    assert!(!shards.is_member());
}
