//! Prints the hashes of random cases, one per line, and then their checksum, as this machine computes them: the test of
//! the module compares a browser's with these.
//!
//! `cargo run --release -p layernorm-web --example case_hashes -- 10000 1` (cases, seed)

use layernorm_web::{Cases, Error, checksum, hexadecimal};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().ok());
    let (Some(Some(count)), Some(Some(seed))) = (arguments.next(), arguments.next()) else {
        eprintln!("expected two whole numbers: how many cases, and the seed");
        std::process::exit(2);
    };
    let mut cases = Cases::new()?;
    for number in 0..count {
        println!("{}", hexadecimal(cases.hash(seed, number)?));
    }
    println!("{}", hexadecimal(checksum(seed, count)?));
    Ok(())
}
