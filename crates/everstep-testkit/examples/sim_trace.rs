use everstep_testkit::sim::{self, Options};
fn main() {
    let seed: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    match sim::play(seed, &Options { has_trace: true, ..Options::default() }) {
        Ok(r) => eprintln!("{r:?}"),
        Err(f) => eprintln!("{f}"),
    }
}
