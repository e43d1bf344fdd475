// Plays the actions of a scenario, one after the other.

import { countEntries, line } from './check.mjs';
import { mismatch } from './match.mjs';
import { verbOf } from './scenario.mjs';
import { pause, until } from './until.mjs';

const ENDED = ['completed', 'failed', 'cancelled'];

/** Plays a scenario on a stage, and fails with what is wrong. */
export async function play(stage) {
  const { scenario } = stage;
  for (const [index, action] of scenario.do.entries()) {
    try {
      await ACTIONS[verbOf(action)](stage, action);
    } catch (error) {
      error.message = `action ${index + 1}, ${JSON.stringify(action)}: ${error.message}`;
      throw error;
    }
  }
  for (const { run, ...expected } of scenario.expect ?? []) {
    if (ENDED.includes(expected.status)) await untilStatus(stage, run, 'ended');
    await stage.check(run, expected);
  }
  await stage.checkAll();
}

const ACTIONS = {
  async start(stage, { start: workflow, as = workflow, count = 1, input, version, key, retentionDays, status, expect }) {
    const started = await inTurn(count, 16, async (i) => {
      const given = input === undefined ? { i } : input;
      const body = { input: given, version, idempotencyKey: key, retentionDays };
      const wanted = status === undefined ? [201, 200] : [status];
      const answer = await stage.client.expect(wanted, 'POST', `/v1/workflows/${workflow}/runs`, body);
      if (expect) compare(expect, answer, 'the answer');
      return { id: answer.run.id, workflow };
    });
    stage.runs.set(as, started);
  },

  worker: (stage, { worker, mayDie }) => stage.startWorker(worker, mayDie),
  kill: (stage, { kill }) => stage.worker(kill).kill(),
  stop: (stage, { stop }) => stage.worker(stop).signal('SIGSTOP'),
  continue: (stage, action) => stage.worker(action.continue).signal('SIGCONT'),
  drain: (stage, { drain }) => stage.worker(drain).signal('SIGTERM'),

  async ended(stage, { ended }) {
    const worker = stage.worker(ended);
    await until(`worker ${ended} to end`, () => worker.isOver);
    if ((await worker.ended()) !== 0) throw new Error(`it ended with ${await worker.ended()}:\n${worker.log}`);
  },

  killServer: (stage, { killServer }) => stage.servers[killServer].kill(),
  startServer: (stage, { startServer }) => stage.servers[startServer].begin(),
  stopServer: (stage, { stopServer }) => stage.servers[stopServer].stop(),

  ask(stage, { ask }) {
    stage.asked = ask;
  },

  open: (stage, { open }) => [open].flat().forEach((gate) => stage.ledger.openGate(gate)),

  async await(stage, { await: awaited }) {
    const { note, entry, status, proxy, passed, run, times = 1 } = awaited;
    if (note) {
      const [what, step] = note.split(' ');
      const ids = run ? stage.runsOf(run).map(({ id }) => id) : [undefined];
      for (const id of ids) await stage.ledger.until(what, step, id, times);
    } else if (entry) {
      for (const { id } of stage.runsOf(run)) {
        const isThere = async () => countEntries(await stage.client.journal(id), entry) >= times;
        await until(`${times} times ${entry} in the journal of ${run} (${id})`, isThere);
      }
    } else if (status) {
      await untilStatus(stage, run, status);
    } else if (proxy) {
      await until(`proxy ${proxy} to touch ${times} messages`, () => stage.proxies.get(proxy).touched >= times);
    } else if (passed) {
      const { server } = awaited;
      await until(`${passed} to pass ${times} to server ${server}`, () => stage.proxies.get(passed).passed[server] >= times);
    }
  },

  async signal(stage, { signal: event, run, payload, spreadMs = 0, around, buffer, expect }) {
    const runs = stage.runsOf(run);
    const tell = async (started, index) => {
      // Spread over a time in which something else is to happen, so that either may come first.
      const offset = (index * spreadMs) / runs.length;
      await pause(around ? (await timeTo(stage, started, around)) + offset - spreadMs / 2 : offset);
      const query = buffer ? '?buffer=true' : '';
      const path = `/v1/workflows/${started.workflow}/runs/${started.id}/signals/${event}${query}`;
      const { status, body } = await stage.client.ask('POST', path, payload);
      started.signal = status === 200 ? body.outcome : 'ignored';
      if (expect) compare(expect, body, 'the answer');
      else if (status !== 200 && status !== 409) throw new Error(`${status} ${JSON.stringify(body)}`);
    };
    await Promise.all(runs.map(tell));
  },

  async cancel(stage, { cancel, expect }) {
    for (const { id, workflow } of stage.runsOf(cancel)) {
      const answer = await stage.client.expect([200], 'DELETE', `/v1/workflows/${workflow}/runs/${id}`);
      if (expect) compare(expect, answer, 'the answer');
    }
  },

  pause: (stage, { pause: run, expect }) => control(stage, run, 'pause', expect),
  resume: (stage, { resume: run, expect }) => control(stage, run, 'resume', expect),

  proxy(stage, { proxy, reports, cut }) {
    const found = stage.proxies.get(proxy);
    if (reports) found.reports = reports;
    if (cut) found.cut();
  },

  check: (stage, { check, ...expected }) => stage.check(check, expected),
};

/** Milliseconds until some time after an entry of a run. */
async function timeTo(stage, { id }, { entry, ms }) {
  const found = (await stage.client.journal(id)).find((one) => line(one) === entry);
  if (!found) throw new Error(`run ${id} has no ${entry}`);
  return Date.parse(found.at) + ms - Date.now();
}

async function control(stage, run, verb, expect) {
  for (const { id } of stage.runsOf(run)) {
    const answer = await stage.client.expect([200], 'POST', `/v1/runs/${id}/${verb}`, {});
    if (expect) compare(expect, answer, 'the answer');
  }
}

async function untilStatus(stage, name, wanted) {
  for (const { id } of stage.runsOf(name)) {
    const isThere = async () => {
      const { status } = await stage.client.run(id, wanted === 'ended' ? 5 : 0);
      if (wanted === 'ended') return ENDED.includes(status);
      if (ENDED.includes(status) && status !== wanted) throw new Error(`run ${name} (${id}) is ${status}, not ${wanted}`);
      return status === wanted;
    };
    await until(`run ${name} (${id}) to be ${wanted}`, isThere);
  }
}

function compare(expected, actual, where) {
  const wrong = mismatch({ $has: expected }, actual, where);
  if (wrong) throw new Error(wrong);
}

/** Does something `count` times, so many at once, and returns what came of each in order. */
async function inTurn(count, atOnce, act) {
  const done = [];
  for (let begin = 0; begin < count; begin += atOnce) {
    const size = Math.min(atOnce, count - begin);
    done.push(...(await Promise.all(Array.from({ length: size }, (_, index) => act(begin + index)))));
  }
  return done;
}
