//! What changes are about: watches are begun, and who has to be looked at again is named.

use std::sync::Arc;

use trellis_platform_kubevirt::seen::Seen;
use trellis_runtime::{Key, Resource, Site};

use super::Tenant;
use crate::controllers::cached::Cached;
use crate::controllers::health::{self, Ward};
use crate::controllers::infra::Kind;
use crate::controllers::work::{COMING, Task};
use crate::controllers::{certificates, machine, sweep};
use crate::families::Object;

impl Tenant {
    /// Names what changes are about.
    pub(super) fn listen(self: &Arc<Self>) {
        let control = &self.control;
        let this = Arc::downgrade(self);
        let named = move |act: &dyn Fn(&Self)| {
            if let Some(this) = this.upgrade() {
                act(&this);
            }
        };
        let tell = named.clone();
        control.machines.cache.listen(move |change| {
            tell(&|this| {
                for machine in change.both() {
                    this.queue
                        .add(&Task::Machine(machine.metadata.name().to_owned()), machine::lane(machine));
                    this.name_owner(machine);
                }
                health::machine_changed(this, change);
                if change.new.is_none() {
                    sweep::name(this);
                }
            });
        });
        for things in control.checks.iter().chain(&control.pools) {
            let tell = named.clone();
            things.cache.listen(move |change| {
                tell(&|this| {
                    if let (Some(gone), None) = (&change.old, &change.new) {
                        this.health.forget(&gone.metadata.key);
                    }
                    for check in change.both() {
                        let ward = Ward::Check(check.metadata.key.clone());
                        this.queue.add(&Task::Ward(ward), COMING);
                    }
                });
            });
        }
        for things in control.sets.iter().chain(&control.pools) {
            let tell = named.clone();
            let resource = things.resource;
            things.cache.listen(move |change| {
                tell(&|this| {
                    for thing in change.both() {
                        this.name_thing(&resource, thing);
                    }
                    if let (Some(gone), None) = (&change.old, &change.new) {
                        this.memory.lock().starts.remove(&*gone.metadata.uid);
                    }
                    this.queue.add(&Task::Cluster, COMING);
                });
            });
        }
        self.listen_to_machines(&named);
        let infra = &self.infra;
        if let Some(certificates) = &self.certificates {
            let tell = named.clone();
            certificates.requests.listen(move |change| {
                tell(&|this| match (&change.old, &change.new) {
                    (_, Some(request)) => certificates::request_changed(this, request),
                    (Some(gone), None) => certificates::request_gone(this, gone),
                    (None, None) => {}
                });
            });
            let tell = named.clone();
            infra.instances.cache.listen(move |change| {
                tell(&|this| {
                    for machine in change.both().filter_map(|instance| instance.machine()) {
                        certificates::machine_changed(this, machine);
                    }
                });
            });
        }
        if let Some(hosts) = &infra.hosts {
            let tell = named.clone();
            hosts.cache.listen(move |change| {
                tell(&|this| {
                    if let Some(host) = &change.new {
                        this.infra.host_is_there(&host.meta().name);
                    }
                    for host in change.both() {
                        this.name_machines_on(&host.meta().name);
                    }
                });
            });
        }
        self.listen_to_guests(named);
    }

