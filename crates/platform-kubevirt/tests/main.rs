//! What the KubeVirt platform renders, against goldens, an independent admission oracle and properties.

mod admission;
mod builders;
mod golden;
mod problems;
mod properties;
