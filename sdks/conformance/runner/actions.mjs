// Plays the actions of a scenario, one after the other.

import { countEntries, line } from './check.mjs';
import { Client } from './client.mjs';
import { mismatch } from './match.mjs';
import { verbOf } from './scenario.mjs';
import { tokenOf } from './token.mjs';
import { pause, until } from './until.mjs';

const ENDED = ['completed', 'failed', 'cancelled'];

/** Performs the actions of a scenario and checks its expectations. Throws at the first that fails. */
export async function runScenario(execution) {
  const { scenario } = execution;
  for (const [index, action] of scenario.do.entries()) {
    try {
      await ACTIONS[verbOf(action)](execution, action);
    } catch (error) {
      error.message = `action ${index + 1}, ${JSON.stringify(action)}: ${error.message}`;
      throw error;
    }
  }
  for (const { run, ...expected } of scenario.expect ?? []) {
    if (ENDED.includes(expected.status)) await untilStatus(execution, run, 'ended');
    await execution.check(run, expected);
  }
  await execution.checkAll();
}

const ACTIONS = {
  async start(execution, { start: workflow, as = workflow, count = 1, input, version, key, retentionDays, allowUnserved, status, expect }) {
    const started = await inTurn(count, 16, async (i) => {
      const given = input === undefined ? { i } : input;
      const body = { input: given, version, idempotencyKey: key, retentionDays, allowUnserved };
      const wanted = status === undefined ? [201, 200] : [status];
      const answer = await execution.client.expect(wanted, 'POST', `/v1/workflows/${workflow}/runs`, body);
      if (expect) compare(expect, answer, 'the answer');
      // A start that is refused, as `status` says, has no run.
      return answer.run && { id: answer.run.id, workflow };
    });
    execution.runs.set(as, started.filter(Boolean));
  },

  async together(execution, { together, permissions, timeout, isAwaited = true }) {
    const starts = together.flatMap(({ workflow, count = 1, input, key }) =>
      Array.from({ length: count }, (_, i) => ({ workflow, input: input === undefined ? { i } : input, options: { idempotencyKey: key } })),
    );
    const results = await execution.startTogether({ starts, isAwaited, options: { timeout } }, permissions);
    for (const { workflow, as = workflow, count = 1, runs = count, expect } of together) {
      const own = results.splice(0, count);
      const ids = [...new Set(own.map(({ runId }) => runId).filter(Boolean))];
      own.forEach(({ runId, ...result }, i) => {
        const wrong = expect && mismatch(withNumber(expect, i), result, `the result of ${as} ${i} (${runId})`);
        if (wrong) throw new Error(wrong);
      });
      if (ids.length !== runs) throw new Error(`${ids.length} runs of ${as} were started, not ${runs}`);
      execution.runs.set(as, ids.map((id) => ({ id, workflow })));
    }
  },

  worker: (execution, { worker, mayDie }) => execution.startWorker(worker, mayDie),
  kill: (execution, { kill }) => execution.worker(kill).kill(),
  stop: (execution, { stop }) => execution.worker(stop).signal('SIGSTOP'),
  continue: (execution, action) => execution.worker(action.continue).signal('SIGCONT'),
  drain: (execution, { drain }) => execution.worker(drain).signal('SIGTERM'),

  async ended(execution, { ended }) {
    const worker = execution.worker(ended);
    await until(`worker ${ended} to end`, () => worker.isOver);
    if ((await worker.ended()) !== 0) throw new Error(`it ended with ${await worker.ended()}:\n${worker.log}`);
  },

  killServer: (execution, { killServer }) => execution.servers[killServer].kill(),
  startServer: (execution, { startServer }) => execution.servers[startServer].begin(),
  stopServer: (execution, { stopServer }) => execution.servers[stopServer].stop(),

  ask(execution, { ask }) {
    execution.asked = ask;
  },

  open: (execution, { open }) => [open].flat().forEach((gate) => execution.ledger.openGate(gate)),

  async await(execution, { await: awaited }) {
    const { note, entry, status, proxy, passed, run, times = 1 } = awaited;
    if (note) {
      const [what, step] = note.split(' ');
      const ids = run ? execution.runsOf(run).map(({ id }) => id) : [undefined];
      for (const id of ids) await execution.ledger.until(what, step, id, times);
    } else if (entry) {
      for (const { id } of execution.runsOf(run)) {
        const isThere = async () => countEntries(await execution.client.journal(id), entry) >= times;
        await until(`${times} times ${entry} in the journal of ${run} (${id})`, isThere);
      }
    } else if (status) {
      await untilStatus(execution, run, status);
    } else if (proxy) {
      await until(`proxy ${proxy} to touch ${times} messages`, () => execution.proxies.get(proxy).touched >= times);
    } else if (passed) {
      const { server } = awaited;
      await until(`${passed} to pass ${times} to server ${server}`, () => execution.proxies.get(passed).passed[server] >= times);
    }
  },

  async signal(execution, { signal: event, run, payload, spreadMs = 0, around, buffer, expect }) {
    const runs = execution.runsOf(run);
    const tell = async (started, index) => {
      // Spread over the time of another action, so that either may come first.
      const offset = (index * spreadMs) / runs.length;
      await pause(around ? (await timeTo(execution, started, around)) + offset - spreadMs / 2 : offset);
      const query = buffer ? '?buffer=true' : '';
      const path = `/v1/workflows/${started.workflow}/runs/${started.id}/signals/${event}${query}`;
      const { status, body } = await execution.client.ask('POST', path, payload);
      started.signal = status === 200 ? body.outcome : 'ignored';
      if (expect) compare(expect, body, 'the answer');
      else if (status !== 200 && status !== 409) throw new Error(`${status} ${JSON.stringify(body)}`);
    };
    await Promise.all(runs.map(tell));
  },

  async publish(execution, { publish: topic, as = topic, data, id, source, subject, count = 1, waitSeconds, expect }) {
    const query = waitSeconds === undefined ? '' : `?waitSeconds=${waitSeconds}`;
    const ids = await inTurn(count, 16, async (i) => {
      const event = { topic, data: data === undefined ? { i } : data, id, source, subject };
      // A server that is being restarted cannot be reached for some time; an event without an id may be published twice.
      const send = () => execution.client.expect([200, 202], 'POST', `/v1/events${query}`, event);
      const answer = id === undefined ? await send() : await until(`the answer to ${topic} ${id}`, send);
      if (expect) compare(expect, answer, 'the answer');
      return answer.id;
    });
    execution.events.set(as, ids);
  },

  /** Waits for the runs that events have started, and names them. */
  async triggered(execution, { triggered: workflow, by = [], as = workflow, count = 1 }) {
    const events = [by].flat().flatMap((name) => execution.eventsOf(name));
    const found = await until(`${count} runs of ${workflow}`, async () => {
      const pages = events.length > 0 ? events.map((id) => `/v1/runs?trigger=event:${id}`) : [`/v1/workflows/${workflow}/runs?limit=500`];
      const runs = (await Promise.all(pages.map((page) => execution.client.get(page)))).flatMap((page) => page.runs);
      const own = runs.filter((run) => run.workflow === workflow);
      return own.length >= count && own;
    });
    if (found.length > count) throw new Error(`${found.length} runs of ${workflow} were started, not ${count}`);
    execution.runs.set(as, found.map(({ id }) => ({ id, workflow })));
  },

  define: (execution, { define, definition }) => execution.client.expect([200, 201], 'PUT', `/v1/workflows/${define}`, definition),

  async act(execution, { act: action, run, isChild = false, by, status = 200, expect, ...request }) {
    const person = new Client(execution.client.port, tokenOf(by, execution.scenario.settings));
    try {
      for (const { id } of execution.runsOf(run)) {
        const target = isChild ? await childOf(execution, id) : id;
        const answer = await person.expect([status], 'POST', `/v1/runs/${target}/transitions`, { action, ...request });
        if (expect) compare(expect, answer, 'the answer');
      }
    } finally {
      person.close();
    }
  },

  async cancel(execution, { cancel, expect }) {
    for (const { id, workflow } of execution.runsOf(cancel)) {
      const answer = await execution.client.expect([200], 'DELETE', `/v1/workflows/${workflow}/runs/${id}`);
      if (expect) compare(expect, answer, 'the answer');
    }
  },

  pause: (execution, { pause: run, expect }) => control(execution, run, 'pause', expect),
  resume: (execution, { resume: run, expect }) => control(execution, run, 'resume', expect),

  wait: (execution, { wait: run, as = run, ...options }) => execution.startWaiters(as, run, options),

  async waited(execution, { waited, expect }) {
    for (const waiter of execution.waitersOf(waited)) {
      const wrong = mismatch(expect, await waiter.result(), 'the result of the wait');
      if (wrong) throw new Error(wrong);
    }
  },

  proxy(execution, { proxy, reports, cut }) {
    const found = execution.proxies.get(proxy);
    if (reports) found.reports = reports;
    if (cut) found.cut();
  },

  check: (execution, { check, ...expected }) => execution.check(check, expected),
};

