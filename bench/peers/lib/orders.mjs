// The commands of a child process of the comparison: lines of JSON with an `id` on standard input, answers with the same
// `id` on standard output. The end of standard input ends the process.

import readline from 'node:readline';

export function tell(document) {
  process.stdout.write(`${JSON.stringify(document)}\n`);
}

/** Answers commands. `orders` has a function for each `do`. */
export function obey(orders) {
  readline
    .createInterface({ input: process.stdin })
    .on('line', async (line) => {
      const { id, do: name, ...fields } = JSON.parse(line);
      try {
        tell({ id, ...(await orders[name](fields)) });
      } catch (error) {
        tell({ id, error: error.stack ?? String(error) });
      }
    })
    .on('close', () => process.exit(0));
}
