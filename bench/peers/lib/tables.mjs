// The tables of a comparison: figures, and ratios of figures of the same round.

/** Prints a table of figures, and tables of ratios for each engine of this repository. */
export function printTables({ versions, rows: about, rounds }, names, rows) {
  const valueOf = (round, name, row) => round.figures[name]?.[row]?.value;
  const title = (row) => `${about[row].title}, ${about[row].unit}`;
  console.log('Figures: the median of all rounds, and their range\n');
  const cells = (name, row) => range(rounds.map((round) => valueOf(round, name, row)), (value) => format(value, about[row].isTime));
  print(['row', ...names], rows.map((row) => [title(row), ...names.map((name) => cells(name, row))]));
  for (const own of names.filter((name) => name.startsWith('everstep'))) {
    const others = names.filter((name) => !name.startsWith('everstep'));
    if (others.length === 0) continue;
    console.log(`\nRatios of ${own} to the others in the same round; above 1 it is ahead\n`);
    const ratio = (round, other, row) => {
      const [ours, theirs] = [valueOf(round, own, row), valueOf(round, other, row)];
      if (ours === undefined || theirs === undefined) return undefined;
      return about[row].isTime ? theirs / ours : ours / theirs;
    };
    print(
      ['row', ...others],
      rows.map((row) => [title(row), ...others.map((other) => range(rounds.map((round) => ratio(round, other, row)), (value) => value.toFixed(2)))]),
    );
  }
  console.log('');
  for (const [name, version] of Object.entries(versions)) console.log(`${name}: ${version}`);
  console.log('');
}

/** The median and the range of the values that exist. */
function range(values, write) {
  const known = values.filter((value) => value !== undefined).sort((a, b) => a - b);
  if (known.length === 0) return '–';
  const median = known.length % 2 === 1 ? known[(known.length - 1) / 2] : (known[known.length / 2 - 1] + known[known.length / 2]) / 2;
  if (known.length === 1) return write(median);
  return `${write(median)} (${write(known[0])}–${write(known.at(-1))})`;
}

function format(value, isTime) {
  return isTime ? value.toFixed(1) : Math.round(value).toLocaleString('en-US');
}

function print(head, body) {
  const lines = [head, head.map(() => '---'), ...body];
  const widths = head.map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  for (const line of lines) console.log(`| ${line.map((cell, column) => (cell === '---' ? '-'.repeat(widths[column]) : cell.padEnd(widths[column]))).join(' | ')} |`);
}