/** An expectation in which `{"$": "i"}` is replaced by the number of a run. */
function withNumber(expected, i) {
  if (expected === null || typeof expected !== 'object') return expected;
  if (expected.$ === 'i') return i;
  if (Array.isArray(expected)) return expected.map((one) => withNumber(one, i));
  return Object.fromEntries(Object.entries(expected).map(([name, value]) => [name, withNumber(value, i)]));
}

/** The run that a run has started. */
async function childOf(execution, id) {
  let child;
  await until(`a child of ${id}`, async () => {
    child = (await execution.client.get(`/v1/runs?parent=${id}`)).runs[0]?.id;
    return child !== undefined;
  });
  return child;
}

/** Milliseconds until some time after an entry of a run. */
async function timeTo(execution, { id }, { entry, ms }) {
  const found = (await execution.client.journal(id)).find((one) => line(one) === entry);
  if (!found) throw new Error(`run ${id} has no ${entry}`);
  return Date.parse(found.at) + ms - Date.now();
}

async function control(execution, run, verb, expect) {
  for (const { id } of execution.runsOf(run)) {
    const answer = await execution.client.expect([200], 'POST', `/v1/runs/${id}/${verb}`, {});
    if (expect) compare(expect, answer, 'the answer');
  }
}

async function untilStatus(execution, name, wanted) {
  for (const { id } of execution.runsOf(name)) {
    const isThere = async () => {
      const { status } = await execution.client.run(id, wanted === 'ended' ? 5 : 0);
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

/** Performs an action `count` times, several at the same time, and returns the results in order. */
async function inTurn(count, atOnce, act) {
  const done = [];
  for (let begin = 0; begin < count; begin += atOnce) {
    const size = Math.min(atOnce, count - begin);
    done.push(...(await Promise.all(Array.from({ length: size }, (_, index) => act(begin + index)))));
  }
  return done;
}
