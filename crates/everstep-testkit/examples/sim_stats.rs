use everstep_testkit::sim::{self, Options};
fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let (from, to) = (args[0], args[1]);
    let (mut polls, mut most, mut runs, mut entries, mut crashes, mut faults) = (0, 0, 0, 0, 0, 0);
    for seed in from..to {
        match sim::play(seed, &Options::default()) {
            Ok(r) => { polls += r.polls; most = most.max(r.polls); runs += r.runs; entries += r.entries; crashes += r.crashes; faults += r.faults; }
            Err(f) => eprintln!("{f}"),
        }
    }
    let n = to - from;
    eprintln!("per seed: polls {} (most {most}) runs {} entries {} crashes {:.1} faults {:.1}", polls / n, runs as u64 / n, entries as u64 / n, f64::from(crashes) / n as f64, f64::from(faults) / n as f64);
}
