// The expectations of a scenario about its runs, and the properties of every run of every scenario.

import { mismatch } from './match.mjs';

const ENDS = ['RunCompleted', 'RunFailed', 'RunCancelled'];

/** An entry as a scenario writes it: `StepCompleted charge`. */
export const line = (entry) => (entry.step ? `${entry.event} ${entry.step}` : entry.event);

/** The number of entries of an event, or of an event and a step. */
export function countEntries(journal, what) {
  return journal.filter((entry) => entry.event === what || line(entry) === what).length;
}

/** A journal for people. */
export function printJournal(journal) {
  const lines = journal.map((entry) => {
    const attempt = entry.attempt ? ` #${entry.attempt}` : '';
    return `  ${entry.seq} ${entry.at.slice(11, 23)} ${line(entry)}${attempt} ${JSON.stringify(entry.data).slice(0, 200)}`;
  });
  return lines.join('\n');
}

/** All violations of a run. `expected` has the members that README.md lists. */
export function checkRun(expected, { run, journal, ledger, signal, steps }) {
  const wrong = [];
  const compare = (what, wanted, found) => {
    const difference = mismatch(wanted, found, what);
    if (difference) wrong.push(difference);
  };
  const { status, output, error, unawaited, waitingFor, version } = expected;
  if (status !== undefined) compare('status', status, run.status);
  if (output !== undefined) compare('output', output, run.output);
  if (error !== undefined) compare('error', error, run.error);
  if (unawaited !== undefined) compare('unawaited', unawaited, run.unawaited);
  if (waitingFor !== undefined) compare('waitingFor', waitingFor, run.waitingFor);
  if (version !== undefined) compare('workflow version', version, run.workflowVersion);
  if (expected.journal) compare('journal', expected.journal, journal.map(line));
  for (const [what, wanted] of Object.entries(expected.entries ?? {})) {
    compare(`entries ${what}`, wanted, countEntries(journal, what));
  }
  for (const [what, wanted] of Object.entries(expected.data ?? {})) {
    const found = journal.filter((entry) => line(entry) === what).map((entry) => entry.data);
    compare(`data of ${what}`, wanted, found);
  }
  for (const [name, wanted] of Object.entries(expected.steps ?? {})) {
    const step = steps[name];
    compare(`step ${name}`, wanted, step);
    if (step?.endedAt && !(step.startedAt <= step.endedAt)) wrong.push(`step ${name} ended before it began`);
  }
  for (const [step, wanted] of Object.entries(expected.ran ?? {})) {
    compare(`times that ${step} ran`, wanted, ledger.count('began', step, run.id));
  }
  for (const [what, wanted] of Object.entries(expected.noted ?? {})) {
    const [verb, step] = what.split(' ');
    compare(`times that ${what} was noted`, wanted, ledger.count(verb, step, run.id));
  }
  for (const [step, wanted] of Object.entries(expected.by ?? {})) {
    compare(`workers that ran ${step}`, wanted, ledger.of('began', step, run.id).map((record) => record.worker));
  }
  for (const [step, wanted] of Object.entries(expected.values ?? {})) {
    compare(`values noted at ${step}`, wanted, ledger.of('noted', step, run.id).map((record) => record.value));
  }
  for (const [step, least] of Object.entries(expected.tookMs ?? {})) {
    compare(`milliseconds of ${step}`, { $atLeast: least }, took(journal, step));
  }
  if (expected.signalled) {
    // The response to the signal and the end of the run must agree.
    const wanted = signal === 'accepted' ? expected.signalled.accepted : expected.signalled.ignored;
    compare(`output after a signal that was ${signal}`, wanted, run.output);
  }
  return wrong;
}

/** Violations of the limit on the median time of many runs between two entries, the last of each kind. */
export function checkMedian({ from, to, atMost }, journals) {
  const when = (journal, what) => Date.parse(journal.findLast((entry) => line(entry) === what)?.at);
  const times = journals.map((journal) => when(journal, to) - when(journal, from)).sort((one, other) => one - other);
  const median = times[Math.floor(times.length / 2)];
  return median <= atMost ? undefined : `from ${from} to ${to} they took ${times.join(', ')} ms; half of them may take ${atMost}`;
}

/** An error if all signals came before, or all after, the other action: then the scenario proves nothing. */
export function checkSignalled(runs) {
  const found = new Set(runs.map(({ signal }) => signal));
  const missing = ['accepted', 'ignored'].filter((outcome) => !found.has(outcome));
  return missing.length === 0 ? undefined : `of ${runs.length} signals none was ${missing.join(' or ')}: they were ${[...found].join(', ')}`;
}

/** From the first to the last entry about a step. */
function took(journal, step) {
  const entries = journal.filter((entry) => entry.step === step);
  if (entries.length < 2) return undefined;
  return Date.parse(entries.at(-1).at) - Date.parse(entries[0].at);
}

/** The laws of every journal. */
export function checkLaws({ run, journal, ledger }) {
  const wrong = [];
  journal.forEach((entry, index) => {
    if (entry.seq !== index + 1) wrong.push(`entry ${index + 1} has seq ${entry.seq}`);
  });
  const ends = journal.filter((entry) => ENDS.includes(entry.event));
  if (ends.length > 1) wrong.push(`the run ended ${ends.length} times`);
  if (ends.length === 1 && !ENDS.includes(journal.at(-1).event)) wrong.push(`${line(journal.at(-1))} follows the end`);
  let turn = 0;
  for (const { event, data } of journal) {
    if (event !== 'TurnStarted') continue;
    if (data.turn <= turn) wrong.push(`turn ${data.turn} follows turn ${turn}`);
    turn = data.turn;
  }
  const counted = new Map();
  for (const entry of journal) counted.set(line(entry), (counted.get(line(entry)) ?? 0) + 1);
  for (const step of new Set(journal.map((entry) => entry.step))) {
    const count = (event) => counted.get(`${event} ${step}`) ?? 0;
    if (count('TimerFired') > count('TimerSet')) wrong.push(`a timer of ${step} has fired twice`);
    if (count('WaitOpened') > 1 || count('WaitResolved') > count('WaitOpened')) wrong.push(`the wait ${step} is recorded twice`);
  }
  const failed = journal.filter(({ event }) => event === 'StepFailed').map(({ step, attempt }) => `${step} #${attempt}`);
  if (new Set(failed).size < failed.length) wrong.push(`an attempt has failed twice: ${failed.join(', ')}`);
  const done = new Set();
  for (const { event, step } of journal) {
    if (event !== 'StepCompleted') continue;
    if (done.has(step)) wrong.push(`${step} was completed twice`);
    done.add(step);
    const isCall = journal.some((entry) => entry.event === 'StepDispatched' && entry.step === step);
    if (!isCall && ledger.count('began', step, run.id) === 0) wrong.push(`${step} was completed and never ran`);
  }
  return wrong;
}