    /// What is seen of machines, and of what they share.
    fn listen_to_machines(&self, named: &(impl Fn(&dyn Fn(&Self)) + Clone + Send + Sync + 'static)) {
        let infra = &self.infra;
        name_machine(&infra.machines, named.clone());
        name_machine(&infra.instances, named.clone());
        name_machine(&infra.migrations, named.clone());
        name_machine(&infra.pods, named.clone());
        name_machine(&infra.secrets, named.clone());
        name_machine(&infra.services, named.clone());
        name_machine(&infra.volumes, named.clone());
        let tell = named.clone();
        infra.volumes.cache.listen(move |change| {
            tell(&|this| {
                // An image: everybody who waits for it.
                if change.both().any(|volume| volume.machine().is_none()) {
                    this.queue.add(&Task::Cluster, COMING);
                }
            });
        });
        for shared in &infra.shared {
            let (tell, kind) = (named.clone(), shared.kind());
            shared.cache.listen(move |change| {
                tell(&|this| {
                    if let Some(old) = &change.old {
                        this.shared_changed(kind, old.metadata.name());
                    }
                });
            });
        }
    }

    fn listen_to_guests(&self, named: impl Fn(&dyn Fn(&Self)) + Send + Sync + 'static) {
        if let Some(guests) = &self.guests {
            guests.nodes.listen(move |change| {
                named(&|this| {
                    for node in change.both() {
                        // A kubelet may call itself by another name than its machine's.
                        let by_firmware = this.control.by_firmware.keys(&node.seen.system_uuid);
                        let others = by_firmware.iter().map(Key::name).filter(|name| *name != node.seen.name);
                        for machine in std::iter::once(node.seen.name.as_str()).chain(others) {
                            this.name_by_name(machine);
                            health::node_changed(this, machine);
                            certificates::machine_changed(this, machine);
                        }
                        sweep::part_changed(this, Some(&node.seen.name));
                    }
                });
            });
        }
    }

    pub(super) fn begin_watching(self: &Arc<Self>) {
        let (watches, control, infra) = (&self.watches, &self.control, &self.infra);
        for things in control.things() {
            watches.watch(&things.cache, &control.site);
        }
        if let Some(history) = &control.history {
            watches.watch(history, &control.site);
        }
        watches.watch(&infra.machines.cache, &infra.site);
        watches.watch(&infra.instances.cache, &infra.site);
        watches.watch(&infra.volumes.cache, &infra.site);
        watches.watch(&infra.migrations.cache, &infra.site);
        watches.watch(&infra.pods.cache, &infra.site);
        watches.watch(&infra.secrets.cache, &infra.site);
        watches.watch(&infra.services.cache, &infra.site);
        if let Some(hosts) = &infra.hosts {
            watches.watch(&hosts.cache, &infra.site);
        }
        let mut sites = vec![control.site.clone(), infra.site.clone()];
        if let Some(guests) = &self.guests {
            watches.watch(&guests.nodes, &guests.site);
            if let Some(certificates) = &self.certificates {
                watches.watch(&certificates.requests, &guests.site);
            }
            sites.push(guests.site.clone());
        }
        let mut healths: Vec<_> = sites.iter().map(Site::health).collect();
        healths.extend(self.feeds().into_iter().map(|(_, health)| health));
        healths.extend(infra.hosts.as_ref().map(|hosts| hosts.cache.health()));
        for site in sites {
            watches.spawn(async move { site.attend().await });
        }
        for mut health in healths {
            let this = Arc::downgrade(self);
            watches.spawn(async move {
                while health.changed().await.is_ok() {
                    let Some(this) = this.upgrade() else { return };
                    if health.borrow_and_update().is_up() {
                        this.memory.lock().calm_since = Some(this.clock.now());
                    }
                    this.name_machines();
                    health::name_all(&this);
                    sweep::name(&this);
                }
            });
        }
    }

    /// Waits until everything is known that decisions are made from. A tenant that does not answer holds up nothing.
    pub(crate) async fn known(&self) {
        for things in self.control.things() {
            things.cache.synced().await;
        }
        if let Some(history) = &self.control.history {
            history.synced().await;
        }
        let infra = &self.infra;
        infra.machines.cache.synced().await;
        infra.instances.cache.synced().await;
        infra.volumes.cache.synced().await;
        infra.migrations.cache.synced().await;
        infra.pods.cache.synced().await;
        infra.secrets.cache.synced().await;
        infra.services.cache.synced().await;
        if let Some(hosts) = &infra.hosts {
            hosts.cache.synced().await;
        }
    }

    pub(crate) fn name_all(&self) {
        self.queue.add(&Task::Cluster, COMING);
        for things in self.control.sets.iter().chain(&self.control.pools) {
            for thing in things.cache.all() {
                self.name_thing(&things.resource, &thing);
            }
        }
        self.name_machines();
        health::name_all(self);
        sweep::name(self);
    }

    pub(super) fn name_machines(&self) {
        for machine in self.control.machines.cache.all() {
            self.queue.add(&Task::Machine(machine.metadata.name().to_owned()), machine::lane(&machine));
        }
    }

    fn name_by_name(&self, name: &str) {
        let key = Key::new(&self.control.namespace, name);
        if let Some(machine) = self.control.machines.get(&key) {
            self.queue.add(&Task::Machine(name.to_owned()), machine::lane(&machine));
        }
    }

    fn name_machines_on(&self, host: &str) {
        let on_host = |instance: &Cached<trellis_platform_kubevirt::seen::VirtualMachineInstance>| {
            instance.hosts().any(|name| name == host)
        };
        for instance in self.infra.instances.cache.filter(on_host) {
            if let Some(machine) = instance.machine() {
                self.name_by_name(machine);
            }
        }
    }

    fn name_owner(&self, machine: &Object) {
        let Some(owner) = &machine.metadata.owner else { return };
        let key = Key::new(machine.metadata.namespace(), &owner.name);
        if self.control.pools.as_ref().is_some_and(|pools| pools.resource.kind == &*owner.kind) {
            self.queue.add(&Task::Pool(key), COMING);
        } else if let Some(set) = self.control.sets.as_ref().and_then(|sets| sets.get(&key)) {
            self.name_set(&set);
        }
    }

    fn name_thing(&self, resource: &Resource, thing: &Object) {
        if self.control.pools.as_ref().is_some_and(|pools| pools.resource == *resource) {
            self.queue.add(&Task::Pool(thing.metadata.key.clone()), COMING);
        } else {
            self.name_set(thing);
        }
    }

    fn name_set(&self, set: &Object) {
        let task = match &set.metadata.owner {
            Some(pool) => Task::Pool(Key::new(set.metadata.namespace(), &pool.name)),
            None => Task::Set(set.metadata.key.clone()),
        };
        self.queue.add(&task, COMING);
    }
}

fn name_machine<T: Seen>(kind: &Kind<T>, named: impl Fn(&dyn Fn(&Tenant)) + Send + Sync + 'static) {
    kind.cache.listen(move |change| {
        named(&|tenant| {
            for object in change.both() {
                if let Some(machine) = object.machine() {
                    tenant.name_by_name(machine);
                }
                sweep::part_changed(tenant, object.meta().machine.as_deref());
            }
        });
    });
}
