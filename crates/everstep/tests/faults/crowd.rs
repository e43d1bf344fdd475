//! Clients that start runs and do not give up: they send the same request with the same key until it is answered.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Client, wait_for};

/// The number of clients.
const CLIENTS: usize = 6;
/// A request without a response after this time will never get one.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two tries, and between two runs of one client.
const PAUSE: Duration = Duration::from_millis(20);

/// The clients, the nodes to which they send requests in turn, and the responses.
pub(crate) struct Crowd {
    nodes: Mutex<Vec<Client>>,
    next: AtomicUsize,
    is_over: AtomicBool,
    answers: Mutex<Answers>,
}

/// The responses that clients received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// The paths of the runs whose starts were answered, by their keys.
    pub(crate) runs: BTreeMap<String, String>,
    /// Requests with the response 503 or 504, or without a response.
    pub(crate) refused: usize,
    /// The longest time from a first try to the response.
    pub(crate) longest: Duration,
}

/// Ends the load, even if a test fails during it.
pub(crate) struct Load<'a>(&'a Crowd);

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

impl Crowd {
    pub(crate) fn new(nodes: &[&Client]) -> Self {
        Self {
            nodes: Mutex::new(nodes.iter().copied().cloned().collect()),
            next: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            answers: Mutex::default(),
        }
    }

    /// Sends requests to other nodes from now on.
    pub(crate) fn ask(&self, nodes: &[&Client]) {
        *self.nodes.lock().unwrap() = nodes.iter().copied().cloned().collect();
    }

    pub(crate) fn answers(&self) -> Answers {
        self.answers.lock().unwrap().clone()
    }

    /// Starts runs of all these workflows, one after the other, until the returned value is dropped. A run of `waits`
    /// also receives its signal.
    pub(crate) fn load<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        workflows: &'scope [&'scope str],
    ) -> Load<'scope> {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for n in (0..).take_while(|_| !self.is_over.load(Ordering::SeqCst)) {
                    let workflow = workflows[(client + n) % workflows.len()];
                    let run = self.start(workflow, &format!("{client}-{n}"));
                    if workflow == "waits" {
                        self.signal(&run);
                    }
                    std::thread::sleep(PAUSE);
                }
            });
        }
        Load(self)
    }

    /// Waits until this many more runs were started.
    pub(crate) fn wait_for_more(&self, count: usize) {
        let before = self.answers.lock().unwrap().runs.len();
        wait_for("more runs", || (self.answers.lock().unwrap().runs.len() >= before + count).then_some(()));
    }

    /// Starts this many runs of a workflow, several at the same time.
    pub(crate) fn start_all(&self, workflow: &str, count: usize) -> Vec<String> {
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let keys = (client..count).step_by(CLIENTS).map(|n| format!("{workflow} {n}"));
                    scope.spawn(move || keys.map(|key| self.start(workflow, &key)).collect::<Vec<_>>())
                })
                .collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        })
    }

    /// Signals runs, several at the same time. Each of them waits.
    pub(crate) fn signal_all(&self, runs: &[String]) {
        std::thread::scope(|scope| {
            for runs in runs.chunks(runs.len().div_ceil(CLIENTS).max(1)) {
                scope.spawn(move || runs.iter().for_each(|run| self.signal(run)));
            }
        });
    }

    /// Starts a run and returns its path.
    pub(crate) fn start(&self, workflow: &str, key: &str) -> String {
        let answer = self.insist("/v1/workflow-runs", key, &json!({"definitionId": workflow}));
        let run = format!("/v1/runs/{}", answer["run"]["id"].as_str().unwrap());
        let before = self.answers.lock().unwrap().runs.insert(key.to_owned(), run.clone());
        assert!(before.is_none_or(|before| before == run), "one key has two runs");
        run
    }

    fn signal(&self, run: &str) {
        let answer = self.insist(&format!("{run}/signals/go"), "go", &json!({"gone": true}));
        // A repeated signal was accepted before, and its response lost.
        assert!(["accepted", "repeated"].contains(&answer["outcome"].as_str().unwrap()), "{run}: {answer}");
    }

    /// Sends a request to one node after the other until one of them can answer it.
    fn insist(&self, path: &str, key: &str, body: &Value) -> Value {
        let began = Instant::now();
        loop {
            let node = {
                let nodes = self.nodes.lock().unwrap();
                nodes[self.next.fetch_add(1, Ordering::Relaxed) % nodes.len()].clone()
            };
            let answer = node.try_ask("POST", path, &[("idempotency-key", key)], body);
            let refusal = match answer {
                Ok(answer) if [200, 201].contains(&answer.status) => {
                    let mut answers = self.answers.lock().unwrap();
                    answers.longest = answers.longest.max(began.elapsed());
                    return answer.body;
                }
                Ok(answer) if [503, 504].contains(&answer.status) => answer.body.to_string(),
                Ok(answer) => panic!("{path}: {} {}", answer.status, answer.body),
                Err(error) => error.to_string(),
            };
            assert!(began.elapsed() < REQUEST_TIMEOUT, "{path} is refused for {REQUEST_TIMEOUT:?}: {refusal}");
            self.answers.lock().unwrap().refused += 1;
            std::thread::sleep(PAUSE);
        }
    }
}
