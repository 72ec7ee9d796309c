// node node.mjs <broker's WebSocket URL> <URL of the test's control server>
import { Client, Versions } from '@stomp/stompjs';
import { WebSocket } from 'ws';
import { runAll } from './scenarios.mjs';

const [url, control] = process.argv.slice(2);
const post = (path, data) => fetch(control + path, { method: 'POST', body: JSON.stringify(data) });

const env = {
  url,
  Client,
  Versions,
  socket: (to, protocols = Versions.default.protocolVersions()) => new WebSocket(to, protocols),
  restart: () => post('/restart', {}),
};
await runAll(env, 'node', (name, error) => post('/report', { name, error }));
await post('/done', {});
