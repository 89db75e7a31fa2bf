//! Tests of this dialect.
