#![no_main]

use trellis_dialects::fuzz::exercise;
use trellis_dialects::read::Dialect;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise(Dialect::Gardener, bytes));
