// A program that follows runs with the stock Socket.IO client.
//
// The first argument is {url, options}. Commands arrive line by line on standard input:
// {"join": {"runId": "…"}}, {"leave": {"runId": "…"}}, {"pause": true}, {"pause": false}. Received messages are printed line by line:
// {"on": "connect"}, {"on": "ack", "answer": …}, {"on": "workflow_node_update", "data": …}.
// It ends with its input.

import { createInterface } from 'node:readline';
import { io } from 'socket.io-client';

const { url, options } = JSON.parse(process.argv[2]);
const socket = io(url, options);
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

socket.on('connect', () => say({ on: 'connect', transport: socket.io.engine.transport.name }));
socket.on('connect_error', (error) => say({ on: 'connect_error', message: error.message, data: error.data ?? null }));
socket.on('disconnect', (reason) => say({ on: 'disconnect', reason }));
for (const event of ['workflow_node_update', 'workflow_status_update', 'workflow_error']) {
  socket.on(event, (data) => say({ on: event, data }));
}

const input = createInterface({ input: process.stdin });
input.on('line', (line) => {
  const { join, leave, pause } = JSON.parse(line);
  if (join) socket.emit('workflow_run_join', join, (answer) => say({ on: 'ack', answer }));
  if (leave) socket.emit('workflow_run_leave', leave, (answer) => say({ on: 'ack', answer }));
  if (pause === undefined) return;
  const connection = socket.io.engine.transport.ws._socket;
  pause ? connection.pause() : connection.resume();
  say({ on: 'paused', paused: pause });
});
input.on('close', () => socket.close());
