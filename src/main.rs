//! The `refrain` program.

fn main() {}
