// Plays a workflow that a scenario describes as data, on the context of the SDK. README.md lists the operations.

/** Runs a program and returns the value of its `return`. */
export async function playProgram(ctx, program, input, tools) {
  const { value } = await playBlock(ctx, program, { input, trigger: ctx.trigger }, tools);
  return value;
}

/** Runs the operations of a block one after the other. Its value is that of the last, or of its `return`. */
async function playBlock(ctx, block, scope, tools) {
  let value;
  for (const operation of block) {
    const verb = Object.keys(OPERATIONS).find((key) => key in operation);
    if (!verb) throw new Error(`${JSON.stringify(operation)} is no operation`);
    const outcome = await OPERATIONS[verb](ctx, operation, scope, tools);
    if (outcome?.isOver) return outcome;
    value = outcome?.value;
    if (operation.as) scope[operation.as] = value;
  }
  return { value };
}

const OPERATIONS = {
  async run(ctx, { run, do: body = [], retry }, scope, tools) {
    const step = fill(run, scope);
    const options = retry ? [{ retry }] : [];
    return { value: await ctx.step.run(step, (own) => playStep(ctx, own, step, body, scope, tools), ...options) };
  },

  async sleep(ctx, { sleep, for: duration, untilMs }, scope) {
    const step = fill(sleep, scope);
    if (untilMs !== undefined) await ctx.step.sleepUntil(step, new Date(fill(untilMs, scope)));
    else await ctx.step.sleep(step, fill(duration, scope));
    return {};
  },

  async wait(ctx, { wait, event, match, timeout, since, withEvent }, scope) {
    const options = plain({ event, match: fill(match, scope), timeout, since, withEvent });
    return { value: await ctx.step.waitForEvent(fill(wait, scope), options) };
  },

  async publish(ctx, { publish, topic, data, id, subject }, scope) {
    const event = plain({ topic: fill(topic, scope), data: fill(data, scope), id: fill(id, scope), subject: fill(subject, scope) });
    return { value: await ctx.step.publish(fill(publish, scope), event) };
  },

  async call(ctx, { call, workflow, input, version, timeout }, scope) {
    const options = plain({ version, timeout });
    return { value: await ctx.step.call(fill(call, scope), workflow, fill(input, scope), options) };
  },

  async all(ctx, { all }, scope, tools) {
    return { value: await Promise.all(all.map((block) => branch(ctx, block, scope, tools))) };
  },

  async each(ctx, { each, do: block }, scope, tools) {
    const branches = Array.from({ length: each }, (_, i) => branch(ctx, block, { ...scope, i }, tools));
    return { value: await Promise.all(branches) };
  },

  async race(ctx, { race }, scope, tools) {
    return { value: await Promise.race(race.map((block) => branch(ctx, block, scope, tools))) };
  },

  async forget(ctx, { forget }, scope, tools) {
    void branch(ctx, forget, scope, tools);
    return {};
  },

  async if(ctx, { if: condition, then = [], else: otherwise = [] }, scope, tools) {
    return playBlock(ctx, fill(condition, scope) ? then : otherwise, scope, tools);
  },

  async try(ctx, { try: block, catch: handler }, scope, tools) {
    try {
      return await playBlock(ctx, block, scope, tools);
    } catch (error) {
      const { name, message, code, step, attempts } = error;
      return playBlock(ctx, handler, Object.assign(scope, { error: plain({ name, message, code, step, attempts }) }), tools);
    }
  },

  async note(ctx, { note, value }, scope, tools) {
    await tools.note(ctx, note, 'noted', fill(value, scope));
    return {};
  },

  watch(ctx, { watch }, scope, tools) {
    ctx.signal.addEventListener('abort', () => tools.note(ctx, watch, 'aborted'));
    return {};
  },

  throw(ctx, { throw: message }) {
    throw new Error(message);
  },

  return: (ctx, { return: value }, scope) => ({ value: fill(value, scope), isOver: true }),
};

/** A branch has its own names, and returns its value. */
async function branch(ctx, block, scope, tools) {
  const { value } = await playBlock(ctx, block, { ...scope }, tools);
  return value;
}

/** The function of a step. It records its beginning and its end. */
async function playStep(ctx, own, step, body, scope, tools) {
  const { attempt } = own;
  const nth = await tools.note(ctx, step, 'began');
  const inner = { ...scope, nth, attempt };
  const isMeant = ({ until = Infinity }) => nth <= until;
  let value;
  for (const action of body) {
    if ('gate' in action) await tools.gate(ctx, step, fill(action.gate, inner));
    else if ('abortable' in action) await abortable(ctx, step, fill(action.abortable, inner), tools);
    else if ('log' in action) own.log.info(fill(action.log, inner));
    else if ('return' in action) value = fill(action.return, inner);
    else if ('crash' in action) {
      if (isMeant(action)) tools.crash();
    } else if ('fail' in action) {
      if (isMeant(action)) throw tools.error(fill(action.fail, inner), action.retriable ?? true);
    } else throw new Error(`${JSON.stringify(action)} is nothing that a step does`);
  }
  await tools.note(ctx, step, 'ended');
  return value;
}

/** Waits until a gate is opened, and notes if the signal of the run is aborted before. */
async function abortable(ctx, step, gate, tools) {
  const noted = () => tools.note(ctx, step, 'aborted');
  if (ctx.signal.aborted) await noted();
  ctx.signal.addEventListener('abort', noted);
  await tools.gate(ctx, step, gate);
}

/** Replaces names by their values: `{"$": "user.id"}`, and `{i}` inside a text; `{"$bytes": 10}` is a text of that length. */
function fill(value, scope) {
  if (typeof value === 'string') return value.replace(/\{([\w.]+)\}/g, (_, name) => String(find(name, scope)));
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map((member) => fill(member, scope));
  if ('$' in value) return find(value.$, scope);
  if ('$bytes' in value) return 'x'.repeat(value.$bytes);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, fill(member, scope)]));
}

function find(name, scope) {
  return name.split('.').reduce((value, part) => value?.[part], scope);
}

/** Drops the members that are undefined. */
const plain = (value) => Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined));
