//! D4: uploads of large files beside transitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;
use tokio::task::JoinSet;

use super::latency::{PACED_PER_SECOND, act_at_pace};
use super::stage::Stage;
use crate::bench::args::Plan;
use crate::bench::connection::{self, Connection};
use crate::bench::figure::{Figure, Figures, median, millis, quantile};

const UPLOADERS: usize = 2;
const FILE_BYTES: usize = 25 * 1024 * 1024;
const QUICK_FILE_BYTES: usize = 1024 * 1024;
/// The bytes that are sent at once.
const PIECE_BYTES: usize = 256 * 1024;
/// The files of one API key: a principal has at most 250 MiB that are not bound.
const KEY_FILES: usize = 9;
/// The keys of each uploader.
const KEYS: usize = 8;
/// The time between two readings of the server's memory.
const MEMORY_INTERVAL: Duration = Duration::from_millis(20);

struct Sample {
    /// MiB per second.
    uploads: f64,
    quiet: f64,
    beside: f64,
    /// The growth of the server's memory while files are uploaded, in MB.
    growth: f64,
    foreign: f64,
}

pub(super) async fn measure(plan: &Plan, part: &'static str) -> anyhow::Result<Vec<Figure>> {
    let mut samples = Vec::new();
    for _ in super::samples(plan, part) {
        samples.push(take_sample(plan).await?);
    }
    let middle = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
    let figures = Figures::new(part, plan.site.name(), UPLOADERS)
        .with("mebibytesPerSecond", middle(|sample| sample.uploads), "MiB/s")
        .with("quietP95", middle(|sample| sample.quiet), "ms")
        .with("besideP95", middle(|sample| sample.beside), "ms")
        .with("besideOfQuiet", middle(|sample| sample.beside / sample.quiet), "ratio")
        .with("serverGrowth", middle(|sample| sample.growth), "MB")
        .with("foreign", middle(|sample| sample.foreign) * 100.0, "%");
    Ok(figures.list())
}

async fn take_sample(plan: &Plan) -> anyhow::Result<Sample> {
    let stage = Stage::set(plan).await?;
    let requests = (f64::from(PACED_PER_SECOND) * plan.length.as_secs_f64()) as usize;
    let mut runs = stage.prepare(3 * requests, 1).await?;
    let mut client = stage.client().await?;
    act_at_pace(&mut client, &mut runs[..requests]).await?;
    let mut quiet = act_at_pace(&mut client, &mut runs[requests..2 * requests]).await?;
    let mut uploaders = Vec::new();
    for _ in 0..UPLOADERS {
        uploaders.push(Uploader::new(&stage, plan.is_quick).await?);
    }
    // The page cache of SQLite grows with every write until it is full. The memory of uploads is what comes on top.
    for uploader in &uploaders {
        uploader.warm_up().await?;
    }
    let memory = stage.server.process().resident_memory()?;
    let (bytes, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut uploading = JoinSet::new();
    for uploader in uploaders {
        uploading.spawn(uploader.upload_all(Arc::clone(&bytes), Arc::clone(&is_over)));
    }
    let (meter, began) = (stage.meter()?, Instant::now());
    let mut peak = memory;
    let mut beside = {
        let mut acting = std::pin::pin!(act_at_pace(&mut client, &mut runs[2 * requests..]));
        loop {
            tokio::select! {
                times = &mut acting => break times?,
                () = tokio::time::sleep(MEMORY_INTERVAL) => peak = peak.max(stage.server.process().resident_memory()?),
            }
        }
    };
    let (uploads, foreign) = (bytes.load(Ordering::Relaxed), meter.read()?.foreign);
    let time = began.elapsed();
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = uploading.join_next().await {
        ended??;
    }
    stage.clear().await?;
    Ok(Sample {
        uploads: uploads as f64 / (1024.0 * 1024.0) / time.as_secs_f64(),
        quiet: millis(quantile(&mut quiet, 0.95)),
        beside: millis(quantile(&mut beside, 0.95)),
        growth: peak - memory,
        foreign,
    })
}

/// A client that uploads one file after the other.
struct Uploader {
    address: String,
    keys: Vec<String>,
    file_bytes: usize,
}

impl Uploader {
    async fn new(stage: &Stage, is_quick: bool) -> anyhow::Result<Self> {
        let mut keys = Vec::new();
        // The first one is for the file before the sample.
        for _ in 0..=KEYS {
            keys.push(stage.add_key(&json!({"name": "uploader", "permissions": ["workflow:act"]})).await?);
        }
        let file_bytes = if is_quick { QUICK_FILE_BYTES } else { FILE_BYTES };
        Ok(Self { address: stage.server.address.clone(), keys, file_bytes })
    }

    /// Uploads one file before the sample.
    async fn warm_up(&self) -> anyhow::Result<()> {
        let mut connection = Connection::open(&self.address).await?;
        self.upload(&mut connection, &self.keys[0]).await
    }

    /// Counts the bytes of the files that are stored.
    async fn upload_all(self, bytes: Arc<AtomicU64>, is_over: Arc<AtomicBool>) -> anyhow::Result<()> {
        let mut connection = Connection::open(&self.address).await?;
        for key in self.keys[1..].iter().flat_map(|key| std::iter::repeat_n(key, KEY_FILES)) {
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.upload(&mut connection, key).await?;
            bytes.fetch_add(self.file_bytes as u64, Ordering::Relaxed);
        }
        anyhow::bail!("the uploads have reached their quota before the end of the sample")
    }

    async fn upload(&self, connection: &mut Connection, key: &str) -> anyhow::Result<()> {
        let piece = vec![b'x'; PIECE_BYTES];
        let head = connection::upload(&self.address, key, "/v1/files?name=a.bin", self.file_bytes);
        connection.send_bytes(&head).await?;
        for _ in 1..self.file_bytes / PIECE_BYTES {
            connection.send_bytes(&piece).await?;
        }
        let answer = connection.ask(&piece).await?;
        ensure!(answer.status == 201, "no file: {} {}", answer.status, answer.body);
        Ok(())
    }
}
