//! Temporary entry.
use clap::Parser;
#[path = "../src/bench/mod.rs"]
pub mod bench;
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    c: C,
}
#[derive(clap::Subcommand)]
enum C {
    Bench(bench::Args),
}
#[tokio::main]
async fn main() -> anyhow::Result<std::process::ExitCode> {
    let C::Bench(args) = Cli::parse().c;
    bench::run(args).await
}
