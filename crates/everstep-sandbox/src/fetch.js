(function (ask) {
  'use strict';
  const { parse } = JSON;
  const { create, defineProperty, freeze, keys } = Object;
  const { Promise, String, TypeError } = globalThis;
  const pending = create(null);

  const fetch = (url, options = {}) =>
    new Promise((resolve, reject) => {
      for (const option of keys(options)) {
        if (option !== 'method' && option !== 'headers' && option !== 'body') {
          throw new TypeError(`fetch has no option ${option}: there are method, headers and body`);
        }
      }
      const { method = 'GET', headers = {}, body } = options;
      if (body !== undefined && body !== null && typeof body !== 'string') {
        throw new TypeError('a body is text: use JSON.stringify');
      }
      const lines = [];
      for (const name of keys(headers)) lines.push(String(name), String(headers[name]));
      pending[ask(String(method), String(url), lines, body ?? '')] = { resolve, reject };
    });

  const settle = (id, error, status, url, lines, body) => {
    const { resolve, reject } = pending[id];
    delete pending[id];
    if (error !== undefined) return reject(new TypeError(error));
    const values = create(null);
    for (let index = 0; index < lines.length; index += 2) {
      const name = lines[index];
      values[name] = name in values ? `${values[name]}, ${lines[index + 1]}` : lines[index + 1];
    }
    const headers = freeze({
      get: (name) => values[String(name).toLowerCase()] ?? null,
      has: (name) => String(name).toLowerCase() in values,
      keys: () => keys(values),
    });
    const ok = status >= 200 && status < 300;
    resolve(freeze({ ok, status, url, headers, text: async () => body, json: async () => parse(body) }));
  };

  defineProperty(globalThis, 'fetch', { value: fetch, enumerable: true });
  return settle;
})
