// Sends requests to a server over HTTP, as any client does.

import http from 'node:http';

export class Client {
  #agent = new http.Agent({ keepAlive: true, maxSockets: 32 });

  /** `port` is a function: a scenario may switch to another node. */
  constructor(port, key) {
    this.port = port;
    this.key = key;
  }

  /** Sends a request, and returns the status and the body. */
  ask(method, path, body) {
    const text = body === undefined ? '' : JSON.stringify(body);
    const headers = { 'content-length': Buffer.byteLength(text) };
    // An API key, or the token of a person.
    if (this.key) headers.authorization = `Bearer ${this.key}`;
    if (text) headers['content-type'] = 'application/json';
    const options = { host: '127.0.0.1', port: this.port(), method, path, headers, agent: this.#agent };
    return new Promise((resolve, reject) => {
      const fail = (error) => {
        const failure = new Error(`${method} ${path}: ${error.message}`);
        reject(Object.assign(failure, { isConnection: true }));
      };
      const request = http.request(options, (response) => {
        let answer = '';
        response.setEncoding('utf8');
        response.on('data', (chunk) => (answer += chunk));
        response.on('error', fail);
        response.on('end', () => {
          try {
            resolve({ status: response.statusCode, body: answer ? JSON.parse(answer) : null });
          } catch {
            reject(new Error(`${method} ${path}: ${response.statusCode}, and no JSON: ${answer.slice(0, 200)}`));
          }
        });
      });
      request.on('error', fail);
      request.setTimeout(40_000, () => request.destroy(new Error('no response within 40 s')));
      request.end(text);
    });
  }

  /** Sends a request whose response must have one of these statuses. */
  async expect(statuses, method, path, body) {
    const answer = await this.ask(method, path, body);
    if (statuses.includes(answer.status)) return answer.body;
    const failure = new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    // A node that has just started, or whose peer has just ended, may be unavailable for a moment.
    throw Object.assign(failure, { isConnection: [503, 504].includes(answer.status) });
  }

  get(path) {
    return this.expect([200], 'GET', path);
  }

  run(id, waitSeconds = 0) {
    return this.get(`/v1/runs/${id}${waitSeconds ? `?waitSeconds=${waitSeconds}` : ''}`);
  }

  /** Every entry of a run's journal. */
  async journal(id) {
    const entries = [];
    for (let after = 0; after !== null; ) {
      const page = await this.get(`/v1/runs/${id}/journal?after=${after}&limit=1000`);
      entries.push(...page.entries);
      after = page.nextAfter;
    }
    return entries;
  }

  /** The steps of a run, by name. */
  async steps(id) {
    const found = {};
    for (let cursor = ''; cursor !== null; ) {
      const page = await this.get(`/v1/runs/${id}/steps?limit=100${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
      for (const step of page.steps) found[step.key] = step;
      cursor = page.nextCursor;
    }
    return found;
  }

  close() {
    this.#agent.destroy();
  }
}
