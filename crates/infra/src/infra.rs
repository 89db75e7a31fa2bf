//! A whole infra cluster.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::client::{ApiError, Client, Identity};
use crate::clock::Clock;
use crate::context::{Context, Tasks};
use crate::guests::Programs;
use crate::kinds::CONFIG_MAP;
use crate::service::install::{self, Reach};
use crate::service::serve::{self, Listening, ServeError};
use crate::service::{Access, FrontProxy, Service, access};
use crate::settings::{Manager, Settings};
use crate::stages::Stages;
use crate::world::World;
use crate::{cdi, crds, hosts, kubevirt, manager, network, scheduler, storage};

/// How often an API server is asked how it can be told from others.
const PATIENCE: u32 = 60;
/// How long to wait in between.
const POLL: Duration = Duration::from_millis(500);

/// Why an infra cluster cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum InfraError {
    /// The API server refused something the cluster is made of.
    #[error("the infra cluster cannot be set up: {0}")]
    Api(#[from] ApiError),
    /// The webhooks cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// A running infra cluster. It ends when this is dropped; what it wrote stays on the API server.
#[derive(Debug)]
pub struct Infra {
    context: Context,
    tasks: Tasks,
    listening: Option<Listening>,
    uploads: Option<Listening>,
}

impl Infra {
    /// A cluster on the API server of `client`, whose user has to have all rights. Nothing happens before it is
    /// started. Has to be called inside a tokio runtime.
    pub fn new(client: kube::Client, settings: Settings, programs: Programs) -> Self {
        Self::on(World::default(), client, settings, programs)
    }

    /// The same on a world that is there already.
    pub fn on(world: World, client: kube::Client, settings: Settings, programs: Programs) -> Self {
        let clock = settings.virtual_start.map_or(Clock::System, Clock::starting_at);
        let context = Context {
            client: Client::new(client, Identity::INSTALLER),
            clock,
            stages: Stages::new(settings.profile, settings.seed),
            world,
            settings: Arc::new(settings),
            programs: Arc::new(programs),
        };
        Self { context, tasks: Tasks::default(), listening: None, uploads: None }
    }

    /// What the components share.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The webhooks and aggregated APIs, for mounting them in a lab behind the [`install::SERVICES`].
    pub fn service(&self) -> Service {
        Service::new(self.context.clone())
    }

    /// Sets the cluster up on a lab in which [`Infra::service`] is mounted, and starts its components.
    pub async fn start_mounted(&mut self) -> Result<(), InfraError> {
        self.started(None).await
    }

    /// Sets the cluster up beside any API server that reaches loopback, and starts its components.
    pub async fn start_beside(&mut self) -> Result<(), InfraError> {
        let front_proxy = self.front_proxy().await?;
        let listening = self.listen(Access::Reviews, Some(front_proxy)).await?;
        self.started(Some(listening)).await
    }

    /// Boxed, so that setting up is not compiled anew in every program that has an infra cluster.
    fn started(&mut self, listening: Option<Listening>) -> BoxFuture<'_, Result<(), InfraError>> {
        Box::pin(self.start(listening))
    }

    /// How the API server can be told from others. It says so soon after it has started.
    async fn front_proxy(&self) -> Result<FrontProxy, InfraError> {
        let key = access::front_proxy_key();
        for _ in 0..PATIENCE {
            let found = self.context.client.get(&CONFIG_MAP, &key).await?;
            if let Some(found) = found.as_ref().and_then(FrontProxy::of) {
                return Ok(found);
            }
            tokio::time::sleep(POLL).await;
        }
        Err(ServeError::FrontProxy(format!("{key} does not say what it shows")).into())
    }

    async fn listen(&self, access: Access, front_proxy: Option<FrontProxy>) -> Result<Listening, ServeError> {
        let names: Vec<String> =
            install::SERVICES.iter().map(|(namespace, name)| format!("{name}.{namespace}.svc")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        serve::listen(self.service().with(access), &names, front_proxy).await
    }

    async fn start(&mut self, listening: Option<Listening>) -> Result<(), InfraError> {
        let context = &self.context;
        crds::install(&context.client).await?;
        let reach = listening.as_ref().map_or(Reach::Mounted, Reach::Beside);
        install::install(&context.client, reach).await?;
        storage::install(context).await?;
        hosts::install(context).await?;
        // Uploads come from outside the cluster: they need an address even where the services are mounted.
        let uploads = match &listening {
            None if context.settings.sockets => Some(self.listen(Access::Uploads, None).await?),
            _ => None,
        };
        let url = uploads.as_ref().or(listening.as_ref()).map(|at| (format!("https://{}", at.address), at));
        let upload =
            url.as_ref().map(|(url, at)| cdi::config::UploadAddress { url, authority: &at.authority });
        cdi::install(context, upload).await?;
        kubevirt::install(context).await?;
        kubevirt::shapes::common::install(context).await?;
        network::start(context, &mut self.tasks);
        hosts::start(context, &mut self.tasks);
        if context.settings.manager == Manager::Embedded {
            manager::start(context, &mut self.tasks);
        }
        scheduler::start(context, &mut self.tasks);
        storage::start(context, &mut self.tasks);
        cdi::start(context, &mut self.tasks);
        kubevirt::start(context, &mut self.tasks);
        self.listening = listening;
        self.uploads = uploads;
        Ok(())
    }
}
