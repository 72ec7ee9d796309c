// What a user of @stomp/stompjs relies on. The same file runs in Node and in a browser: it gets the Client class
// and the broker's URL, and knows neither `ws` nor the DOM. Each scenario throws when the broker lets it down.

const WAIT = 90000;

function check(condition, text) {
  if (!condition) throw new Error(text);
}

function same(got, expected, what) {
  check(got === expected, `${what}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(got)}`);
}

function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not happen within ${WAIT} ms`)), WAIT);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// What arrives in order, and may be waited for.
class Inbox {
  constructor() {
    this.items = [];
    this.waiting = [];
  }
  put = (item) => {
    const waiter = this.waiting.shift();
    if (waiter) waiter(item);
    else this.items.push(item);
  };
  take(what) {
    if (this.items.length) return Promise.resolve(this.items.shift());
    return within(new Promise((resolve) => this.waiting.push(resolve)), what);
  }
}

// A connected client with helpers that wait; `close()` it.
class Session {
  static async open(env, options = {}) {
    const self = new Session();
    self.connects = new Inbox();
    self.errors = new Inbox();
    self.numbers = 0;
    self.closes = 0;
    self.client = new env.Client({
      webSocketFactory: () => env.socket(env.url),
      reconnectDelay: 0,
      heartbeatIncoming: 0,
      heartbeatOutgoing: 0,
      onConnect: self.connects.put,
      onStompError: self.errors.put,
      onWebSocketClose: () => (self.closes += 1),
      ...options,
    });
    self.client.activate();
    self.connected = await self.connects.take('CONNECTED');
    return self;
  }
  receipt(act) {
    const id = `receipt-${this.numbers++}`;
    const came = new Promise((resolve) => this.client.watchForReceipt(id, resolve));
    act({ receipt: id });
    return within(came, `RECEIPT ${id}`);
  }
  async subscribe(destination, headers = {}) {
    const inbox = new Inbox();
    await this.receipt((receipt) => this.client.subscribe(destination, inbox.put, { ...headers, ...receipt }));
    return inbox;
  }
  send(destination, content, headers = {}) {
    return this.receipt((receipt) =>
      this.client.publish({ destination, ...content, headers: { ...headers, ...receipt } }),
    );
  }
  close() {
    return this.client.deactivate();
  }
}

function equalBytes(got, expected) {
  check(got.length === expected.length, `${got.length} bytes instead of ${expected.length}`);
  for (let i = 0; i < expected.length; i++) check(got[i] === expected[i], `byte ${i} is ${got[i]}, not ${expected[i]}`);
}

function bytes(length) {
  const out = new Uint8Array(length);
  for (let i = 0; i < length; i++) out[i] = (i * 31 + (i >> 8)) & 255;
  return out;
}

async function echoText(env, name, options) {
  const session = await Session.open(env, options);
  const inbox = await session.subscribe(`/queue/${name}`);
  for (const text of ['hello', 'Grüße, 東京 🐘', 'two\nlines', '']) {
    await session.send(`/queue/${name}`, { body: text }, { stadt: '東京' });
    const message = await inbox.take('MESSAGE');
    same(message.body, text, 'body');
    same(message.headers.stadt, '東京', 'header');
  }
  await session.close();
  return session;
}

export const scenarios = {
  async text(env, name) {
    const session = await echoText(env, name);
    same(session.connected.headers.version, '1.2', 'version');
  },

  async text_11(env, name) {
    const session = await echoText(env, name, { stompVersions: new env.Versions(['1.1']) });
    same(session.connected.headers.version, '1.1', 'version');
  },

  async text_10(env, name) {
    const session = await echoText(env, name, { stompVersions: new env.Versions(['1.0']) });
    same(session.connected.headers.version, '1.0', 'version');
  },

  async text_in_binary_websocket_frames(env, name) {
    await echoText(env, name, { forceBinaryWSFrames: true });
  },

  async subprotocol(env) {
    const session = await Session.open(env, {
      webSocketFactory: () => env.socket(env.url, ['v10.stomp', 'v11.stomp', 'v12.stomp']),
    });
    same(session.client.webSocket.protocol, 'v12.stomp', 'sub-protocol');
    await session.close();
  },

  async header_escapes(env, name) {
    const session = await Session.open(env);
    const inbox = await session.subscribe(`/queue/${name}`);
    const odd = 'a:b\\ d\ne'; // a backslash before c, n or r comes out wrong: stompjs undoes escapes one kind at a time
    await session.send(`/queue/${name}`, { body: 'x' }, { odd });
    same((await inbox.take('MESSAGE')).headers.odd, odd, 'header');
    await session.close();
  },

  async binary(env, name) {
    const session = await Session.open(env);
    const inbox = await session.subscribe(`/queue/${name}`);
    const nuls = new Uint8Array([0, 0, 65, 0]);
    for (const body of [bytes(1), bytes(5000), nuls]) {
      await session.send(`/queue/${name}`, { binaryBody: body, skipContentLengthHeader: false });
      equalBytes((await inbox.take('MESSAGE')).binaryBody, body);
    }
    await session.close();
  },

  async split_frames(env, name) {
    const session = await Session.open(env, { splitLargeFrames: true, maxWebSocketChunkSize: 777 });
    const inbox = await session.subscribe(`/queue/${name}`);
    const text = 'Grüße aus 東京. '.repeat(2000);
    await session.send(`/queue/${name}`, { body: text });
    same((await inbox.take('MESSAGE')).body, text, 'body');
    await session.close();
  },

  async large(env, name) {
    const session = await Session.open(env, { splitLargeFrames: true, maxWebSocketChunkSize: 64 * 1024 });
    const inbox = await session.subscribe(`/queue/${name}`);
    const text = '0123456789abcdef'.repeat(200_000);
    await session.send(`/queue/${name}`, { body: text });
    check((await inbox.take('MESSAGE')).body === text, 'another text came back');
    const binary = bytes(700_000);
    await session.send(`/queue/${name}`, { binaryBody: binary });
    equalBytes((await inbox.take('MESSAGE')).binaryBody, binary);
    await session.close();
  },

  // One WebSocket message each, as it comes without any option.
  async large_in_default_mode(env, name) {
    const session = await Session.open(env);
    const inbox = await session.subscribe(`/queue/${name}`);
    for (const length of [1_000_000, 30_000_000]) {
      const text = '0123456789 grüße '.repeat(length / 17);
      await session.send(`/queue/${name}`, { body: text });
      check((await inbox.take('MESSAGE')).body === text, 'another text came back');
    }
    const binary = bytes(2_000_000);
    await session.send(`/queue/${name}`, { binaryBody: binary });
    equalBytes((await inbox.take('MESSAGE')).binaryBody, binary);
    same(session.closes, 0, 'closes');
    await session.close();
  },

  async many(env, name) {
    const session = await Session.open(env);
    const inbox = await session.subscribe(`/queue/${name}`);
    for (let n = 0; n < 2000; n++) session.client.publish({ destination: `/queue/${name}`, body: `${n}` });
    for (let n = 0; n < 2000; n++) same((await inbox.take('MESSAGE')).body, `${n}`, 'order');
    await session.close();
  },

  async acknowledge(env, name) {
    const session = await Session.open(env);
    const inbox = await session.subscribe(`/queue/${name}`, { ack: 'client-individual' });
    await session.send(`/queue/${name}`, { body: 'again' });
    await session.send(`/queue/${name}`, { body: 'once' });
    const again = await inbox.take('MESSAGE');
    const once = await inbox.take('MESSAGE');
    await session.receipt((receipt) => once.ack(receipt));
    await session.receipt((receipt) => again.nack({ ...receipt, requeue: 'true' }));
    const second = await inbox.take('redelivery');
    same(second.body, 'again', 'body');
    same(second.headers.redelivered, 'true', 'redelivered');
    await session.receipt((receipt) => second.ack(receipt));
    await session.close();
    const after = await Session.open(env);
    const rest = await after.subscribe(`/queue/${name}`);
    await after.send(`/queue/${name}`, { body: 'end' });
    same((await rest.take('MESSAGE')).body, 'end', 'what was left');
    await after.close();
  },

  async transaction(env, name) {
    const session = await Session.open(env);
    const inbox = await session.subscribe(`/queue/${name}`);
    const aborted = session.client.begin();
    session.client.publish({ destination: `/queue/${name}`, body: 'no', headers: { transaction: aborted.id } });
    aborted.abort();
    const committed = session.client.begin();
    session.client.publish({ destination: `/queue/${name}`, body: 'yes', headers: { transaction: committed.id } });
    await session.send(`/queue/${name}`, { body: 'first' });
    committed.commit();
    same((await inbox.take('MESSAGE')).body, 'first', 'before COMMIT');
    same((await inbox.take('MESSAGE')).body, 'yes', 'after COMMIT');
    await session.close();
  },

  async topic(env, name) {
    const sessions = [await Session.open(env), await Session.open(env)];
    const inboxes = [];
    for (const session of sessions) inboxes.push(await session.subscribe(`/topic/${name}`));
    await sessions[0].send(`/topic/${name}`, { body: 'all' });
    for (const inbox of inboxes) same((await inbox.take('MESSAGE')).body, 'all', 'body');
    for (const session of sessions) await session.close();
  },

  async error(env, name) {
    const session = await Session.open(env);
    session.client.subscribe(`/queue/${name}`, () => {}, { selector: 'colour = ' });
    const error = await session.errors.take('ERROR');
    check(error.headers.message.startsWith('Invalid selector'), error.headers.message);
    await session.close();
  },

  async heart_beats(env) {
    const session = await Session.open(env, { heartbeatIncoming: 500, heartbeatOutgoing: 500 });
    same(session.connected.headers['heart-beat'], '500,500', 'heart-beat');
    await pause(2500);
    same(session.closes, 0, 'closed connections');
    await session.receipt((receipt) =>
      session.client.publish({ destination: '/topic/clients.nobody', headers: receipt }),
    );
    await session.close();
  },

  // Last: it restarts the broker.
  async reconnect(env, name) {
    const session = await Session.open(env, { reconnectDelay: 100, maxReconnectDelay: 100 });
    await session.send(`/queue/${name}`, { body: 'kept' }, { persistent: 'true' });
    await env.restart();
    await session.connects.take('second CONNECTED');
    const inbox = await session.subscribe(`/queue/${name}`);
    const kept = await inbox.take('MESSAGE');
    same(kept.body, 'kept', 'body');
    await session.send(`/queue/${name}`, { body: 'new' });
    same((await inbox.take('MESSAGE')).body, 'new', 'body');
    await session.close();
  },
};

// Runs all, one after the other; tells `report(name, error text or "")`.
export async function runAll(env, prefix, report) {
  for (const [name, scenario] of Object.entries(scenarios)) {
    let error = '';
    try {
      await within(scenario(env, `${prefix}.${name}`), name);
    } catch (problem) {
      error = String(problem.stack || problem);
    }
    await report(name, error);
  }
}
