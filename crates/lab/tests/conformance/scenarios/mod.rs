//! The scenarios, by what they are about.

use crate::context::Run;

/// Lists the scenarios of a file.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        /// The scenarios of this file.
        pub(super) fn all() -> Vec<(&'static str, crate::context::Run)> {
            vec![$((stringify!($name), |cx| Box::pin($name(cx)))),*]
        }
    };
}

mod aggregation;
mod apply;
mod apply_lists;
mod authentication;
mod authorization;
mod crd_conversion;
mod crd_lifecycle;
mod crd_rules;
mod crd_schema;
mod crd_values;
mod crd_versions;
mod create;
mod custom_writes;
mod delete;
mod discovery;
mod encodings;
mod errors;
mod garbage;
mod kinds;
mod limits;
mod list;
mod managers;
mod mutations;
mod namespaces;
mod openapi;
mod options;
mod patch;
mod paths;
mod pod_actions;
mod pods;
mod policies;
mod reviews;
mod selectors;
mod services;
mod storage;
mod strategic;
mod tables;
mod trellis;
mod update;
mod watch;
mod webhooks;
mod writes;

/// Collects the scenarios of files under the files' names.
macro_rules! files {
    ($($file:ident),* $(,)?) => {
        [$((stringify!($file), $file::all())),*]
    };
}

/// All scenarios: file, name, and what to run.
pub(crate) fn all() -> Vec<(&'static str, &'static str, Run)> {
    let files = files![
        aggregation,
        apply,
        apply_lists,
        authentication,
        authorization,
        crd_conversion,
        crd_lifecycle,
        crd_rules,
        crd_schema,
        crd_values,
        crd_versions,
        create,
        custom_writes,
        delete,
        discovery,
        encodings,
        errors,
        garbage,
        kinds,
        limits,
        list,
        managers,
        mutations,
        namespaces,
        openapi,
        options,
        patch,
        paths,
        pod_actions,
        pods,
        policies,
        reviews,
        selectors,
        services,
        storage,
        strategic,
        tables,
        trellis,
        update,
        watch,
        webhooks,
        writes,
    ];
    let named = |(file, scenarios): (&'static str, Vec<(&'static str, Run)>)| {
        scenarios.into_iter().map(move |(name, run)| (file, name, run))
    };
    files.into_iter().flat_map(named).collect()
}
