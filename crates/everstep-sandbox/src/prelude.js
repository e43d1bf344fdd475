(function (write, context, longest) {
  'use strict';
  const { stringify } = JSON;
  const { defineProperty, freeze, keys } = Object;

  const text = (value) => {
    if (typeof value === 'string') return value;
    try {
      if (value instanceof Error) return String(value);
      return stringify(value) ?? String(value);
    } catch {
      try {
        return String(value);
      } catch {
        return '[object]';
      }
    }
  };
  const log = (...values) => {
    let line = '';
    for (let index = 0; index < values.length && line.length < longest; index++) {
      line += (index > 0 ? ' ' : '') + text(values[index]);
    }
    write(line.slice(0, longest));
  };

  const pending = [context];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value !== 'object' || value === null) continue;
    freeze(value);
    for (const key of keys(value)) pending.push(value[key]);
  }

  for (const name of ['gc', 'navigator', 'performance', 'queueMicrotask']) delete globalThis[name];
  const console = freeze({ log, info: log, warn: log, error: log, debug: log });
  defineProperty(globalThis, 'ctx', { value: context, enumerable: true });
  defineProperty(globalThis, 'console', { value: console, enumerable: true });
})
