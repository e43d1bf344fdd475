// The use of the processors.

import fs from 'node:fs';

/** The share of processor time that is used, over some milliseconds. */
export async function busyShare(ms) {
  const before = times();
  await new Promise((resolve) => setTimeout(resolve, ms));
  const after = times();
  return (after.used - before.used) / Math.max(1, after.all - before.all);
}

function times() {
  // user, nice, system, idle, iowait, irq, softirq, steal
  const fields = fs.readFileSync('/proc/stat', 'utf8').split('\n', 1)[0].trim().split(/\s+/).slice(1, 9).map(Number);
  const all = fields.reduce((sum, field) => sum + field, 0);
  return { all, used: all - fields[3] - fields[4] };
}
