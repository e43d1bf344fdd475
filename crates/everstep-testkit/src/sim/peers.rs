//! The connection between nodes: requests are rejected, lost or late, or their replies are; hints are lost or late.

use std::time::Duration;

use async_trait::async_trait;
use everstep_core::run::Reply;
use everstep_engine::{Error, FEED_PATH, Hint, Peer, Peers, Question, RunInput};
use futures_util::future::{self, Either};
use tokio::sync::oneshot;

use super::executor::{Executor, OUTSIDE};
use super::server::{Directory, Server};

pub(super) struct SimPeers {
    pub(super) executor: Executor,
    pub(super) directory: Directory,
}

/// The fate of an input that is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fine,
    /// The connection is refused.
    Refused,
    LostOnTheWay,
    AnswerLost,
}

impl SimPeers {
    fn find(&self, peer: &Peer) -> Option<Server> {
        self.directory.lock().expect("one thread").get(&peer.address).cloned()
    }

    fn millis(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.executor.with_random(|random| random.between(from, to)))
    }

    /// Now and then a longer delay.
    fn delay(&self, percent: u64, most: u64) -> Duration {
        if self.executor.chance(percent) { self.millis(1, most) } else { Duration::ZERO }
    }
}

#[async_trait]
impl Peers for SimPeers {
    async fn send(&self, peer: &Peer, input: RunInput) -> Result<Reply, Error> {
        let Some(server) = self.find(peer) else { return Err(Error::Unreachable(peer.id)) };
        let is_calm = server.is_calm();
        let fate = match self.executor.with_random(|random| random.below(100)) {
            _ if is_calm => Fate::Fine,
            0..4 => Fate::Refused,
            4..8 => Fate::LostOnTheWay,
            8..12 => Fate::AnswerLost,
            _ => Fate::Fine,
        };
        if fate == Fate::Refused || server.engine().is_none() {
            self.executor.note(|| format!("an input to server {} is refused", server.index));
            return Err(Error::Unreachable(peer.id));
        }
        let (answer, answered) = oneshot::channel();
        let (on_the_way, on_the_way_back) = (self.delay(20, 1_500), self.delay(20, 1_500));
        if fate != Fate::LostOnTheWay {
            let executor = self.executor.clone();
            // It arrives although its sender may be gone by then.
            self.executor.spawn(OUTSIDE, async move {
                executor.sleep(on_the_way).await;
                server.accept(|engine| async move {
                    let received = engine.receive(input).await;
                    executor.sleep(on_the_way_back).await;
                    if fate == Fate::Fine {
                        let _ = answer.send(received);
                    }
                });
            });
        }
        let patience = std::pin::pin!(self.executor.sleep(self.millis(500, 3_000)));
        match future::select(answered, patience).await {
            Either::Left((Ok(answer), _)) => answer,
            Either::Left((Err(_), _)) | Either::Right(_) => {
                self.executor.note(|| format!("an input to {} has no reply", peer.address));
                Err(Error::OutcomeUnknown(peer.id))
            }
        }
    }

    async fn ask(&self, peer: &Peer, question: Question) -> Result<(u16, Vec<u8>), Error> {
        let server = self.find(peer).filter(|_| question.path == FEED_PATH).ok_or(Error::Unreachable(peer.id))?;
        let is_lost = !server.is_calm() && self.executor.chance(8);
        let (on_the_way, on_the_way_back) = (self.delay(20, 300), self.delay(20, 300));
        let Question { workspace, body, patience, .. } = question;
        let executor = self.executor.clone();
        let answer = std::pin::pin!(async {
            executor.sleep(on_the_way).await;
            let answer = server.ask(|engine| async move { engine.answer_feed(workspace, &body) }).await;
            executor.sleep(on_the_way_back).await;
            answer.filter(|_| !is_lost)
        });
        match future::select(answer, std::pin::pin!(self.executor.sleep(patience))).await {
            Either::Left((Some(Ok(answer)), _)) => Ok((200, answer)),
            Either::Left((Some(Err(_)), _)) => Ok((400, Vec::new())),
            Either::Left((None, _)) | Either::Right(_) => Err(Error::Unreachable(peer.id)),
        }
    }

    fn hint(&self, peer: &Peer, hint: Hint) {
        let Some(server) = self.find(peer) else { return };
        if self.executor.chance(30) {
            return;
        }
        let (executor, late) = (self.executor.clone(), self.delay(30, 2_000));
        self.executor.spawn(OUTSIDE, async move {
            executor.sleep(late).await;
            server.accept(|engine| async move { engine.hinted(hint) });
        });
    }
}
